//! A value that is deleted or set stays so, whatever is being loaded.

use coord_cache::CacheOptions;
use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::recorder::recorder;
use tokio::time::Instant;

use super::{
    Alone, DEADLINE, Faults, Loads, PLACEHOLDER, SOON, Stage, life, name, near, options, text,
};

fn every_kind() -> [CacheOptions; 3] {
    [options(), options().stale(life(60_000)), near()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_during_a_load_is_not_undone_by_it() {
    let stage = need!(Stage::new().await);
    for (n, kind) in every_kind().into_iter().enumerate() {
        let cache = stage.cache(kind.clone()).await;
        let others = stage.cache(kind).await;
        for (deleter, by) in [(&cache, "mine"), (&others, "theirs")] {
            let entry = name(&format!("{n}-{by}"));
            let loads = Loads::default();
            let loading = tokio::spawn({
                let (cache, entry, load) = (cache.clone(), entry.clone(), loads.held("old"));
                async move { cache.get_or_fetch(&entry, load).await }
            });
            loads.begins().await;

            deleter.delete(&entry).await.unwrap();
            loads.let_go();

            // Its callers have waited for it and get it; nobody else does.
            assert_eq!(text(loading.await.unwrap()), "old");
            assert!(!stage.exists(entry.as_str()).await, "{entry}");
            for cache in [&cache, &others] {
                assert_eq!(cache.get(&entry).await.unwrap(), None);
            }
            let next = cache.get_or_fetch(&entry, loads.at_once("new")).await;
            assert_eq!(text(next), "new");
            let key = stage.key(entry.as_str());
            let fields = [("cause", "undone"), ("entry", key.as_str())];
            recorder()
                .event("redis.cache.not_stored", &fields, SOON)
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_after_a_delete_is_not_served_a_load_from_before_it() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let loads = Loads::default();
    let old = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("old"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;

    cache.delete(&name("1")).await.unwrap();
    let start = Instant::now();
    let new = cache.get_or_fetch(&name("1"), loads.at_once("new")).await;

    assert_eq!(text(new), "new");
    assert!(start.elapsed() < PLACEHOLDER, "it waits for nobody");
    loads.let_go();
    assert_eq!(text(old.await.unwrap()), "old");
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_during_a_load_is_not_undone_by_it() {
    let stage = need!(Stage::new().await);
    for (n, kind) in every_kind().into_iter().enumerate() {
        let cache = stage.cache(kind.clone()).await;
        let others = stage.cache(kind).await;
        for (setter, by) in [(&cache, "mine"), (&others, "theirs")] {
            let entry = name(&format!("{n}-{by}"));
            let loads = Loads::default();
            let loading = tokio::spawn({
                let (cache, entry, load) = (cache.clone(), entry.clone(), loads.held("old"));
                async move { cache.get_or_fetch(&entry, load).await }
            });
            loads.begins().await;

            setter.set(&entry, &"new".to_owned()).await.unwrap();
            let after = setter.get_or_fetch(&entry, loads.at_once("no turn")).await;
            loads.let_go();

            assert_eq!(text(after), "new");
            assert_eq!(text(loading.await.unwrap()), "old");
            for cache in [&cache, &others] {
                assert_eq!(*cache.get(&entry).await.unwrap().unwrap(), "new");
            }
            assert_eq!(loads.begun(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_while_a_stale_value_is_loaded_anew_is_not_undone_by_it() {
    let stage = need!(Stage::new().await);
    let cache = stage
        .cache(options().ttl(life(20)).stale(life(60_000)))
        .await;
    let loads = Loads::default();
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let stale = cache.get_or_fetch(&name("1"), loads.held("older")).await;
    assert_eq!(text(stale), "old");
    loads.begins().await;

    cache.delete(&name("1")).await.unwrap();
    loads.let_go();

    let key = stage.key("1");
    let fields = [("cause", "undone"), ("entry", key.as_str())];
    recorder()
        .event("redis.cache.not_stored", &fields, SOON)
        .await;
    assert!(!stage.exists("1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_during_an_outage_says_that_it_did_not_happen() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    proxy.refuse().await;
    proxy.cut().await;
    // From here on the cut is known, so that nothing is sent which may be executed.
    cache.get(&name("1")).await.unwrap_err();

    let start = Instant::now();
    let error = cache.delete(&name("1")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(start.elapsed() < DEADLINE + SOON);
    let key = stage.key("1");
    let fields = [("entries", key.as_str())];
    recorder()
        .event("redis.cache.delete_failed", &fields, SOON)
        .await;
    assert!(stage.exists("1").await);
    proxy.heal().await;
    cache.delete(&name("1")).await.unwrap();
    assert!(!stage.exists("1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_whose_answer_is_lost_is_sent_again_and_one_without_any_answer_is_unknown() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    let lost = proxy.lose_reply_to("UNLINK");

    cache.delete(&name("1")).await.unwrap();
    lost.await;
    assert!(!stage.exists("1").await);

    stage.server.pause().await;
    let error = cache.delete(&name("1")).await.unwrap_err();
    stage.server.resume().await;
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

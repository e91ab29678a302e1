//! While Redis is away, slow or forgetful.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{Alone, DEADLINE, Faults, Loads, SOON, life, name, options, text};

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_values_are_loaded_without_it_once_a_key_and_soon_at_once() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    proxy.refuse().await;
    proxy.cut().await;
    let loads = Loads::default();

    let start = Instant::now();
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (cache, load) = (cache.clone(), loads.held("Ada"));
            tokio::spawn(async move { cache.get_or_fetch(&name("1"), load).await })
        })
        .collect();
    loads.begins().await;
    assert!(start.elapsed() < DEADLINE + SOON);
    loads.let_go();
    for caller in callers {
        assert_eq!(text(caller.await.unwrap()), "Ada");
    }
    assert_eq!(loads.begun(), 1);

    // Twenty waits for the deadline would take twenty seconds.
    let start = Instant::now();
    for n in 0..20 {
        let loaded = cache
            .get_or_fetch(&name(&n.to_string()), loads.at_once("Bob"))
            .await;
        assert_eq!(text(loaded), "Bob");
    }
    assert!(start.elapsed() < DEADLINE * 10);
    assert_eq!(loads.begun(), 21);
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str())];
    recorder()
        .event("redis.cache.degraded", &fields, SOON)
        .await;

    // A read without a loader says so, and a write does not pretend.
    let error = cache.get(&name("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = cache.set(&name("1"), &"x".to_owned()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    proxy.heal().await;
    eventually(SOON, "the cache is back", || async {
        cache
            .get(&name("1"))
            .await
            .is_ok_and(|value| value.is_some())
    })
    .await;
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_holds_a_load_up_for_no_longer_than_the_deadline() {
    let stage = need!(Alone::new().await);
    let cache = stage.cache(options()).await;
    stage.server.pause().await;
    let loads = Loads::default();

    let start = Instant::now();
    let loaded = cache.get_or_fetch(&name("1"), loads.at_once("Ada")).await;

    assert_eq!((text(loaded), loads.begun()), ("Ada".to_owned(), 1));
    assert!(start.elapsed() < DEADLINE + Duration::from_secs(5));
    stage.server.resume().await;
    // What the paused server did in the end holds nobody up.
    let start = Instant::now();
    eventually(SOON, "it is stored", || async {
        _ = cache.get_or_fetch(&name("1"), loads.at_once("Bob")).await;
        cache
            .get(&name("1"))
            .await
            .is_ok_and(|value| value.is_some())
    })
    .await;
    assert!(start.elapsed() < SOON);
    assert!(stage.pttl("1").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_answer_is_lost_finds_its_own_placeholder() {
    let stage = need!(Alone::new().await);
    for (n, kind) in [options(), options().stale(life(1000))]
        .into_iter()
        .enumerate()
    {
        let (proxy, cache) = stage.proxied(kind).await;
        let entry = n.to_string();
        let lost = proxy.lose_reply_to(stage.key(&entry).as_str());
        let loads = Loads::default();

        let start = Instant::now();
        let loaded = cache
            .get_or_fetch(&name(&entry), loads.at_once("Ada"))
            .await;
        lost.await;

        assert_eq!((text(loaded), loads.begun()), ("Ada".to_owned(), 1));
        assert!(
            start.elapsed() < super::PLACEHOLDER,
            "it does not wait for itself"
        );
        assert_eq!(*cache.get(&name(&entry)).await.unwrap().unwrap(), "Ada");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_answer_is_lost_is_known_to_have_happened() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    let loads = Loads::default();
    let loading = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    let lost = proxy.lose_reply_to(stage.key("1").as_str());

    loads.let_go();

    lost.await;
    assert_eq!(text(loading.await.unwrap()), "Ada");
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Ada");
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str())];
    assert!(
        recorder()
            .seen("redis.cache.not_stored", &fields)
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_in_the_middle_of_a_load_costs_the_stored_value_and_nothing_else() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    let loads = Loads::default();
    let loading = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    proxy.refuse().await;
    proxy.cut().await;

    loads.let_go();

    assert_eq!(text(loading.await.unwrap()), "Ada");
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("cause", "refused")];
    recorder()
        .event("redis.cache.not_stored", &fields, SOON)
        .await;
    proxy.heal().await;
    eventually(SOON, "its placeholder is gone", || async {
        !stage.exists("1").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_flush_everything_is_loaded_again() {
    let stage = need!(Alone::new().await);
    let cache = stage.cache(options()).await;
    let loads = Loads::default();
    for _ in 0..2 {
        assert_eq!(
            text(cache.get_or_fetch(&name("1"), loads.at_once("Ada")).await),
            "Ada"
        );
        stage.ask(&["FLUSHALL"]).await;
    }
    assert_eq!(loads.begun(), 2);

    // Also in the middle of a load.
    let loading = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Bob"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    stage.ask(&["FLUSHALL"]).await;
    loads.let_go();
    assert_eq!(text(loading.await.unwrap()), "Bob");
    assert!(!stage.exists("1").await);
}

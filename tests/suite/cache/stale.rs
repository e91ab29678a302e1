//! Values past their TTL, and before it.

use std::io;
use std::time::Duration;

use coord_cache::CacheOptions;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;

use super::{Loads, SOON, Stage, life, name, options, text};

/// Fresh for a moment, stale for a minute.
fn soon_stale() -> CacheOptions {
    options().ttl(life(30)).stale(life(60_000))
}

async fn is_stale() {
    tokio::time::sleep(Duration::from_millis(40)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_value_is_served_at_once_and_loaded_anew_by_one() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (
        stage.cache(soon_stale()).await,
        stage.cache(soon_stale()).await,
    );
    let loads = Loads::default();
    mine.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_stale().await;

    // Whoever may not load does not get it.
    assert_eq!(mine.get(&name("1")).await.unwrap(), None);
    assert_eq!(
        text(mine.get_or_fetch(&name("1"), loads.held("new")).await),
        "old"
    );
    loads.begins().await;
    for cache in [&mine, &theirs, &mine, &theirs] {
        let load = loads.at_once("no turn");
        assert_eq!(text(cache.get_or_fetch(&name("1"), load).await), "old");
    }
    // A caller's client asks in the background whether somebody loads; none of these may.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(loads.begun(), 1);
    loads.let_go();

    eventually(SOON, "the new one is served", || async {
        text(
            theirs
                .get_or_fetch(&name("1"), loads.at_once("newer"))
                .await,
        ) != "old"
    })
    .await;
    let mark = stage.key("1").part("refresh");
    assert!(stage.ask(&["PTTL", mark.as_str()]).await != "-1");
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str())];
    recorder().event("redis.cache.stale", &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_value_is_served_on_while_its_loader_fails() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(soon_stale()).await;
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_stale().await;

    for _ in 0..5 {
        let failing = || async { Err::<String, _>(io::Error::other("the database is away")) };
        assert_eq!(text(cache.get_or_fetch(&name("1"), failing).await), "old");
    }

    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("cause", "error")];
    recorder()
        .event("redis.cache.load_failed", &fields, SOON)
        .await;
    // Soon somebody tries again.
    let loads = Loads::default();
    eventually(SOON, "it is loaded", || async {
        text(cache.get_or_fetch(&name("1"), loads.at_once("new")).await) == "new"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_refresh_delays_nobody_and_its_caller_may_go() {
    let stage = need!(Stage::new().await);
    let limited = soon_stale()
        .load_timeout(Duration::from_millis(200))
        .unwrap();
    let cache = stage.cache(limited).await;
    let loads = Loads::default();
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_stale().await;
    let caller = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("never"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    assert_eq!(text(caller.await.unwrap()), "old");
    loads.begins().await;

    let again = cache
        .get_or_fetch(&name("1"), loads.at_once("no turn"))
        .await;

    assert_eq!(text(again), "old");
    eventually(SOON, "somebody else loads it", || async {
        text(cache.get_or_fetch(&name("1"), loads.at_once("new")).await) == "new"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_thing_that_is_gone_is_removed() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(soon_stale()).await;
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_stale().await;

    let gone = || async { Ok::<Option<String>, io::Error>(None) };
    assert_eq!(text(cache.get_or_fetch(&name("1"), gone).await), "old");

    eventually(SOON, "it is removed", || async { !stage.exists("1").await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_took_long_to_load_is_loaded_anew_before_its_end() {
    let stage = need!(Stage::new().await);
    let cache = stage
        .cache(options().ttl(life(60_000)).early_refresh())
        .await;
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        Ok::<_, io::Error>("old".to_owned())
    };
    assert_eq!(text(cache.get_or_fetch(&name("1"), slow).await), "old");
    let loads = Loads::default();
    assert_eq!(
        text(cache.get_or_fetch(&name("1"), loads.at_once("x")).await),
        "old"
    );
    assert_eq!(loads.begun(), 0, "a minute before its end");

    // A moment before its end every reader is likely to load it.
    eventually(SOON, "it is loaded anew, and never misses", || async {
        stage
            .ask(&["PEXPIRE", stage.key("1").as_str(), "50", "XX"])
            .await;
        text(cache.get_or_fetch(&name("1"), loads.at_once("new")).await) == "new"
    })
    .await;
}

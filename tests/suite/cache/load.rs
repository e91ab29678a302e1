//! One load a key, and what becomes of it.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use coord_cache::LoadError;
use coord_core::{Error, ErrorKind};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{Alone, Faults, Loads, SOON, Stage, name, options, text};

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_miss_together_load_once_and_get_the_same_value() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let loads = Loads::default();

    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (cache, load) = (cache.clone(), loads.held("Ada"));
            tokio::spawn(async move { cache.get_or_fetch(&name("1"), load).await })
        })
        .collect();
    loads.begins().await;
    loads.let_go();

    for caller in callers {
        assert_eq!(text(caller.await.unwrap()), "Ada");
    }
    assert_eq!(loads.begun(), 1);
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Ada");
    let key = stage.key("1");
    let fields = [("entry", key.as_str()), ("by", "process")];
    recorder()
        .events("redis.cache.spared", &fields, 1, SOON)
        .await;
    let fields = [("entry", key.as_str())];
    recorder().event("redis.cache.load", &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_dropped_takes_no_load_along() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let loads = Loads::default();
    let leader = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let (cache, load) = (cache.clone(), loads.held("another"));
            tokio::spawn(async move { cache.get_or_fetch(&name("1"), load).await })
        })
        .collect();

    leader.abort();
    _ = leader.await;
    loads.let_go();

    for waiter in waiters {
        assert_eq!(text(waiter.await.unwrap()), "Ada");
    }
    assert_eq!(loads.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_dropped_before_redis_answered_leaves_the_load_to_the_others() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(options()).await;
    let loads = Loads::default();
    let mut hold = proxy.hold_request(stage.key("1").as_str());
    let leader = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    hold.reached().await;
    let waiter = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("another"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });

    leader.abort();
    _ = leader.await;
    hold.release();
    loads.begins().await;
    loads.let_go();

    assert_eq!(text(waiter.await.unwrap()), "Ada");
    assert_eq!(loads.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_whose_callers_are_all_gone_is_finished_and_stored() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let loads = Loads::default();
    let caller = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;

    caller.abort();
    _ = caller.await;
    loads.let_go();

    eventually(SOON, "it is stored", || async {
        cache.get(&name("1")).await.unwrap().is_some()
    })
    .await;
    // A caller that went away is no failure.
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str())];
    assert!(
        recorder()
            .seen("redis.cache.load_failed", &fields)
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loaders_error_reaches_all_who_wait_and_is_not_stored() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let failing = || async { Err::<String, _>(io::Error::other("the database is away")) };

    let (name, missing) = (name("1"), name("2"));
    // Both have asked before either of them waits.
    let (one, other) = tokio::join!(
        cache.get_or_fetch(&name, failing),
        cache.get_or_fetch(&name, failing)
    );

    for outcome in [one, other] {
        let error = outcome.unwrap_err();
        let cause = error.cause::<io::Error>().expect("the loader's own");
        assert_eq!(cause.to_string(), "the database is away");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    let loads = Loads::default();
    assert_eq!(
        text(cache.get_or_fetch(&name, loads.at_once("Ada")).await),
        "Ada"
    );
    let ours = || async { Err::<String, _>(Error::contended("many want it")) };
    let error = cache.get_or_fetch(&missing, ours).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended);
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("cause", "error")];
    recorder()
        .event("redis.cache.load_failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_loader_ends_by_its_limit_and_the_next_caller_loads() {
    let stage = need!(Stage::new().await);
    let limit = options().load_timeout(Duration::from_millis(300)).unwrap();
    let cache = stage.cache(limit).await;
    let loads = Loads::default();
    let waiter = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("never"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;

    let joined = cache
        .get_or_fetch(&name("1"), loads.at_once("no turn"))
        .await;

    for outcome in [joined, waiter.await.unwrap()] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, LoadError::TimedOut(_)));
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    let start = Instant::now();
    let next = cache.get_or_fetch(&name("1"), loads.at_once("Ada")).await;
    assert_eq!((text(next), loads.begun()), ("Ada".to_owned(), 2));
    assert!(
        start.elapsed() < super::PLACEHOLDER,
        "nothing is left of the first"
    );
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("cause", "timeout")];
    recorder()
        .event("redis.cache.load_failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loader_that_panics_leaves_an_error_and_nothing_else() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let panics = || async {
        assert!(std::hint::black_box(false), "a bug of the loader");
        Ok::<_, Infallible>(String::new())
    };

    let outcome = cache.get_or_fetch(&name("1"), panics).await;

    assert!(matches!(outcome, Err(LoadError::Panicked)));
    let start = Instant::now();
    let loads = Loads::default();
    let next = cache.get_or_fetch(&name("1"), loads.at_once("Ada")).await;
    assert_eq!(text(next), "Ada");
    assert!(
        start.elapsed() < super::PLACEHOLDER,
        "nothing is left of the first"
    );
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("cause", "panic")];
    recorder()
        .event("redis.cache.load_failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_that_miss_together_load_once() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.cache(options()).await, stage.cache(options()).await);
    let loads = Loads::default();
    let loading = tokio::spawn({
        let load = loads.held("Ada");
        async move { mine.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    // Nobody is served a placeholder for a value.
    assert_eq!(theirs.get(&name("1")).await.unwrap(), None);
    let waiting = tokio::spawn({
        let load = loads.at_once("another");
        async move { theirs.get_or_fetch(&name("1"), load).await }
    });
    let channel = stage.key("1").channel(0);
    eventually(SOON, "the other one waits for a message", || async {
        let waiting = stage.redis.subscribers(channel.as_str()).await;
        waiting.expect("the server answers") == 1
    })
    .await;

    loads.let_go();

    assert_eq!(text(loading.await.unwrap()), "Ada");
    assert_eq!(text(waiting.await.unwrap()), "Ada");
    assert_eq!(loads.begun(), 1);
    let entry = stage.key("1");
    let fields = [("entry", entry.as_str()), ("by", "fleet")];
    recorder().event("redis.cache.spared", &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_elsewhere_is_tried_here_at_once() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.cache(options()).await, stage.cache(options()).await);
    let loads = Loads::default();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let failing = tokio::spawn({
        async move {
            let load = || async {
                _ = gone.await;
                Err::<String, _>(io::Error::other("the database is away"))
            };
            mine.get_or_fetch(&name("1"), load).await
        }
    });
    eventually(SOON, "it loads", || stage.exists("1")).await;
    let waiting = tokio::spawn({
        let load = loads.at_once("Ada");
        async move { theirs.get_or_fetch(&name("1"), load).await }
    });

    go.send(()).unwrap();

    failing.await.unwrap().unwrap_err();
    let start = Instant::now();
    assert_eq!(text(waiting.await.unwrap()), "Ada");
    assert!(start.elapsed() < super::PLACEHOLDER);
    assert_eq!(loads.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_outlasts_its_placeholder_renews_it() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.cache(options()).await, stage.cache(options()).await);
    let loads = Loads::default();
    let loading = tokio::spawn({
        let load = loads.held("Ada");
        async move { mine.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;
    stage
        .ask(&["PEXPIRE", stage.key("1").as_str(), "2500"])
        .await;
    let waiting = tokio::spawn({
        let load = loads.at_once("another");
        async move { theirs.get_or_fetch(&name("1"), load).await }
    });

    eventually(SOON, "it is renewed", || async {
        stage.pttl("1").await > 2500
    })
    .await;
    loads.let_go();

    assert_eq!(text(loading.await.unwrap()), "Ada");
    assert_eq!(text(waiting.await.unwrap()), "Ada");
    assert_eq!(loads.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_a_load_that_is_under_way() {
    let stage = need!(Stage::new().await);
    let redis = stage.client().await;
    let cache = coord_cache::Cache::new(&redis, &super::users(), options());
    let loads = Loads::default();
    let loading = tokio::spawn({
        let load = loads.held("Ada");
        async move { cache.get_or_fetch(&name("1"), load).await }
    });
    loads.begins().await;

    let (ended, ()) = tokio::join!(redis.shutdown(SOON), async { loads.let_go() });

    ended.unwrap();
    assert_eq!(text(loading.await.unwrap()), "Ada");
    assert_eq!(
        *stage
            .cache(options())
            .await
            .get(&name("1"))
            .await
            .unwrap()
            .unwrap(),
        "Ada"
    );
}

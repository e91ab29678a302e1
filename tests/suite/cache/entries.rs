//! What is stored, for how long, and what of it is understood.

use std::convert::Infallible;
use std::time::Duration;

use coord_cache::{Cache, Raw};
use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;

use super::{Loads, SOON, Stage, connect, life, name, options, text, users};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_is_got_by_others_until_its_ttl_which_every_key_has() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.cache(options()).await, stage.cache(options()).await);

    assert_eq!(mine.get(&name("1")).await.unwrap(), None);
    mine.set(&name("1"), &"Ada".to_owned()).await.unwrap();

    assert_eq!(*theirs.get(&name("1")).await.unwrap().unwrap(), "Ada");
    // Five minutes, up to a tenth less.
    let pttl = stage.pttl("1").await;
    assert!((269_000..=300_000).contains(&pttl), "{pttl}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_ends_with_its_ttl() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options().ttl(life(50))).await;
    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();

    tokio::time::sleep(Duration::from_millis(60)).await;

    assert_eq!(cache.get(&name("1")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_together_does_not_end_together() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let mut ends = std::collections::BTreeSet::new();

    for n in 0..20 {
        cache
            .set(&name(&n.to_string()), &"x".to_owned())
            .await
            .unwrap();
        // The few ms between two calls are not what spreads them.
        ends.insert(stage.pttl(&n.to_string()).await / 1000);
    }

    assert!(ends.len() > 3, "{ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_is_compressed_and_read_back() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let long = "long ".repeat(20_000);

    cache.set(&name("1"), &long).await.unwrap();

    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), long);
    let stored = stage.ask(&["STRLEN", stage.key("1").as_str()]).await;
    assert!(stored.parse::<usize>().unwrap() < 10_000, "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_above_the_limit_is_refused_and_one_at_the_limit_taken() {
    let stage = need!(Stage::new().await);
    let redis = stage.redis().await;
    let cache = Cache::with_codec(&redis, &users(), options().max_bytes(100), Raw);

    cache.set(&name("1"), &vec![7; 100]).await.unwrap();
    let error = cache.set(&name("2"), &vec![7; 101]).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), vec![7; 100]);
    // A loader's value reaches its caller all the same.
    let loaded = cache
        .get_or_fetch(&name("3"), || async { Ok::<_, Infallible>(vec![7; 101]) })
        .await;
    assert_eq!(loaded.unwrap().unwrap().len(), 101);
    assert!(!stage.exists("3").await);
    let key = stage.key("3");
    let fields = [("cause", "unfit"), ("entry", key.as_str())];
    recorder()
        .event("redis.cache.not_stored", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn that_there_is_nothing_is_kept_only_where_it_is_asked_for_and_for_its_own_time() {
    let stage = need!(Stage::new().await);
    let nothing = || async { Ok::<Option<String>, Infallible>(None) };
    let forgetful = stage.cache(options()).await;
    let keeping = stage.cache(options().negative(life(400))).await;

    assert_eq!(
        forgetful.get_or_fetch(&name("1"), nothing).await.unwrap(),
        None
    );
    assert!(!stage.exists("1").await);
    assert_eq!(
        keeping.get_or_fetch(&name("1"), nothing).await.unwrap(),
        None
    );

    let loads = Loads::default();
    let known = forgetful
        .get_or_fetch(&name("1"), loads.at_once("Ada"))
        .await;
    assert_eq!((known.unwrap(), loads.begun()), (None, 0));
    assert_eq!(forgetful.get(&name("1")).await.unwrap(), None);
    assert!((1..=400).contains(&stage.pttl("1").await));
    tokio::time::sleep(Duration::from_millis(450)).await;
    let later = forgetful
        .get_or_fetch(&name("1"), loads.at_once("Ada"))
        .await;
    assert_eq!((text(later), loads.begun()), ("Ada".to_owned(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_schema_is_a_miss_and_is_replaced() {
    let stage = need!(Stage::new().await);
    let old = stage.cache(options()).await;
    let redis = stage.redis().await;
    let new: Cache<u64> = Cache::new(&redis, &users(), options().schema(2));
    old.set(&name("1"), &"seven".to_owned()).await.unwrap();

    assert_eq!(new.get(&name("1")).await.unwrap(), None);
    let loaded = new
        .get_or_fetch(&name("1"), || async { Ok::<_, Infallible>(7) })
        .await;

    assert_eq!(*loaded.unwrap().unwrap(), 7);
    assert_eq!(*new.get(&name("1")).await.unwrap().unwrap(), 7);
    let key = stage.key("1");
    let fields = [("cause", "outdated"), ("entry", key.as_str())];
    recorder()
        .event("redis.cache.unreadable", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_codec_does_not_understand_is_a_miss_and_is_replaced() {
    let stage = need!(Stage::new().await);
    let strings = stage.cache(options()).await;
    let numbers: Cache<u64> = Cache::new(&stage.redis().await, &users(), options());
    strings.set(&name("1"), &"seven".to_owned()).await.unwrap();

    assert_eq!(numbers.get(&name("1")).await.unwrap(), None);
    let loaded = numbers
        .get_or_fetch(&name("1"), || async { Ok::<_, Infallible>(7) })
        .await;

    assert_eq!(*loaded.unwrap().unwrap(), 7);
    assert_eq!(*numbers.get(&name("1")).await.unwrap().unwrap(), 7);
    let key = stage.key("1");
    let fields = [("cause", "undecodable"), ("entry", key.as_str())];
    recorder()
        .event("redis.cache.unreadable", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_caches_is_not_touched() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    stage
        .ask(&["SET", stage.key("text").as_str(), "{\"id\":1}"])
        .await;
    stage.ask(&["LPUSH", stage.key("list").as_str(), "a"]).await;

    for entry in ["text", "list"] {
        let error = cache.get(&name(entry)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let loads = Loads::default();
        let loaded = cache.get_or_fetch(&name(entry), loads.at_once("Ada")).await;
        assert_eq!((text(loaded), loads.begun()), ("Ada".to_owned(), 1));
        let key = stage.key(entry);
        let fields = [("cause", "foreign"), ("entry", key.as_str())];
        recorder()
            .event("redis.cache.unreadable", &fields, SOON)
            .await;
    }

    assert_eq!(
        stage.ask(&["GET", stage.key("text").as_str()]).await,
        "{\"id\":1}"
    );
    assert_eq!(stage.ask(&["LLEN", stage.key("list").as_str()]).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options().stale(life(60_000))).await;
    for n in 0..3 {
        stage.ask(&["SCRIPT", "FLUSH"]).await;
        let loads = Loads::default();
        let entry = name(&n.to_string());

        assert_eq!(
            text(cache.get_or_fetch(&entry, loads.at_once("Ada")).await),
            "Ada"
        );
        stage.ask(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(*cache.get(&entry).await.unwrap().unwrap(), "Ada");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_takes_one_call_and_a_miss_takes_two() {
    let stage = need!(Stage::new().await);
    for options in [options(), options().stale(life(1000))] {
        let cache = stage.cache(options).await;
        // The scripts are known.
        let warm = Loads::default();
        cache
            .get_or_fetch(&name("warm"), warm.at_once("x"))
            .await
            .unwrap();
        cache.get(&name("warm")).await.unwrap();
        stage.ask(&["DEL", stage.key("1").as_str()]).await;
        let monitor = stage.server.monitor().await.unwrap();

        cache
            .get_or_fetch(&name("1"), warm.at_once("Ada"))
            .await
            .unwrap();
        let calls = calls(monitor.lines_with(stage.key("1").as_str()).await.unwrap());
        assert_eq!(calls.len(), 2, "{calls:?}");

        let monitor = stage.server.monitor().await.unwrap();
        cache
            .get_or_fetch(&name("1"), warm.at_once("Ada"))
            .await
            .unwrap();
        cache.get(&name("1")).await.unwrap().unwrap();
        let calls = self::calls(monitor.lines_with(stage.key("1").as_str()).await.unwrap());
        assert_eq!(calls.len(), 2, "{calls:?}");
    }
}

/// What clients sent, without what scripts called.
fn calls(lines: Vec<String>) -> Vec<String> {
    let sent = lines.into_iter().filter(|line| !line.contains(" lua]"));
    sent.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_memory_is_full_what_is_there_is_still_served_and_the_rest_loaded() {
    let stage = need!(Stage::new().await);
    let plain = stage.cache(options()).await;
    let timed = stage.cache(options().stale(life(60_000))).await;
    plain.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    timed.set(&name("2"), &"Bob".to_owned()).await.unwrap();
    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;

    for cache in [&plain, &timed] {
        let loads = Loads::default();
        for (entry, value) in [("1", "Ada"), ("2", "Bob")] {
            let found = cache.get_or_fetch(&name(entry), loads.at_once("new")).await;
            assert_eq!(text(found), value);
        }
        assert_eq!(loads.begun(), 0);
        let loaded = cache.get_or_fetch(&name("3"), loads.at_once("Cy")).await;
        assert_eq!((text(loaded), loads.begun()), ("Cy".to_owned(), 1));
        let error = cache.set(&name("3"), &"Cy".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        // Deleting frees memory.
        cache.delete(&name("4")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_caches_and_two_databases_do_not_mix() {
    let stage = need!(Stage::with(RedisServer::builder()).await);
    let users = stage.cache(options()).await;
    let redis = stage.redis().await;
    let teams: Cache<String> = Cache::new(&redis, &name("teams"), options());
    let other = connect(&format!("{}/1", stage.server.url()), &stage.prefix).await;
    let elsewhere: Cache<String> = Cache::new(&other, &super::users(), options());

    users.set(&name("1"), &"Ada".to_owned()).await.unwrap();

    assert_eq!(teams.get(&name("1")).await.unwrap(), None);
    assert_eq!(elsewhere.get(&name("1")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_ever_without_a_ttl() {
    let stage = need!(Stage::new().await);
    let kept = options().negative(life(60_000));
    let cache = stage.cache(kept.clone()).await;
    let stale = stage.cache(kept.ttl(life(20)).stale(life(60_000))).await;
    let (loads, refreshes) = (Loads::default(), Loads::default());
    cache.set(&name("set"), &"x".to_owned()).await.unwrap();
    cache
        .set_many(&[(name("many"), "x".to_owned())])
        .await
        .unwrap();
    cache
        .get_or_fetch(&name("loaded"), loads.at_once("x"))
        .await
        .unwrap();
    let nothing = || async { Ok::<Option<String>, Infallible>(None) };
    cache
        .get_or_fetch(&name("negative"), nothing)
        .await
        .unwrap();
    let filling = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.held("x"));
        async move { cache.get_or_fetch(&name("placeholder"), load).await }
    });
    loads.begins().await;
    stale.set(&name("stale"), &"x".to_owned()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    stale
        .get_or_fetch(&name("stale"), refreshes.held("x"))
        .await
        .unwrap();
    refreshes.begins().await;

    let mark = stage.key("stale").part("refresh");
    let mut keys = vec![mark.as_str().to_owned()];
    for entry in ["set", "many", "loaded", "negative", "placeholder", "stale"] {
        keys.push(stage.key(entry).as_str().to_owned());
    }
    assert_eq!(stage.ask(&["DBSIZE"]).await, keys.len().to_string());
    for key in keys {
        let pttl: i64 = stage.ask(&["PTTL", &key]).await.parse().unwrap();
        assert!(pttl > 0, "{key}: {pttl}");
    }
    loads.let_go();
    refreshes.let_go();
    assert_eq!(text(filling.await.unwrap()), "x");
}

//! Values in the process.

use std::sync::Arc;
use std::time::Duration;

use coord_cache::Cache;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::{Alone, Faults, Loads, SOON, Stage, connect, life, name, near, options, text, users};

/// Waits until the value is served from the process.
async fn is_near(cache: &Cache<String>, entry: &str) {
    eventually(SOON, "it is kept in the process", || async {
        let entry = name(entry);
        match (cache.get(&entry).await, cache.get(&entry).await) {
            (Ok(Some(one)), Ok(Some(other))) => Arc::ptr_eq(&one, &other),
            _ => false,
        }
    })
    .await;
}

async fn becomes(cache: &Cache<String>, entry: &str, value: Option<&str>) {
    eventually(SOON, "the change is seen", || async {
        let read = cache.get(&name(entry)).await;
        read.is_ok_and(|read| read.as_ref().map(|read| read.as_str()) == value)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_was_read_is_served_without_a_call() {
    let stage = need!(Alone::new().await);
    let cache = stage.cache(near()).await;
    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    is_near(&cache, "1").await;
    let monitor = stage.server.monitor().await.unwrap();

    let loads = Loads::default();
    for _ in 0..2000 {
        assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Ada");
        assert_eq!(
            text(cache.get_or_fetch(&name("1"), loads.at_once("x")).await),
            "Ada"
        );
        assert!(cache.get_many(&[name("1")]).await.unwrap()[0].is_some());
    }

    assert!(
        monitor
            .lines_with(stage.key("1").as_str())
            .await
            .unwrap()
            .is_empty()
    );
    let fields = [("source", "near"), ("cache", "users")];
    recorder().event("redis.cache.hit", &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_anybody_is_seen() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.cache(near()).await, stage.cache(options()).await);
    let stored = stage.key("1");
    theirs.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    is_near(&mine, "1").await;

    theirs.set(&name("1"), &"Bob".to_owned()).await.unwrap();
    becomes(&mine, "1", Some("Bob")).await;
    is_near(&mine, "1").await;

    stage.ask(&["DEL", stored.as_str()]).await;
    becomes(&mine, "1", None).await;

    theirs.set(&name("1"), &"Cy".to_owned()).await.unwrap();
    is_near(&mine, "1").await;
    theirs.delete_prefix("").await.unwrap();
    becomes(&mine, "1", None).await;

    theirs.set(&name("1"), &"Di".to_owned()).await.unwrap();
    is_near(&mine, "1").await;
    stage.ask(&["FLUSHALL"]).await;
    becomes(&mine, "1", None).await;
    let fields = [("cause", "everything")];
    recorder()
        .event("redis.cache.near_flushed", &fields, SOON)
        .await;

    // It still listens, and so does a second one of another name.
    let teams: Cache<String> = Cache::new(&stage.client().await, &name("teams"), near());
    teams.set(&name("1"), &"red".to_owned()).await.unwrap();
    theirs.set(&name("1"), &"Ed".to_owned()).await.unwrap();
    is_near(&teams, "1").await;
    is_near(&mine, "1").await;
    theirs.delete(&name("1")).await.unwrap();
    becomes(&mine, "1", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_near_caches_of_one_client_share_a_connection() {
    let stage = need!(Alone::new().await);
    let redis = stage.client().await;
    // Also two of one name.
    let all: Vec<Cache<String>> = ["users", "users2", "teams", "users"]
        .map(|of| Cache::new(&redis, &name(of), near()))
        .into();
    for cache in &all {
        cache.set(&name("1"), &"x".to_owned()).await.unwrap();
        is_near(cache, "1").await;
    }

    let clients = stage.ask(&["CLIENT", "LIST"]).await;
    let tracking = clients
        .lines()
        .filter(|line| line.contains("name=coord-tracking"));
    assert_eq!(tracking.count(), 1, "{clients}");

    let other = stage.client().await;
    let others: Cache<String> = Cache::new(&other, &name("users2"), options());
    others.delete(&name("1")).await.unwrap();
    becomes(&all[1], "1", None).await;
    assert!(all[0].get(&name("1")).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_process_changes_is_gone_from_it_when_the_call_returns() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(near()).await;
    for round in 0..50 {
        let value = format!("value {round}");
        cache.set(&name("1"), &value).await.unwrap();
        assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), value);
        cache.delete(&name("1")).await.unwrap();
        assert_eq!(cache.get(&name("1")).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_overtaken_by_its_news_is_not_kept() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(near()).await;
    let others = stage.cache(options()).await;
    for entry in ["1", "other"] {
        others.set(&name(entry), &"old".to_owned()).await.unwrap();
    }
    is_near(&cache, "other").await;
    let (monitor, key) = (stage.server.monitor().await.unwrap(), stage.key("1"));
    let mut hold = proxy.hold_reply(key.as_str());
    let reading = tokio::spawn({
        let cache = cache.clone();
        async move { cache.get(&name("1")).await }
    });
    hold.reached().await;
    eventually(SOON, "the question is answered", || async {
        let lines = monitor.lines_with(key.as_str()).await;
        lines.is_ok_and(|lines| !lines.is_empty())
    })
    .await;

    for entry in ["1", "other"] {
        others.set(&name(entry), &"new".to_owned()).await.unwrap();
    }
    // News come in order: those of the other one say that the first have overtaken their answer.
    eventually(SOON, "the news are there", || async {
        let other = name("other");
        let served = tokio::time::timeout(Duration::ZERO, cache.get(&other)).await;
        // It is not in the process any more, and the connection is held.
        served.is_err()
    })
    .await;
    hold.release();

    assert_eq!(
        *reading.await.unwrap().unwrap().unwrap(),
        "old",
        "it was asked before"
    );
    becomes(&cache, "1", Some("new")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_a_cut_are_seen_after_it() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(near()).await;
    let others = stage.cache(options()).await;
    others.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_near(&cache, "1").await;

    proxy.refuse().await;
    proxy.cut().await;
    others.set(&name("1"), &"new".to_owned()).await.unwrap();
    // What may be untrue is not served while nobody tells.
    eventually(SOON, "it is not served any more", || async {
        cache.get(&name("1")).await.is_err()
    })
    .await;
    proxy.heal().await;

    becomes(&cache, "1", Some("new")).await;
    is_near(&cache, "1").await;
    let fields = [("cause", "interrupted")];
    recorder()
        .event("redis.cache.near_flushed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_is_found_and_what_it_kept_dropped() {
    let stage = need!(Alone::new().await);
    let (proxy, cache) = stage.proxied(near()).await;
    let others = stage.cache(options()).await;
    others.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_near(&cache, "1").await;

    proxy.hole();
    others.set(&name("1"), &"new".to_owned()).await.unwrap();

    eventually(SOON, "it is not served any more", || async {
        cache.get(&name("1")).await.is_err()
    })
    .await;
    proxy.heal().await;
    becomes(&cache, "1", Some("new")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_while_the_server_closed_the_connection_are_seen() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.cache(near()).await, stage.cache(options()).await);
    theirs.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_near(&mine, "1").await;
    let clients = stage.ask(&["CLIENT", "LIST"]).await;
    let tracking = clients
        .lines()
        .find(|line| line.contains("name=coord-tracking"));
    let id = tracking
        .and_then(|line| line.split_once("id="))
        .expect("it is there")
        .1;
    let id = id.split(' ').next().expect("a number").to_owned();

    stage.ask(&["CLIENT", "KILL", "ID", &id]).await;
    theirs.set(&name("1"), &"new".to_owned()).await.unwrap();

    becomes(&mine, "1", Some("new")).await;
    is_near(&mine, "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_stays_no_longer_than_it_is_fresh() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(near().ttl(life(300)).stale(life(60_000))).await;
    cache.set(&name("1"), &"old".to_owned()).await.unwrap();
    is_near(&cache, "1").await;

    tokio::time::sleep(Duration::from_millis(320)).await;

    assert_eq!(cache.get(&name("1")).await.unwrap(), None);
    let loads = Loads::default();
    let stale = cache.get_or_fetch(&name("1"), loads.at_once("new")).await;
    assert_eq!(text(stale), "old");
    eventually(SOON, "it is loaded anew", || async { loads.begun() == 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_track_has_a_cache_without_a_near_one() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-client"];
    let stage = need!(Alone::with(RedisServer::builder().user("app", &rules)).await);
    let redis = connect(&stage.server.url_as("app", "secret"), &stage.prefix).await;
    let cache: Cache<String> = Cache::new(&redis, &users(), near());
    let others = stage.cache(options()).await;

    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Ada");
    others.set(&name("1"), &"Bob".to_owned()).await.unwrap();

    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Bob");
    let fields = [("purpose", "tracking")];
    recorder()
        .event("redis.connection.failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_changes_from_all_sides_no_reader_stays_behind() {
    let stage = need!(Stage::new().await);
    let readers = [stage.cache(near()).await, stage.cache(near()).await];
    let writer = stage.cache(options()).await;
    writer.set(&name("1"), &"0".to_owned()).await.unwrap();
    let reading: Vec<_> = readers
        .iter()
        .map(|cache| {
            let cache = cache.clone();
            tokio::spawn(async move {
                let mut last = 0;
                while last < 300 {
                    let value = cache.get(&name("1")).await.unwrap().expect("always there");
                    let value: u32 = value.parse().unwrap();
                    assert!(value >= last, "{value} after {last}");
                    last = value;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();

    for value in 1..=300_u32 {
        writer.set(&name("1"), &value.to_string()).await.unwrap();
    }

    for reader in reading {
        tokio::time::timeout(SOON, reader)
            .await
            .expect("it sees the last")
            .unwrap();
    }
}

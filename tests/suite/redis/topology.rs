//! Sentinel and Cluster.

use std::time::Duration;

use coord_core::{Channel, ErrorKind, Key};
use coord_redis::{Command, Notice, Redis, Reply, Script};
use coord_tests::need;
use coord_tests::servers::{Cluster, RedisServer, Sentinel, since};
use coord_tests::wait::eventually;

use super::{SOON, connect, get, increment, key};

static ADD: Script = Script::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");

#[tokio::test(flavor = "multi_thread")]
async fn after_a_sentinel_failover_calls_and_subscriptions_go_to_the_new_master() {
    let group = need!(Sentinel::start().await);
    let redis = connect(&group.url()).await;
    let counter = key(&redis, "n");
    let channel = counter.channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");
    increment(&redis, &counter).await.expect("connected");

    group.kill_master().await;
    let master = group.wait_for_failover().await;

    eventually(
        Duration::from_secs(20),
        "a call works at the new master",
        || async { increment(&redis, &counter).await.is_ok() },
    )
    .await;
    let stored = master
        .command(&["GET", counter.as_str()])
        .await
        .expect("it answers");
    assert_ne!(stored.text(), "", "the new master has the write");
    let notice = tokio::time::timeout(Duration::from_secs(20), subscription.next()).await;
    assert!(matches!(notice.expect("in time"), Some(Notice::Gap(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_the_writes_that_no_replica_heard_of_and_no_other() {
    let group = need!(Sentinel::start().await);
    let redis = connect(&group.url()).await;
    let counter = key(&redis, "n");
    assert_eq!(increment(&redis, &counter).await.expect("connected"), 1);
    group.detach_replicas().await;
    assert_eq!(increment(&redis, &counter).await.expect("connected"), 2);

    group.fail_over().await;

    eventually(Duration::from_secs(20), "calls work again", || async {
        let get = Command::new("GET").key(&counter).idempotent();
        redis.run(&get).await.is_ok()
    })
    .await;
    assert_eq!(get(&redis, &counter).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_master_is_left_at_the_first_timeout_and_acknowledges_nothing_later() {
    let group = need!(Sentinel::start().await);
    let redis = connect(&group.url()).await;
    let counter = key(&redis, "n");
    increment(&redis, &counter).await.expect("connected");
    let old = group.master().await;

    old.pause().await;
    let error = increment(&redis, &counter).await.expect_err("it is paused");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let master = group.wait_for_failover().await;
    old.resume().await;
    let mut acknowledged = 0;
    eventually(Duration::from_secs(20), "calls work again", || async {
        increment(&redis, &counter).await.is_ok()
    })
    .await;
    for _ in 0..50 {
        acknowledged += i64::from(increment(&redis, &counter).await.is_ok());
    }

    let stored = master
        .command(&["GET", counter.as_str()])
        .await
        .expect("it answers");
    let stored: i64 = stored.text().parse().expect("a number");
    assert!(
        stored > acknowledged,
        "{stored} stored at the master of {acknowledged} acknowledged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gets_every_call_at_the_owner_of_its_slot() {
    let cluster = need!(Cluster::start(3).await);
    let redis = connect(&cluster.url()).await;

    for n in 0..200 {
        let name = key(&redis, &n.to_string());
        let reply = redis
            .run(&ADD.call(&[&name, &name.part("side")]).arg(n))
            .await;
        assert_eq!(
            reply
                .and_then(Reply::int)
                .expect("the slot's owner takes it"),
            n
        );
    }

    let found = redis
        .scan(&redis.keys().pattern("test", ""))
        .await
        .expect("all nodes answer");
    assert_eq!(found.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_in_the_middle_of_its_migration_and_after() {
    let cluster = need!(Cluster::start(3).await);
    let redis = connect(&cluster.url()).await;
    let (there, new) = (key(&redis, "a"), key(&redis, "a").part("new"));
    increment(&redis, &there).await.expect("connected");
    let slot = cluster.slot_of(there.as_str()).await.expect("it answers");
    let from = cluster.node_of_slot(slot).await.expect("it answers");
    let to = (from + 1) % 3;

    cluster.begin_migration(slot, to).await.expect("it begins");
    assert_eq!(
        increment(&redis, &there)
            .await
            .expect("still at the source"),
        2
    );
    assert_eq!(
        increment(&redis, &new)
            .await
            .expect("asked for at the target"),
        1
    );
    cluster.migrate_slot(slot, to).await.expect("it ends");

    assert_eq!(increment(&redis, &there).await.expect("at the target"), 3);
    assert_eq!(get(&redis, &new).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_subscription_follows_its_slot_and_reports_the_gap() {
    need!(since(7, "sharded publish and subscribe"));
    let cluster = need!(Cluster::start(3).await);
    let redis = connect(&cluster.url()).await;
    let name = key(&redis, "a");
    let channel = name.channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");
    publish(&redis, &channel, "before").await;
    assert_eq!(
        next(&mut subscription).await,
        Notice::Message(b"before".as_slice().into())
    );
    let slot = cluster.slot_of(name.as_str()).await.expect("it answers");
    let from = cluster.node_of_slot(slot).await.expect("it answers");

    // Commands are never affected by what the subscription goes through.
    let counting = {
        let (redis, name) = (redis.clone(), key(&redis, "counter"));
        tokio::spawn(async move {
            for expected in 1..=500 {
                let counted = increment(&redis, &name)
                    .await
                    .expect("the slot's owner takes it");
                assert_eq!(counted, expected);
            }
        })
    };
    cluster
        .migrate_slot(slot, (from + 1) % 3)
        .await
        .expect("it ends");
    counting.await.expect("every call got its own reply");

    assert!(matches!(next(&mut subscription).await, Notice::Gap(_)));
    publish(&redis, &channel, "after").await;
    assert_eq!(
        next(&mut subscription).await,
        Notice::Message(b"after".as_slice().into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_goes_where_it_is_sent_though_others_still_name_the_old_owner() {
    need!(since(7, "sharded publish and subscribe"));
    let cluster = need!(Cluster::start(3).await);
    let name = key(&connect(&cluster.url()).await, "a");
    let channel = name.channel(0);
    let slot = cluster.slot_of(name.as_str()).await.expect("it answers");
    let from = cluster.node_of_slot(slot).await.expect("it answers");
    let [old, new, third] = [0, 1, 2].map(|n| &cluster.nodes()[(from + n) % 3]);
    let id = async |node: &RedisServer| {
        let id = node.command(&["CLUSTER", "MYID"]).await;
        id.expect("it answers").text()
    };
    let (old_id, new_id, slot_text) = (id(old).await, id(new).await, slot.to_string());
    let give = async |at: &RedisServer, id: &str| {
        let give = ["CLUSTER", "SETSLOT", &slot_text, "NODE", id];
        at.command(&give).await.expect("permitted");
    };
    // Which node is asked who owns what is chance: of so many clients some ask the third.
    let (mut clients, mut subscriptions) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let redis = connect(&cluster.url()).await;
        subscriptions.push(redis.subscribe(&channel).await.expect("confirmed"));
        clients.push(redis);
    }
    let heard = async {
        for subscription in &mut subscriptions {
            while next(subscription).await != Notice::Message(b"after".as_slice().into()) {}
        }
    };
    let outdated = async {
        loop {
            give(third, &old_id).await;
        }
    };
    let publishing = async {
        let publish = ["SPUBLISH", channel.as_str(), "after"];
        eventually(SOON, "all are there", || async {
            let there = new
                .command(&publish)
                .await
                .ok()
                .and_then(|there| there.int());
            there == Some(8)
        })
        .await;
    };

    cluster
        .begin_migration(slot, (from + 1) % 3)
        .await
        .expect("it begins");
    give(third, &old_id).await;
    give(new, &new_id).await;
    give(old, &new_id).await;

    tokio::select! {
        () = outdated => {}
        () = async { tokio::join!(heard, publishing); } => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_master_without_replica_makes_only_its_own_slots_unavailable() {
    let cluster = need!(Cluster::start(3).await);
    for node in cluster.nodes() {
        let relax = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        node.command(&relax).await.expect("permitted");
    }
    let redis = connect(&cluster.url()).await;
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    for n in 0..60 {
        let name = key(&redis, &n.to_string());
        let slot = cluster.slot_of(name.as_str()).await.expect("it answers");
        match cluster.node_of_slot(slot).await.expect("it answers") {
            0 => lost.push(name),
            _ => kept.push(name),
        }
    }
    let read = async |name: &Key, limit: Duration| {
        let get = Command::new("GET").key(name).idempotent();
        redis
            .run_within(&get, limit)
            .await
            .map_err(|error| error.kind())
    };

    cluster.kill(0).await;

    let limit = Duration::from_millis(200);
    // A call that was under way when the connection ended may have been executed.
    eventually(SOON, "the end of the node is known", || async {
        read(&lost[0], limit).await == Err(ErrorKind::Unavailable)
    })
    .await;
    for name in &lost {
        assert_eq!(read(name, limit).await, Err(ErrorKind::Unavailable));
    }
    for name in &kept {
        assert_eq!(read(name, SOON).await, Ok(Reply::Nil), "{name}");
    }
    assert!(!kept.is_empty());
}

async fn publish(redis: &Redis, channel: &Channel, text: &str) {
    let publish = Command::new(redis.publish_verb())
        .channel(channel)
        .arg(text);
    redis.run(&publish).await.expect("the owner is there");
}

async fn next(subscription: &mut coord_redis::Subscription) -> Notice {
    let next = tokio::time::timeout(SOON, subscription.next());
    next.await
        .expect("a notice comes")
        .expect("the client is open")
}

//! Locks behind sentinels and on a cluster.

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{ErrorKind, KeySpace, Name};
use coord_lock::{LockOptions, Locks, Released, Replication, TryAcquire};
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Cluster, Sentinel};
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{ORDERS, SOON, connect, job, ordered, take, ttl_ms};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_every_client_can_take_locks_at_the_new_master() {
    recorder();
    let group = need!(Sentinel::start().await);
    let url = group.url();
    let prefix = unique("lock");
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Locks::new(&connect(&url, &prefix).await));
    }
    let lock = clients[0]
        .acquire(&job(), SOON, &LockOptions::default())
        .await;
    let lock = lock.expect("it is free");
    let before = lock.fence();

    group.kill_master().await;
    group.wait_for_failover().await;
    drop(lock);

    for locks in &clients {
        for order in ORDERS {
            let lock = locks.acquire(&job(), SOON * 2, &ordered(order)).await;
            let lock = lock.expect("the new master takes it");
            assert!(lock.fence() > before);
            assert_eq!(lock.release().await.unwrap(), Released::Freed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_a_failover_lost_is_given_again_and_only_the_new_owner_keeps_it() {
    recorder();
    let group = need!(Sentinel::start().await);
    let prefix = unique("lock");
    let mine = Locks::new(&connect(&group.url(), &prefix).await);
    let theirs = Locks::new(&connect(&group.url(), &prefix).await);
    group.detach_replicas().await;
    let first = take(&mine, &ttl_ms(15_000)).await;

    group.fail_over().await;
    let second = theirs.acquire(&job(), SOON * 2, &ttl_ms(15_000)).await;
    let second = second.expect("the new master knows of no grant");

    assert!(
        Instant::now() < first.valid_until(),
        "before the first one ends"
    );
    assert!(second.fence() > first.fence());
    let end = first.valid_until();
    tokio::time::timeout(SOON * 2, first.lost()).await.unwrap();
    assert!(Instant::now() < end + Duration::from_millis(500));
    assert_eq!(first.check().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(first.release().await.unwrap(), Released::HeldByOther);
    second.check().unwrap();
    second.renew().await.unwrap();
    assert_eq!(second.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_behind_are_told_and_refuse_no_lock() {
    recorder();
    let group = need!(Sentinel::start().await);
    let locks = Locks::new(&connect(&group.url(), &unique("lock")).await);
    let others = u32::try_from(group.servers().len() - 1).unwrap();
    let all = NonZeroU32::new(others).expect("it has replicas");
    let one = NonZeroU32::MIN;
    let lock = take(&locks, &ttl_ms(15_000)).await;

    let confirmed = lock.replicate(all, SOON).await.unwrap();
    assert_eq!(confirmed, Replication::Confirmed);

    group.detach_replicas().await;
    let short = lock.replicate(one, Duration::from_millis(50)).await;
    assert_eq!(short.unwrap(), Replication::Short { confirmed: 0 });
    lock.check().expect("it is held, and the caller decides");
    let other = Name::new("other").unwrap();
    let other = locks.acquire(&other, SOON, &ttl_ms(15_000)).await;
    let other = other.expect("nobody who did not ask for replicas waits for them");
    assert_eq!(other.release().await.unwrap(), Released::Freed);
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_replica_has_confirmed_survives_the_failover_to_it() {
    recorder();
    let group = need!(Sentinel::start().await);
    let prefix = unique("lock");
    let mine = Locks::new(&connect(&group.url(), &prefix).await);
    let theirs = Locks::new(&connect(&group.url(), &prefix).await);
    let replicas = u32::try_from(group.servers().len() - 1).unwrap();
    let all = NonZeroU32::new(replicas).expect("it has replicas");
    let lock = take(&mine, &ttl_ms(60_000)).await;
    let confirmed = lock.replicate(all, SOON).await.unwrap();
    assert_eq!(confirmed, Replication::Confirmed);

    group.kill_master().await;
    group.wait_for_failover().await;

    eventually(SOON * 2, "the new master renews it", || async {
        lock.renew().await.is_ok()
    })
    .await;
    let theirs = theirs.try_acquire(&job(), &ttl_ms(60_000)).await.unwrap();
    assert!(matches!(theirs, TryAcquire::Held(_)), "{theirs:?}");
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_on_a_cluster_are_taken_waited_for_and_handed_over_on_every_node() {
    recorder();
    let cluster = need!(Cluster::start(3).await);
    let url = cluster.url();
    let prefix = unique("lock");
    let (mine, theirs) = (
        Locks::new(&connect(&url, &prefix).await),
        Locks::new(&connect(&url, &prefix).await),
    );
    let keys = KeySpace::new(&prefix).unwrap();
    let mut nodes = std::collections::BTreeSet::new();

    for order in ORDERS {
        for n in 0..12 {
            let name = Name::new(format!("{n}")).unwrap();
            let key = keys.key("lock", &[&name]);
            let slot = cluster.slot_of(key.as_str()).await.unwrap();
            let node = cluster.node_of_slot(slot).await.unwrap();
            nodes.insert(node);
            let lock = mine.acquire(&name, SOON, &ordered(order)).await.unwrap();
            let waiting = tokio::spawn({
                let (theirs, name) = (theirs.clone(), name.clone());
                async move { theirs.acquire(&name, SOON * 2, &ordered(order)).await }
            });
            let queue = key.part("queue");
            eventually(SOON, "it waits", || async {
                let words = ["EXISTS", queue.as_str()];
                let reply = cluster.nodes()[node].command(&words).await;
                reply.is_ok_and(|reply| reply.int() == Some(1))
            })
            .await;
            lock.renew().await.unwrap();

            assert_eq!(lock.release().await.unwrap(), Released::Freed);

            let next = tokio::time::timeout(Duration::from_secs(8), waiting).await;
            let next = next.expect("long before the TTL").unwrap().unwrap();
            assert_eq!(next.release().await.unwrap(), Released::Freed);
        }
    }
    assert_eq!(nodes.len(), 3, "the names lie on all nodes");
}

//! Limits on a cluster and behind sentinels.

use std::collections::BTreeMap;

use coord_core::{ErrorKind, KeySpace};
use coord_ratelimit::{By, Limit, Limiter, Subject, WithoutRedis};
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Cluster, Sentinel};
use coord_tests::wait::eventually;

use super::{DAY, SOON, connect, each_algorithm, gcra, limiter, name, quota, subject};

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_on_every_node_of_a_cluster_and_a_node_takes_only_its_own_along() {
    recorder();
    let cluster = need!(Cluster::start(3).await);
    let url = cluster.url();
    let prefix = unique("ratelimit");
    let (mine, theirs) = (connect(&url, &prefix).await, connect(&url, &prefix).await);
    let keys = KeySpace::new(&prefix).unwrap();
    let mut on_node = BTreeMap::new();

    for number in 0..12 {
        let text = format!("{number}");
        let key = keys.key("ratelimit", &[&name(&text)]);
        let slot = cluster.slot_of(key.as_str()).await.unwrap();
        on_node.insert(cluster.node_of_slot(slot).await.unwrap(), text.clone());
        for limit in each_algorithm(3, DAY) {
            let (one, other) = (limiter(&mine, [limit.clone()]), limiter(&theirs, [limit]));
            for limiter in [&one, &other, &one] {
                let decision = limiter.try_acquire(&subject(&text), 1).await.unwrap();
                assert!(decision.is_allowed());
            }
            assert!(
                !other
                    .try_acquire(&subject(&text), 1)
                    .await
                    .unwrap()
                    .is_allowed()
            );
            one.refund(&subject(&text), 2).await.unwrap();
            assert_eq!(other.peek(&subject(&text)).await.unwrap().remaining, 2);
            one.reset(&subject(&text)).await.unwrap();
        }
    }
    assert_eq!(on_node.len(), 3, "the subjects lie on all nodes");

    // A group and its members share a slot; two groups do not.
    let limits = [
        Limit::gcra(name("user"), quota(2, DAY), 2).unwrap(),
        Limit::sliding_window(name("org"), quota(3, DAY)),
    ];
    let both = limiter(&mine, limits);
    let (acme, jane) = (name("acme"), name("jane"));
    let together = Subject::each([Subject::member(&acme, &jane), Subject::new(&acme)]);
    let apart = Subject::each([subject("jane"), subject("acme")]);
    assert!(both.try_acquire(&together, 2).await.unwrap().is_allowed());
    assert!(!both.try_acquire(&together, 1).await.unwrap().is_allowed());
    for error in [
        both.try_acquire(&apart, 1).await.err(),
        both.peek(&apart).await.err(),
        both.reset(&apart).await.err(),
    ] {
        assert_eq!(error.expect("two slots").kind(), ErrorKind::Invalid);
    }

    let limiter = Limiter::new(&mine, [gcra(1000, DAY)], WithoutRedis::Allow).unwrap();
    let by = async |node: usize| {
        let decision = limiter.try_acquire(&subject(&on_node[&node]), 1).await;
        decision.unwrap().by()
    };
    // A cluster that lost a node serves the others only when it is told to.
    for node in cluster.nodes() {
        let words = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        node.command(&words).await.unwrap();
    }
    cluster.kill(0).await;
    assert_eq!(by(0).await, Some(By::Policy));
    assert_eq!(
        (by(1).await, by(2).await),
        (Some(By::Redis), Some(By::Redis))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_gives_back_what_was_taken_and_not_replicated_and_no_more() {
    recorder();
    let group = need!(Sentinel::start().await);
    let redis = connect(&group.url(), &unique("ratelimit")).await;
    let limiters = each_algorithm(10, DAY).map(|limit| limiter(&redis, [limit]));
    let subject = subject("a");
    let take = async |limiter: &Limiter, permits: u32| {
        let decision = limiter.try_acquire(&subject, permits).await;
        decision.expect("it is decided").is_allowed()
    };
    for limiter in &limiters {
        assert!(take(limiter, 6).await);
    }
    group.detach_replicas().await;
    for limiter in &limiters {
        assert!(take(limiter, 3).await);
    }

    group.fail_over().await;

    for limiter in &limiters {
        eventually(SOON, "the new master is asked", || async {
            let standing = limiter.peek(&subject).await;
            standing.is_ok_and(|standing| standing.by == By::Redis)
        })
        .await;
        assert_eq!(limiter.peek(&subject).await.unwrap().remaining, 4);
        assert!(take(limiter, 4).await);
        assert!(!take(limiter, 1).await);
    }
}

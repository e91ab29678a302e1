//! Clusters and sentinels.

use std::collections::BTreeSet;

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Cluster, Sentinel, since};
use coord_tests::stage;
use coord_tests::wait::eventually;

use super::{
    SOON, broadcast, config, gap, gets, key, logged, message, name, news, next, publish,
    publish_all,
};

#[tokio::test(flavor = "multi_thread")]
async fn topics_on_every_node_of_a_cluster_are_heard_over_one_connection_a_node() {
    recorder();
    let cluster = need!(Cluster::start(3).await);
    let prefix = unique("broadcast");
    let (mine, theirs) = (
        broadcast(&cluster.url(), &prefix).await,
        broadcast(&cluster.url(), &prefix).await,
    );
    let mut nodes = BTreeSet::new();
    let mut subscriptions = Vec::new();
    for n in 0..24 {
        let text = n.to_string();
        let slot = cluster.slot_of(key(&prefix, &text).as_str()).await.unwrap();
        nodes.insert(cluster.node_of_slot(slot).await.unwrap());
        let topic = Topic::<u64>::new(name(&text)).replay(10.try_into().unwrap());
        subscriptions.push((mine.subscribe(&topic).await.unwrap(), topic, n));
    }
    assert_eq!(nodes.len(), 3, "the topics lie on all nodes");

    for (_, topic, n) in &subscriptions {
        publish(&theirs, topic, *n).await;
    }

    for (subscription, _, n) in &mut subscriptions {
        gets(subscription, [*n]).await;
    }
    for node in cluster.nodes() {
        let list = node.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
        let list = list.unwrap().text();
        assert_eq!(list.lines().count(), 1, "{list}");
    }
    let error = mine.subscribe_matching::<u64>("n").await;
    assert_eq!(error.expect_err("a cluster").kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_its_slot_moves_amid_the_traffic_a_subscriber_accounts_for_every_message() {
    need!(since(7, "sharded publish and subscribe"));
    recorder();
    let cluster = need!(Cluster::start(3).await);
    let prefix = unique("broadcast");
    let mine = broadcast(&cluster.url(), &prefix).await;
    // A busy machine may take seconds to move a slot with a long log, and a call waits for that.
    let patient = config(&cluster.url(), &prefix).deadline(SOON);
    let theirs = Broadcast::new(&stage::connect(patient).await);
    let mut plain = mine.subscribe(&news()).await.unwrap();
    // More than are published, however long it takes.
    let recorded = Topic::<u64>::new(name("recorded")).replay(u32::MAX.try_into().unwrap());
    let mut replayed = mine.subscribe(&recorded).await.unwrap();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let publishing = tokio::spawn({
        let recorded = recorded.clone();
        async move {
            let mut sent = 0;
            while stopped.try_recv().is_err() {
                sent += 1;
                // No call is affected by what the subscriptions go through.
                publish(&theirs, &news(), sent).await;
                publish(&theirs, &recorded, sent).await;
            }
            sent
        }
    });

    for topic in ["news", "recorded"] {
        let slot = cluster.slot_of(key(&prefix, topic).as_str()).await.unwrap();
        let channel = key(&prefix, topic).channel(0);
        let channel = ("channel", channel.as_str());
        for round in 0..6 {
            let from = cluster.node_of_slot(slot).await.unwrap();
            cluster.migrate_slot(slot, (from + 1) % 3).await.unwrap();
            // At times it is moved on before the subscriber has found it again.
            if round % 2 == 1 {
                continue;
            }
            let dropped = [channel, ("cause", "moved")];
            for (key, fields) in [
                ("redis.subscription.dropped", &dropped[..]),
                ("redis.subscription.resubscribed", &[channel][..]),
            ] {
                recorder().events(key, fields, round / 2 + 1, SOON).await;
            }
        }
    }
    stop.send(()).unwrap();
    let sent = publishing.await.unwrap();

    let mut reached = 0;
    while reached < sent {
        match next(&mut plain).await {
            Received::Message(message) => {
                assert_eq!(message.position.sequence(), reached + 1);
                reached += 1;
            }
            Received::Gap(gap) => {
                let missed = gap.missed.expect("the sequence moves with its slot");
                assert_eq!(*missed.start(), reached + 1);
                reached = *missed.end();
            }
            Received::Lagged(count) => reached += count,
        }
    }
    gets(&mut replayed, 1..=sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_a_subscriber_hears_the_new_master() {
    recorder();
    let group = need!(Sentinel::start().await);
    let url = group.url();
    let prefix = unique("broadcast");
    let (mine, theirs) = (
        broadcast(&url, &prefix).await,
        broadcast(&url, &prefix).await,
    );
    let topic = logged(10_000);
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    publish(&theirs, &topic, 1).await;
    gets(&mut subscription, [1]).await;

    group.kill_master().await;
    group.wait_for_failover().await;
    eventually(SOON * 2, "the new master takes messages", || async {
        theirs.publish(&topic, &2).await.is_ok()
    })
    .await;
    let last = publish(&theirs, &topic, 3).await;

    // Whether the first message had reached the replica decides if its sequence is still known.
    loop {
        match next(&mut subscription).await {
            Received::Message(message) if message.position == last => break,
            Received::Message(message) => assert_eq!(message.body().unwrap(), 2),
            Received::Gap(gap) => assert_eq!(gap.missed, None),
            Received::Lagged(_) => panic!("it is not slow"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_takes_messages_back_is_told_as_a_gap_of_unknown_size() {
    recorder();
    let group = need!(Sentinel::start().await);
    let prefix = unique("broadcast");
    let (mine, theirs) = (
        broadcast(&group.url(), &prefix).await,
        broadcast(&group.url(), &prefix).await,
    );
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    publish(&theirs, &news(), 1).await;
    group.detach_replicas().await;
    publish_all(&theirs, &news(), 2..=3).await;
    gets(&mut subscription, 1..=3).await;

    group.fail_over().await;

    // Nothing has been published since.
    assert_eq!(gap(&mut subscription).await.missed, None);
    eventually(SOON * 2, "the new master takes messages", || async {
        theirs.publish(&news(), &4).await.is_ok()
    })
    .await;
    let message = message(&mut subscription).await;
    assert_eq!(
        (message.position.sequence(), message.body().unwrap()),
        (2, 4)
    );
}

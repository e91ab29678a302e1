//! Sequences that begin anew, go back or jump.

use std::time::Duration;

use coord_tests::need;
use coord_tests::recorder::recorder;

use super::{Alone, Faults, SOON, Stage, gap, gets, lost, message, news, publish, publish_all};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_without_its_data_leaves_a_gap_of_unknown_size() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let mut silent = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut silent, [1]).await;

    stage.server.restart().await;

    // Nothing follows.
    assert_eq!(gap(&mut silent).await.missed, None);
    let again = async { broadcast.publish(&news(), &2).await.is_ok() };
    assert!(again.await);
    let message = message(&mut silent).await;
    assert_eq!(
        (message.position.sequence(), message.body().unwrap()),
        (1, 2)
    );
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("cause", "new_epoch")];
    recorder()
        .event("redis.broadcast.gap_unknown", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_epoch_is_a_gap_for_whoever_was_away_and_none_for_whoever_had_it_all() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut away = mine.subscribe(&news()).await.unwrap();
    let mut there = theirs.subscribe(&news()).await.unwrap();
    publish_all(&theirs, &news(), 1..=2).await;
    gets(&mut away, 1..=2).await;

    proxy.refuse().await;
    proxy.cut().await;
    // As if nobody had used it for a week.
    stage.ask(&["DEL", stage.key().as_str()]).await;
    publish_all(&theirs, &news(), 3..=4).await;
    proxy.heal().await;

    assert_eq!(gap(&mut away).await.missed, None);
    publish(&theirs, &news(), 5).await;
    gets(&mut away, [5]).await;
    gets(&mut there, 1..=5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_epoch_that_is_not_heard_from_its_first_message_is_a_gap_of_unknown_size() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    let key = stage.key();
    stage
        .ask(&["SET", key.as_str(), "00000000000000ab:5"])
        .await;
    publish(&broadcast, &news(), 2).await;

    let gap = gap(&mut subscription).await;
    assert_eq!((gap.missed, gap.lasted), (None, Duration::ZERO));
    gets(&mut subscription, [2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_goes_back_is_a_gap_of_unknown_size_and_its_messages_are_delivered() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    publish_all(&theirs, &news(), 1..=5).await;
    gets(&mut subscription, 1..=5).await;
    let key = stage.key();
    let stored = stage.ask(&["GET", key.as_str()]).await;
    let epoch = stored.split_once(':').unwrap().0.to_owned();
    let goes_back = async |sequence: u64| {
        let position = format!("{epoch}:{sequence}");
        stage.ask(&["SET", key.as_str(), &position]).await;
    };

    // As after a failover that lost three writes, while the subscriber was connected.
    goes_back(2).await;
    publish(&theirs, &news(), 6).await;
    assert_eq!(gap(&mut subscription).await.missed, None);
    gets(&mut subscription, [6]).await;
    publish(&theirs, &news(), 7).await;
    gets(&mut subscription, [7]).await;

    // The same while it was not.
    proxy.refuse().await;
    proxy.cut().await;
    goes_back(1).await;
    proxy.heal().await;
    assert_eq!(gap(&mut subscription).await.missed, None);
    publish(&theirs, &news(), 8).await;
    gets(&mut subscription, [8]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("cause", "went_back")];
    recorder()
        .events("redis.broadcast.gap_unknown", &fields, 2, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_a_failover_gave_twice_are_one_message_each_for_whoever_was_away() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut away = mine.subscribe(&news()).await.unwrap();
    let mut there = theirs.subscribe(&news()).await.unwrap();
    publish_all(&theirs, &news(), 1..=5).await;
    gets(&mut away, 1..=5).await;
    gets(&mut there, 1..=5).await;

    // A failover loses the last two writes, and more than those follow.
    proxy.refuse().await;
    proxy.cut().await;
    let key = stage.key();
    let stored = stage.ask(&["GET", key.as_str()]).await;
    let epoch = stored.split_once(':').unwrap().0;
    stage
        .ask(&["SET", key.as_str(), &format!("{epoch}:3")])
        .await;
    publish_all(&theirs, &news(), 6..=8).await;
    proxy.heal().await;

    // This is the limit that the crate's guarantees name: 4 and 5 were given again, and only who
    // was connected can tell.
    lost(6, 6, &gap(&mut away).await);
    assert_eq!(gap(&mut there).await.missed, None);
    gets(&mut there, 6..=8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_jumps_is_a_gap_of_known_size() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    let key = stage.key();
    let stored = stage.ask(&["GET", key.as_str()]).await;
    let epoch = stored.split_once(':').unwrap().0;
    stage
        .ask(&["SET", key.as_str(), &format!("{epoch}:5")])
        .await;
    publish(&broadcast, &news(), 2).await;

    let gap = gap(&mut subscription).await;
    lost(2, 5, &gap);
    assert_eq!(gap.lasted, Duration::ZERO, "it was connected all the time");
    gets(&mut subscription, [2]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("cause", "undelivered")];
    recorder()
        .event("redis.broadcast.missed", &fields, SOON)
        .await;
}

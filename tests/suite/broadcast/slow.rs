//! Subscribers that are too slow.

use coord_broadcast::Received;
use coord_tests::need;
use coord_tests::recorder::recorder;

use super::{Alone, Faults, SOON, Stage, gets, news, next, publish, publish_all};

/// Many times the buffer of a subscriber.
const SENT: u64 = 1000;

/// The messages that are kept for a subscriber.
const KEPT: u64 = 256;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscriber_is_told_how_many_messages_it_missed_and_holds_up_nobody() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let mut slow = broadcast.subscribe(&news()).await.unwrap();
    let mut quick = broadcast.subscribe(&news()).await.unwrap();

    for body in 1..=SENT {
        publish(&broadcast, &news(), body).await;
        gets(&mut quick, [body]).await;
    }

    assert_eq!(next(&mut slow).await, Received::Lagged(SENT - KEPT));
    gets(&mut slow, SENT - KEPT + 1..=SENT).await;
    publish(&broadcast, &news(), SENT + 1).await;
    gets(&mut slow, [SENT + 1]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("cause", "lagged")];
    recorder()
        .event("redis.broadcast.missed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscriber_of_a_pattern_is_told_too() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let mut slow = broadcast.subscribe_matching("n").await.unwrap();
    let mut quick = broadcast.subscribe_matching("n").await.unwrap();

    for body in 1..=KEPT + 10 {
        publish(&broadcast, &news(), body).await;
        gets(&mut quick, [body]).await;
    }

    assert_eq!(next(&mut slow).await, Received::Lagged(10));
    gets(&mut slow, 11..=KEPT + 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscriber_that_was_interrupted_too_accounts_for_every_message() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let mut slow = broadcast.subscribe(&news()).await.unwrap();
    let channel = stage.channel();
    let fields = [("channel", channel.as_str())];

    for round in 1..=3 {
        publish_all(&broadcast, &news(), 0..300).await;
        stage.kill_subscribers().await;
        publish_all(&broadcast, &news(), 0..5).await;
        recorder()
            .events("redis.subscription.resubscribed", &fields, round, SOON)
            .await;
    }
    stage.subscribed_becomes(1).await;
    let last = publish(&broadcast, &news(), 0).await.sequence();

    let mut reached = 0;
    while reached < last {
        match next(&mut slow).await {
            Received::Message(message) => {
                assert_eq!(message.position.sequence(), reached + 1);
                reached += 1;
            }
            Received::Gap(gap) => {
                let missed = gap.missed.expect("the sequence is known");
                assert_eq!(*missed.start(), reached + 1);
                reached = *missed.end();
            }
            Received::Lagged(count) => reached += count,
        }
    }
    assert_eq!(reached, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_come_do_not_fill_the_buffer_of_one_that_is_there() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let mut idle = broadcast.subscribe(&news()).await.unwrap();

    for _ in 0..KEPT + 10 {
        drop(broadcast.subscribe(&news()).await.unwrap());
    }
    publish(&broadcast, &news(), 1).await;

    gets(&mut idle, [1]).await;
}

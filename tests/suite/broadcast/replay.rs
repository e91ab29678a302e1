//! Topics with a log: what was missed comes after all.

use std::time::Duration;

use coord_broadcast::{Received, Topic};
use coord_tests::need;
use coord_tests::recorder::recorder;

use super::{
    Alone, Faults, SOON, Stage, gap, gets, logged, message, name, news, next, publish, publish_all,
    received,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_comes_once_and_in_order_also_when_nothing_follows() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(2000);
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    publish(&theirs, &topic, 1).await;
    gets(&mut subscription, [1]).await;

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &topic, 2..=1000).await;
    proxy.heal().await;

    gets(&mut subscription, 2..=1000).await;
    publish(&theirs, &topic, 1001).await;
    gets(&mut subscription, [1001]).await;
    let channel = stage.channel();
    drop(subscription);
    assert_eq!(received(channel.as_str(), "replayed"), 999);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_no_longer_has_is_a_gap_and_the_rest_comes() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(10);
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    publish(&theirs, &topic, 1).await;
    gets(&mut subscription, [1]).await;

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &topic, 2..=1000).await;
    proxy.heal().await;

    let missed = gap(&mut subscription).await.missed.expect("it is known");
    assert_eq!(*missed.start(), 2);
    assert!(*missed.end() > 500, "the log is bounded: {missed:?}");
    assert!(*missed.end() <= 990, "ten are kept: {missed:?}");
    gets(&mut subscription, missed.end() + 1..=1000).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("cause", "trimmed")];
    recorder()
        .event("redis.broadcast.missed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscriber_gets_from_the_log_what_its_buffer_did_not_keep() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let topic = logged(2000);
    let mut slow = broadcast.subscribe(&topic).await.unwrap();

    publish_all(&broadcast, &topic, 1..=800).await;

    gets(&mut slow, 1..=800).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_resumes_from_a_position_gets_what_came_since_and_then_what_comes() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.broadcast().await, stage.broadcast().await);
    let topic = logged(1000);
    let mut position = publish(&mine, &topic, 1).await;
    let publishing = tokio::spawn(async move {
        for body in 2..=600 {
            publish(&theirs, &logged(1000), body).await;
        }
    });

    let mut expected = 2;
    while expected <= 600 {
        // Somebody who comes, takes a few and goes, again and again amid the traffic.
        let mut subscription = mine.subscribe_from(&topic, position).await.unwrap();
        for _ in 0..20.min(601 - expected) {
            let message = message(&mut subscription).await;
            assert_eq!(message.body().unwrap(), expected);
            position = message.position;
            expected += 1;
        }
    }
    publishing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn across_random_cuts_amid_the_traffic_every_message_comes_once_and_in_order() {
    const SENT: u64 = 2000;
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(SENT as u32);
    let mut subscriptions = [
        mine.subscribe(&topic).await.unwrap(),
        mine.subscribe(&topic).await.unwrap(),
    ];
    let publishing = tokio::spawn(async move {
        for body in 1..=SENT {
            publish(&theirs, &logged(SENT as u32), body).await;
            if body % 7 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let breaking = tokio::spawn({
        let seed = u64::from(std::process::id());
        println!("seed {seed}");
        async move {
            let mut dice = seed;
            let mut roll = |sides: u64| {
                // Knuth's MMIX.
                dice = dice.wrapping_mul(6_364_136_223_846_793_005);
                dice = dice.wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % sides
            };
            while !publishing.is_finished() {
                tokio::time::sleep(Duration::from_millis(roll(60))).await;
                match roll(3) {
                    0 => proxy.cut().await,
                    1 => {
                        proxy.refuse().await;
                        proxy.cut().await;
                        tokio::time::sleep(Duration::from_millis(roll(60))).await;
                        proxy.heal().await;
                    }
                    _ => {
                        _ = proxy.lose_reply_to(["GET", "PING", "XRANGE"][roll(3) as usize]);
                    }
                }
            }
            publishing.await.unwrap();
            proxy.heal().await;
            proxy
        }
    });

    // While it is cut off again and again, a message may take as long as the breaking.
    let received = async {
        for subscription in &mut subscriptions {
            for body in 1..=SENT {
                match subscription.next().await {
                    Some(Received::Message(message)) => assert_eq!(message.body().unwrap(), body),
                    other => panic!("{body} comes, not {other:?}"),
                }
            }
        }
    };
    let all = async { tokio::join!(received, breaking).1.unwrap() };
    tokio::time::timeout(SOON * 12, all)
        .await
        .expect("all come");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_published_without_the_log_is_a_gap_in_the_replay() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(100);
    let mut subscription = mine.subscribe(&topic).await.unwrap();

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &topic, 1..=2).await;
    publish_all(&theirs, &news(), 3..=4).await;
    publish_all(&theirs, &topic, 5..=5).await;
    publish_all(&theirs, &news(), 6..=6).await;
    proxy.heal().await;

    gets(&mut subscription, 1..=2).await;
    assert_eq!(gap(&mut subscription).await.missed, Some(3..=4));
    gets(&mut subscription, [5]).await;
    assert_eq!(gap(&mut subscription).await.missed, Some(6..=6));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_present_epoch_is_replayed() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(100);
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    publish_all(&theirs, &topic, 1..=5).await;
    gets(&mut subscription, 1..=5).await;

    proxy.refuse().await;
    proxy.cut().await;
    publish(&theirs, &topic, 6).await;
    stage.ask(&["DEL", stage.key().as_str()]).await;
    publish_all(&theirs, &topic, 7..=9).await;
    proxy.heal().await;

    assert_eq!(gap(&mut subscription).await.missed, None);
    gets(&mut subscription, 7..=9).await;
    publish(&theirs, &topic, 10).await;
    gets(&mut subscription, [10]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_leaves_the_gap_it_would_have_filled() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(100);
    let mut subscription = mine.subscribe(&topic).await.unwrap();

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &topic, 1..=3).await;
    let log = stage.key().part("log");
    stage.ask(&["SET", log.as_str(), "theirs"]).await;
    proxy.heal().await;

    assert_eq!(gap(&mut subscription).await.missed, Some(1..=3));
    publish(&theirs, &news(), 4).await;
    gets(&mut subscription, [4]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str())];
    recorder()
        .event("redis.broadcast.replay_failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_are_replayed_in_small_reads() {
    const SENT: u64 = 30;
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic: Topic<String> = Topic::new(name("news")).replay(100.try_into().unwrap());
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    let body = "x".repeat(300_000);

    proxy.refuse().await;
    proxy.cut().await;
    for _ in 0..SENT {
        theirs.publish(&topic, &body).await.unwrap();
    }
    proxy.heal().await;

    for sequence in 1..=SENT {
        let next = tokio::time::timeout(SOON, subscription.next()).await;
        let Some(Received::Message(message)) = next.expect("it comes") else {
            panic!("a message comes")
        };
        assert_eq!(message.position.sequence(), sequence);
        assert!(message.body().unwrap() == body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_stops_waiting_in_the_middle_of_a_replay_loses_nothing() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic = logged(1000);
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &topic, 1..=300).await;
    proxy.heal().await;
    stage.subscribed_becomes(1).await;

    let mut expected = 1;
    while expected <= 300 {
        tokio::select! {
            biased;
            received = next(&mut subscription) => {
                let Received::Message(message) = received else { panic!("a message comes") };
                assert_eq!(message.body().unwrap(), expected);
                expected += 1;
            }
            // After the first poll.
            () = tokio::task::yield_now() => {}
        }
    }
}

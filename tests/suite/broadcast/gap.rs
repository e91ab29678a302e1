//! What a subscriber missed, and that it knows.

use std::time::Duration;

use coord_broadcast::{Received, Topic};
use coord_tests::need;
use coord_tests::process::Program;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::time::{Instant, timeout};

use super::{
    Alone, Faults, PING_INTERVAL, SOON, Stage, connect, gap, gets, lost, message, name, news,
    publish, publish_all,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_during_a_cut_is_known_as_missed_when_nothing_follows() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    publish(&theirs, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    let channel = stage.channel();
    proxy.refuse().await;
    proxy.cut().await;
    recorder()
        .event(
            "redis.subscription.dropped",
            &[("channel", channel.as_str())],
            SOON,
        )
        .await;
    let known = Instant::now();
    publish_all(&theirs, &news(), 2..=4).await;
    let lasted = known.elapsed();
    proxy.heal().await;

    let gap = gap(&mut subscription).await;
    lost(2, 4, &gap);
    assert!(gap.lasted >= lasted, "{gap:?}");
    publish(&theirs, &news(), 5).await;
    gets(&mut subscription, [5]).await;
    let fields = [
        ("channel", channel.as_str()),
        ("cause", "interrupted"),
        ("missed", "3"),
    ];
    recorder()
        .event("redis.broadcast.missed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_comes_before_a_message_that_arrives_before_the_sequence_is_read() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    publish(&theirs, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    for (asked, first) in [(true, 2), (false, 5)] {
        let mut subscribing = proxy.hold_request("\r\nSUBSCRIBE\r\n");
        proxy.cut().await;
        subscribing.reached().await;
        publish_all(&theirs, &news(), first..=first + 1).await;
        let mut held = if asked {
            proxy.hold_request("\r\nGET\r\n")
        } else {
            proxy.hold_reply("\r\nGET\r\n")
        };
        subscribing.release();
        // The subscription is confirmed, and its check is under way.
        held.reached().await;
        publish(&theirs, &news(), first + 2).await;

        lost(first, first + 1, &gap(&mut subscription).await);
        gets(&mut subscription, [first + 2]).await;
        held.release();
    }
    publish(&theirs, &news(), 8).await;
    gets(&mut subscription, [8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_in_which_nothing_was_published_is_no_gap() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    let mut unused = broadcast
        .subscribe(&Topic::<u64>::new(name("unused")))
        .await
        .unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str())];

    for round in 1..=3 {
        stage.kill_subscribers().await;
        recorder()
            .events("redis.subscription.resubscribed", &fields, round, SOON)
            .await;
    }
    publish(&broadcast, &news(), 2).await;
    publish(&broadcast, &Topic::new(name("unused")), 1).await;

    gets(&mut subscription, [2]).await;
    gets(&mut unused, [1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_first_used_during_a_cut_is_missed_from_its_first_message() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &news(), 1..=2).await;
    proxy.heal().await;

    lost(1, 2, &gap(&mut subscription).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_is_seen_while_it_lasts() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    let mut receiving = subscription.receiving();
    assert!(*receiving.borrow());

    proxy.refuse().await;
    proxy.cut().await;
    let seen = timeout(SOON, receiving.wait_for(|receives| !receives)).await;
    assert!(seen.expect("soon").is_ok());
    proxy.heal().await;
    let seen = timeout(SOON, receiving.wait_for(|receives| *receives)).await;
    assert!(seen.expect("soon").is_ok());

    publish(&theirs, &news(), 1).await;
    gets(&mut subscription, [1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_is_found_and_its_gap_is_known_and_as_long_as_the_silence() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    let before = Instant::now();
    publish(&theirs, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    proxy.hole();
    let made = proxy.connections_made();
    publish_all(&theirs, &news(), 2..=6).await;
    eventually(SOON, "the silence is found", || async {
        proxy.connections_made() > made
    })
    .await;
    let found = Instant::now();
    // Longer than what a gap from the instant of its discovery could be taken for.
    tokio::time::sleep(PING_INTERVAL).await;
    let lasted = found.elapsed();
    proxy.heal().await;

    let gap = gap(&mut subscription).await;
    lost(2, 6, &gap);
    // From the last sign of life: the first message or a later one, and a health check before it
    // was found.
    assert!(gap.lasted >= lasted + PING_INTERVAL, "{gap:?}");
    assert!(gap.lasted <= before.elapsed(), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_subscriber_of_the_process_is_told_of_the_gap() {
    let stage = need!(Alone::new().await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let mut subscriptions = Vec::new();
    for _ in 0..5 {
        subscriptions.push(mine.subscribe(&news()).await.unwrap());
    }

    proxy.refuse().await;
    proxy.cut().await;
    publish_all(&theirs, &news(), 1..=2).await;
    proxy.heal().await;

    for subscription in &mut subscriptions {
        lost(1, 2, &gap(subscription).await);
    }
    publish(&theirs, &news(), 3).await;
    for subscription in &mut subscriptions {
        gets(subscription, [3]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_resumes_from_a_position_is_told_what_is_gone_since() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let second = {
        publish(&broadcast, &news(), 1).await;
        publish(&broadcast, &news(), 2).await
    };
    let last = {
        publish(&broadcast, &news(), 3).await;
        publish(&broadcast, &news(), 4).await
    };

    let mut behind = broadcast.subscribe_from(&news(), second).await.unwrap();
    let kept: coord_broadcast::Position = last.to_string().parse().unwrap();
    let mut current = broadcast.subscribe_from(&news(), kept).await.unwrap();
    publish(&broadcast, &news(), 5).await;

    lost(3, 4, &gap(&mut behind).await);
    gets(&mut behind, [5]).await;
    gets(&mut current, [5]).await;
    stage.ask(&["DEL", stage.key().as_str()]).await;
    let mut forgotten = broadcast.subscribe_from(&news(), last).await.unwrap();
    assert_eq!(gap(&mut forgotten).await.missed, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_was_interrupted_cannot_know_what_it_missed_and_says_so() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe_matching("ne").await.unwrap();

    stage.kill_subscribers().await;

    assert_eq!(gap(&mut subscription).await.missed, None);
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;
    let keys = coord_core::KeySpace::new(&stage.prefix).unwrap();
    let pattern = keys.pattern("broadcast", "ne").channels(0);
    let fields = [("channel", pattern.as_str()), ("cause", "pattern")];
    recorder()
        .event("redis.broadcast.gap_unknown", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_the_server_cuts_off_for_its_backlog_accounts_for_every_message() {
    const SENT: u64 = 40;
    let limit = ["--client-output-buffer-limit", "pubsub", "1mb", "1mb", "1"];
    let stage = need!(Alone::with(RedisServer::builder().args(limit)).await);
    let ((proxy, mine), theirs) = (stage.proxied().await, stage.broadcast().await);
    let topic: Topic<String> = Topic::new(name("news"));
    let mut subscription = mine.subscribe(&topic).await.unwrap();
    proxy.delay_replies(Duration::from_millis(150));

    let payload = "x".repeat((1 << 20) - 2);
    for _ in 0..SENT {
        theirs.publish(&topic, &payload).await.unwrap();
    }
    proxy.heal().await;

    let (mut seen, mut missed) = (0, 0);
    while seen < SENT {
        let next = tokio::time::timeout(SOON * 2, subscription.next()).await;
        match next.expect("something comes").expect("the client is open") {
            Received::Message(message) => {
                assert_eq!(message.position.sequence(), seen + 1);
                seen += 1;
            }
            Received::Gap(gap) => {
                let gone = gap.missed.expect("the sequence is known");
                assert_eq!(*gone.start(), seen + 1);
                missed += gone.end() - seen;
                seen = *gone.end();
            }
            Received::Lagged(_) => panic!("nothing is in its own buffer"),
        }
    }
    assert!(missed > 0, "the server has cut it off");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_for_long_goes_on_with_what_it_has_missed() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let node = Program::at(env!("CARGO_BIN_EXE_broadcast_node"))
        .args([&stage.redis.url(), &stage.prefix, "news"])
        .start();
    let mut node = node.expect("cargo built it");
    node.line_starting("ready", SOON).await;

    node.pause().await;
    stage.kill_subscribers().await;
    publish_all(&broadcast, &news(), 1..=3).await;
    node.resume().await;

    assert_eq!(node.line_starting("gap", SOON).await, "gap 1 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_told_after_an_outage_of_the_server_without_any_call() {
    let stage = need!(Alone::with(RedisServer::builder().durable()).await);
    let redis = connect(&stage.redis.url(), &stage.prefix).await;
    let mine = coord_broadcast::Broadcast::new(&redis);
    let mut subscription = mine.subscribe(&news()).await.unwrap();
    publish(&mine, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    stage.server.kill().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    stage.server.restart().await;
    stage.subscribed_becomes(1).await;

    // The sequence is on disk, and nothing was missed.
    publish(&mine, &news(), 2).await;
    let message = message(&mut subscription).await;
    let stored = stage.ask(&["GET", stage.key().as_str()]).await;
    assert_eq!(message.position.to_string(), stored);
    assert_eq!(message.body().unwrap(), 2);
}

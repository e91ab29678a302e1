//! Messages on their way, with nothing broken.

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::process::Program;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use serde::{Deserialize, Serialize};

use super::{
    Alone, Faults, SOON, Stage, connect, gets, logged, message, name, news, next, publish,
    publish_all, received,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_every_subscriber_in_its_type_and_with_its_place() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Price {
        of: String,
        cents: u64,
    }
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.broadcast().await, stage.broadcast().await);
    let prices: Topic<Price> = Topic::new(name("prices {eu}"));
    let mut subscriptions = [
        mine.subscribe(&prices).await.unwrap(),
        mine.subscribe(&prices).await.unwrap(),
        theirs.subscribe(&prices).await.unwrap(),
    ];
    let price = Price {
        of: "tea: black".to_owned(),
        cents: 350,
    };

    let first = theirs.publish(&prices, &price).await.unwrap();
    let second = mine.publish(&prices, &price).await.unwrap();

    assert_eq!((first.receivers, second.receivers), (2, 2), "connections");
    assert_eq!(
        (first.position.sequence(), second.position.sequence()),
        (1, 2)
    );
    for subscription in &mut subscriptions {
        for published in [first, second] {
            let Some(Received::Message(message)) = subscription.next().await else {
                panic!("a message comes")
            };
            assert_eq!(message.body().unwrap(), price);
            assert_eq!(message.position, published.position);
            assert_eq!(message.topic, name("prices {eu}"));
        }
    }
    let channel = super::key(&stage.prefix, "prices {eu}").channel(0);
    drop(subscriptions);
    assert_eq!(received(channel.as_str(), "live"), 6);
    let fields = [("channel", channel.as_str())];
    recorder()
        .events("redis.broadcast.published", &fields, 2, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_before_a_subscription_is_neither_delivered_nor_missed() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    publish_all(&broadcast, &news(), 1..=3).await;

    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 4).await;

    gets(&mut subscription, [4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_comes_amid_the_traffic_misses_nothing_from_its_first_message_on() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.broadcast().await, stage.broadcast().await);
    let publishing = tokio::spawn(async move {
        for body in 1.. {
            publish(&theirs, &news(), body).await;
        }
    });

    for _ in 0..50 {
        let mut subscription = mine.subscribe(&news()).await.unwrap();
        let first = message(&mut subscription).await.body().unwrap();
        let mut expected = first + 1;
        while expected < first + 20 {
            match next(&mut subscription).await {
                Received::Message(message) => {
                    assert_eq!(message.body().unwrap(), expected);
                    expected += 1;
                }
                // On a busy machine nobody else may keep up with this publisher.
                Received::Lagged(count) => expected += count,
                Received::Gap(gap) => panic!("{gap:?} without an interruption"),
            }
        }
    }
    publishing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_topics_share_one_connection_of_a_process() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let topics: Vec<_> = (0..100)
        .map(|n| Topic::<u64>::new(name(&n.to_string())))
        .collect();
    let mut subscriptions = Vec::new();
    for topic in &topics {
        subscriptions.push(broadcast.subscribe(topic).await.unwrap());
    }

    for (topic, n) in topics.iter().zip(0..) {
        publish(&broadcast, topic, n).await;
    }

    for (subscription, n) in subscriptions.iter_mut().zip(0..) {
        gets(subscription, [n]).await;
    }
    let listening = stage.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
    assert_eq!(listening.lines().count(), 1, "{listening}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_subscription_to_go_leaves_the_topic() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let one = broadcast.subscribe(&news()).await.unwrap();
    let mut other = broadcast.subscribe(&news()).await.unwrap();

    drop(one);
    publish(&broadcast, &news(), 1).await;
    gets(&mut other, [1]).await;
    drop(other);

    stage.subscribed_becomes(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_is_given_up_before_its_confirmation_leaves_the_topic() {
    let stage = need!(Alone::new().await);
    let (proxy, broadcast) = stage.proxied().await;
    let kept = broadcast.subscribe(&Topic::<u64>::new(name("other"))).await;
    let mut held = proxy.hold_request(stage.channel());

    let topic = news();
    tokio::select! {
        biased;
        _ = broadcast.subscribe(&topic) => panic!("it cannot be confirmed"),
        _ = held.reached() => {}
    }
    held.release();

    stage.subscribed_becomes(0).await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_without_echo_hears_all_but_its_own_publisher() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.broadcast().await, stage.broadcast().await);
    let mut subscription = mine.subscribe(&news()).await.unwrap().without_echo();

    publish(&mine, &news(), 1).await;
    publish(&theirs, &news(), 2).await;
    publish(&mine.clone(), &news(), 3).await;
    publish(&theirs, &news(), 4).await;

    gets(&mut subscription, [2, 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_takes_every_topic_whose_name_begins_alike_and_no_other() {
    let stage = need!(Alone::new().await);
    let broadcast = stage.broadcast().await;
    let topic = |text: &str| Topic::<u64>::new(name(text));
    let mut subscription = broadcast.subscribe_matching("orders/e*:").await.unwrap();

    publish(&broadcast, &topic("orders/eu"), 1).await;
    publish(&broadcast, &topic("orders/e*:de"), 2).await;
    publish(&broadcast, &topic("orders/e*"), 3).await;
    publish(&broadcast, &topic("orders/e*:at {x}"), 4).await;

    for (text, body) in [("orders/e*:de", 2), ("orders/e*:at {x}", 4)] {
        let message = message(&mut subscription).await;
        assert_eq!(message.body().unwrap(), body);
        assert_eq!(message.topic, name(text));
        assert_eq!(message.position.sequence(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_counted_and_skipped_and_a_body_of_another_type_is_refused() {
    #[derive(Serialize)]
    struct Other(&'static str);
    let stage = need!(Stage::new().await);
    let redis = connect(&stage.redis.url(), &stage.prefix).await;
    let broadcast = Broadcast::new(&redis);
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    let channel = stage.channel();

    for foreign in ["by hand", "", "2:of tomorrow", "1:short", "1:zzz:1:1:1"] {
        stage.ask(&[redis.publish_verb(), &channel, foreign]).await;
    }
    let other = Topic::new(name("news"));
    broadcast
        .publish(&other, &Other("no number"))
        .await
        .unwrap();
    publish(&broadcast, &news(), 2).await;

    let unreadable = message(&mut subscription).await;
    assert_eq!(unreadable.position.sequence(), 1);
    assert_eq!(unreadable.body().unwrap_err().kind(), ErrorKind::Corrupt);
    gets(&mut subscription, [2]).await;
    for (cause, count) in [("foreign", 4), ("version", 1), ("body", 1)] {
        let fields = [("channel", channel.as_str()), ("cause", cause)];
        let skipped = recorder().events("redis.broadcast.skipped", &fields, count, SOON);
        assert_eq!(skipped.await.len(), count, "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_have_a_mebibyte_and_not_a_byte_more() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let topic: Topic<String> = Topic::new(name("news"));
    let mut subscription = broadcast.subscribe(&topic).await.unwrap();
    // With its quotes.
    let longest = "x".repeat((1 << 20) - 2);

    let error = broadcast.publish(&topic, &format!("{longest}x")).await;
    assert_eq!(error.expect_err("too long").kind(), ErrorKind::Invalid);
    broadcast.publish(&topic, &longest).await.unwrap();

    let Some(Received::Message(message)) = subscription.next().await else {
        panic!("a message comes")
    };
    assert_eq!(message.position.sequence(), 1, "the other one has no place");
    assert!(message.body().unwrap() == longest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_used_for_a_week_leaves_nothing_behind() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let topic = logged(10);
    publish(&broadcast, &topic, 1).await;
    let (key, log) = (stage.key(), stage.key().part("log"));
    let week_ms = 7 * 24 * 3600 * 1000;

    for key in [&key, &log] {
        stage.ask(&["PEXPIRE", key.as_str(), "60000"]).await;
    }
    publish(&broadcast, &topic, 2).await;

    for key in [&key, &log] {
        let left: i64 = stage.ask(&["PTTL", key.as_str()]).await.parse().unwrap();
        assert!(
            (week_ms - 60_000..=week_ms).contains(&left),
            "{key}: {left}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_stored_under_a_topic_is_corrupt_and_stays() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let key = stage.key();
    let store: [&[&str]; 3] = [
        &["SET", key.as_str(), "theirs"],
        &["HSET", key.as_str(), "a", "b"],
        &["SET", key.as_str(), "00000000000000ab:x"],
    ];

    for words in store {
        stage.ask(&["DEL", key.as_str()]).await;
        stage.ask(words).await;
        let before = stage.ask(&["DUMP", key.as_str()]).await;

        let error = broadcast.publish(&news(), &1).await;
        assert_eq!(error.expect_err("foreign").kind(), ErrorKind::Corrupt);
        let error = broadcast.subscribe(&news()).await;
        assert_eq!(error.expect_err("foreign").kind(), ErrorKind::Corrupt);

        assert_eq!(stage.ask(&["DUMP", key.as_str()]).await, before);
    }
    let log = key.part("log");
    stage.ask(&["DEL", key.as_str()]).await;
    stage.ask(&["SET", log.as_str(), "theirs"]).await;
    let error = broadcast.publish(&logged(10), &1).await;
    assert_eq!(error.expect_err("foreign").kind(), ErrorKind::Corrupt);
    assert_eq!(stage.ask(&["GET", log.as_str()]).await, "theirs");
    assert_eq!(stage.ask(&["EXISTS", key.as_str()]).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_shutdown_a_subscription_ends_and_a_publish_is_unavailable() {
    let stage = need!(Stage::new().await);
    let redis = connect(&stage.redis.url(), &stage.prefix).await;
    let broadcast = Broadcast::new(&redis);
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;
    gets(&mut subscription, [1]).await;

    redis.shutdown(SOON).await.unwrap();

    let end = tokio::time::timeout(SOON, subscription.next()).await;
    assert_eq!(end.expect("it ends"), None);
    let error = broadcast.publish(&news(), &2).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_hear_each_other() {
    let stage = need!(Stage::new().await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    let node = Program::at(env!("CARGO_BIN_EXE_broadcast_node"))
        .args([&stage.redis.url(), &stage.prefix, "news"])
        .start();
    let mut node = node.expect("cargo built it");
    node.line_starting("ready", SOON).await;

    publish(&broadcast, &news(), 7).await;
    assert_eq!(node.line_starting("message", SOON).await, "message 1 7");
    node.send("publish 8").await.unwrap();
    node.line_starting("message", SOON).await;

    gets(&mut subscription, [7, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_memory_takes_no_message_and_counts_none() {
    let stage =
        need!(Alone::with(RedisServer::builder().max_memory(100 << 20, "noeviction")).await);
    let broadcast = stage.broadcast().await;
    let mut subscription = broadcast.subscribe(&news()).await.unwrap();
    publish(&broadcast, &news(), 1).await;

    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for topic in [news(), logged(10)] {
        let error = broadcast.publish(&topic, &0).await.expect_err("no memory");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    stage.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    publish(&broadcast, &news(), 2).await;

    gets(&mut subscription, [1, 2]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("outcome", "refused")];
    recorder()
        .event("redis.broadcast.publish_failed", &fields, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_whose_answer_is_lost_is_a_timeout_and_is_not_sent_again() {
    let stage = need!(Alone::new().await);
    let (proxy, mine) = stage.proxied().await;
    let theirs = stage.broadcast().await;
    let mut subscription = theirs.subscribe(&news()).await.unwrap();
    publish(&mine, &news(), 1).await;

    let lost = proxy.lose_reply_to("EVALSHA");
    let error = mine.publish(&news(), &2).await.expect_err("no answer");
    lost.await;

    assert_eq!(error.kind(), ErrorKind::Timeout);
    eventually(SOON, "it is connected again", || async {
        mine.publish(&news(), &3).await.is_ok()
    })
    .await;
    gets(&mut subscription, [1, 2, 3]).await;
    let channel = stage.channel();
    let fields = [("channel", channel.as_str()), ("outcome", "unknown")];
    recorder()
        .event("redis.broadcast.publish_failed", &fields, SOON)
        .await;
    let after = tokio::time::timeout(super::PING_INTERVAL, next(&mut subscription));
    assert!(after.await.is_err(), "nothing else comes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_without_the_right_to_the_channel_publishes_and_counts_nothing() {
    let rules = ["on", ">secret", "~*", "resetchannels", "+@all"];
    let stage = need!(Alone::with(RedisServer::builder().user("mute", &rules)).await);
    let broadcast = stage.broadcast().await;
    let mute = super::broadcast(&stage.server.url_as("mute", "secret"), &stage.prefix).await;
    let topic = logged(10);
    let mut subscription = broadcast.subscribe(&topic).await.unwrap();

    for body in 1..=2 {
        let error = mute.publish(&topic, &0).await.expect_err("forbidden");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        publish(&broadcast, &topic, body).await;
    }

    gets(&mut subscription, 1..=2).await;
    assert_eq!(publish(&broadcast, &topic, 3).await.sequence(), 3);
    let length = stage.ask(&["XLEN", stage.key().part("log").as_str()]).await;
    assert_eq!(length, "3");
    let error = mute.subscribe(&topic).await.expect_err("forbidden");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

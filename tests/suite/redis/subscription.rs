//! Subscriptions: supervised, and honest about gaps.

use std::time::Duration;

use coord_core::{Channel, ErrorKind};
use coord_redis::{Command, Following, Heard, Notice, Redis, Reply, Subscription};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{PING_INTERVAL, SOON, connect, increment, key};

async fn publish(redis: &Redis, channel: &Channel, text: &str) {
    let publish = Command::new(redis.publish_verb())
        .channel(channel)
        .arg(text);
    redis
        .run_within(&publish, SOON)
        .await
        .expect("the server is there");
}

async fn next(subscription: &mut Subscription) -> Notice {
    let next = tokio::time::timeout(SOON, subscription.next());
    next.await
        .expect("a notice comes")
        .expect("the client is open")
}

fn message(text: &str) -> Notice {
    Notice::Message(text.as_bytes().into())
}

async fn pubsub_connections(server: &RedisServer) -> usize {
    let clients = server
        .command(&["CLIENT", "LIST", "TYPE", "pubsub"])
        .await
        .expect("permitted");
    clients
        .text()
        .lines()
        .filter(|line| !line.is_empty())
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_every_subscriber_of_the_process_over_one_connection() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channels: Vec<_> = (0..100)
        .map(|n| key(&redis, &n.to_string()).channel(0))
        .collect();
    let mut subscriptions = Vec::new();
    for channel in &channels {
        subscriptions.push(redis.subscribe(channel).await.expect("confirmed"));
        subscriptions.push(redis.subscribe(channel).await.expect("confirmed"));
    }

    for channel in &channels {
        publish(&redis, channel, channel.as_str()).await;
    }

    for subscription in &mut subscriptions {
        let own = subscription.channel().as_str().to_owned();
        assert_eq!(next(subscription).await, message(&own));
    }
    assert_eq!(pubsub_connections(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_subscriber_resubscribes_and_reports_the_gap_before_the_next_message() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");

    server
        .command(&["CLIENT", "KILL", "TYPE", "pubsub"])
        .await
        .expect("permitted");

    assert!(matches!(next(&mut subscription).await, Notice::Gap(_)));
    publish(&redis, &channel, "after").await;
    assert_eq!(next(&mut subscription).await, message("after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_is_found_and_the_gap_is_as_long_as_the_silence() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");

    let before = Instant::now();
    publish(&connect(&server.url()).await, &channel, "before").await;
    assert_eq!(next(&mut subscription).await, message("before"));
    proxy.hole();
    let made = proxy.connections_made();
    eventually(SOON, "the silence is found", || async {
        proxy.connections_made() > made
    })
    .await;
    let found = Instant::now();
    // Longer than what a gap from the instant of its discovery could be taken for.
    tokio::time::sleep(PING_INTERVAL).await;
    let lasted = found.elapsed();
    proxy.heal().await;

    let Notice::Gap(gap) = next(&mut subscription).await else {
        panic!("a gap comes first")
    };
    // From the last sign of life: the message or a later one, and a health check before it was
    // found.
    assert!(
        gap >= lasted + PING_INTERVAL,
        "{gap:?}, found {lasted:?} before the end"
    );
    assert!(gap <= before.elapsed(), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_it_resubscribes_without_any_call() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");
    server.kill().await;
    // Longer than any bounded number of quick attempts would last.
    tokio::time::sleep(Duration::from_secs(3)).await;

    server.restart().await;

    let Notice::Gap(gap) = next(&mut subscription).await else {
        panic!("a gap comes first")
    };
    assert!(gap >= Duration::from_secs(3), "{gap:?}");
    let fields = [("channel", channel.as_str())];
    recorder()
        .event("redis.subscription.dropped", &fields, SOON)
        .await;
    let resubscribed = recorder()
        .event("redis.subscription.resubscribed", &fields, SOON)
        .await;
    let said = resubscribed
        .field("gap_ms")
        .and_then(|gap| gap.parse::<u128>().ok());
    assert_eq!(
        said,
        Some(gap.as_millis()),
        "the log line says what the subscriber is told"
    );
    publish(&redis, &channel, "after").await;
    assert_eq!(next(&mut subscription).await, message("after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_raises_no_alarm_for_its_subscriptions() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");
    assert_eq!(pubsub_connections(&server).await, 1);

    redis.shutdown(SOON).await.expect("nothing is under way");

    let ended = tokio::time::timeout(SOON, subscription.next()).await;
    assert!(ended.expect("it ends").is_none());
    let fields = [("channel", channel.as_str())];
    assert_eq!(recorder().seen("redis.subscription.dropped", &fields), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_and_loads_its_data_is_followed_and_looked_at_once_it_has() {
    let loading = Duration::from_secs(30);
    let server = need!(RedisServer::builder().loading_for(loading).start().await);
    server.finish_loading().await.expect("it loads");
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let get = Command::new("GET").key(&key(&redis, "none")).idempotent();
    let mut following = redis.follow(&channel, get).await.expect("confirmed");

    let next = async |following: &mut Following| {
        let next = tokio::time::timeout(SOON, following.next());
        next.await.expect("something comes").expect("it is open")
    };
    server.restart().await;
    // It answers between two keys that it loads, and may be left as silent meanwhile.
    assert!(matches!(next(&mut following).await, Heard::Interrupted(_)));
    assert_eq!(server.info("loading").await.expect("it answers"), "1");
    server.finish_loading().await.expect("it loads");

    let checked = loop {
        match next(&mut following).await {
            Heard::Interrupted(_) => {}
            other => break other,
        }
    };
    assert_eq!(checked, Heard::Checked(Reply::Nil));
    publish(&redis, &channel, "after").await;
    let Heard::Message { message, .. } = next(&mut following).await else {
        panic!("a message comes");
    };
    assert_eq!(&*message, b"after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_attempt_that_failed_does_not_stop_later_ones() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let channel = key(&redis, "a").channel(0);
    proxy.hole();
    let error = redis.subscribe(&channel).await.expect_err("nothing passes");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    proxy.heal().await;

    let subscribed = async {
        loop {
            if let Ok(subscription) = redis.subscribe(&channel).await {
                return subscription;
            }
        }
    };
    let mut subscription = tokio::time::timeout(SOON, subscribed)
        .await
        .expect("it works again");

    eventually(SOON, "commands work", || async {
        increment(&redis, &key(&redis, "n")).await.is_ok()
    })
    .await;
    publish(&redis, &channel, "hello").await;
    loop {
        match next(&mut subscription).await {
            Notice::Message(text) => break assert_eq!(&*text, b"hello"),
            Notice::Gap(_) => {}
            Notice::Lagged(_) => panic!("nothing was missed for slowness"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_channel_is_invalid_at_once() {
    let rules = ["on", ">secret", "~*", "resetchannels", "+@all"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let redis = connect(&server.url_as("app", "secret")).await;

    let error = redis
        .subscribe(&key(&redis, "a").channel(0))
        .await
        .expect_err("forbidden");

    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Many times the buffer of a subscriber.
const SENT: u64 = 3000;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscriber_is_told_how_much_it_missed_and_holds_up_nobody() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut slow = redis.subscribe(&channel).await.expect("confirmed");
    let mut quick = redis.subscribe(&channel).await.expect("confirmed");

    let mut received = 0;
    for n in 0..SENT {
        publish(&redis, &channel, &n.to_string()).await;
        assert_eq!(next(&mut quick).await, message(&n.to_string()));
        received += 1;
    }

    assert_eq!(received, SENT);
    let Notice::Lagged(missed) = next(&mut slow).await else {
        panic!("it was too slow")
    };
    let mut kept = 0;
    while kept + missed < SENT {
        assert!(matches!(next(&mut slow).await, Notice::Message(_)));
        kept += 1;
    }
    assert_eq!(kept + missed, SENT);
    assert!(kept <= 256, "memory is bounded: {kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_the_server_cuts_off_for_its_backlog_comes_back_with_a_gap() {
    let limit = ["--client-output-buffer-limit", "pubsub", "1mb", "1mb", "1"];
    let server = need!(RedisServer::builder().args(limit).start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let publisher = connect(&server.url()).await;
    let redis = connect(&proxy.url()).await;
    let channel = key(&redis, "a").channel(0);
    let mut subscription = redis.subscribe(&channel).await.expect("confirmed");
    proxy.delay_replies(Duration::from_millis(150));

    let payload = "x".repeat(1 << 20);
    for _ in 0..40 {
        publish(&publisher, &channel, &payload).await;
    }
    proxy.heal().await;

    loop {
        match next(&mut subscription).await {
            Notice::Gap(_) => break,
            Notice::Message(_) | Notice::Lagged(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_subscriber_to_leave_unsubscribes_at_the_server() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let channel = key(&redis, "a").channel(0);
    let kept = redis
        .subscribe(&key(&redis, "b").channel(0))
        .await
        .expect("confirmed");
    let one = redis.subscribe(&channel).await.expect("confirmed");
    let other = redis.subscribe(&channel).await.expect("confirmed");
    let subscribers = async || {
        let reply = server
            .command(&["PUBSUB", "NUMSUB", channel.as_str()])
            .await
            .expect("permitted");
        reply.items()[1].int().expect("a number")
    };

    drop(one);
    assert_eq!(subscribers().await, 1);
    drop(other);

    eventually(SOON, "nobody is subscribed", || async {
        subscribers().await == 0
    })
    .await;
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_databases_do_not_hear_each_other() {
    let server = need!(RedisServer::start().await);
    let prefix = coord_tests::need::unique("redis");
    let client = async |database: u32| {
        let config = super::config(&format!(
            "{}/{database}",
            server.url().trim_end_matches('/')
        ));
        Redis::connect(config.prefix(&prefix).expect("valid"))
            .await
            .expect("the server is there")
    };
    let (zero, one) = (client(0).await, client(1).await);
    let channel = |redis: &Redis| key(redis, "a").channel(redis.database());
    let mut subscription = zero.subscribe(&channel(&zero)).await.expect("confirmed");

    publish(&one, &channel(&one), "from one").await;
    publish(&zero, &channel(&zero), "from zero").await;

    assert_eq!(next(&mut subscription).await, message("from zero"));
}

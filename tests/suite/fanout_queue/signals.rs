//! What operators hear, each through what it is about.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Backoff;
use coord_fanout::{Consumer, Delivery, Failure, Queue, QueueOptions, StreamQueue, Verdict};
use coord_tests::need;
use coord_tests::need::{Missing, shared_redis_url};
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::{Event, recorder};
use coord_tests::servers::{Deployment, RedisServer};
use tokio::sync::Notify;

use super::{
    SOON, attempts, connect, enqueue, grouped, message, messages, name, next, open, receive,
    visibility,
};

const VISIBILITY: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_mins(1);

async fn queue(options: QueueOptions) -> Result<StreamQueue, Missing> {
    Ok(open(&connect(&shared_redis_url().await?).await, options))
}

/// The first line of `key` that is about `queue`.
async fn heard(queue: &StreamQueue, key: &str) -> Event {
    heard_with(queue, key, &[]).await
}

async fn heard_with(queue: &StreamQueue, key: &str, fields: &[(&str, &str)]) -> Event {
    let mut all = vec![("queue", queue.name().as_str())];
    all.extend(fields);
    recorder().event(key, &all, SOON).await
}

#[tokio::test]
async fn duplicates_are_counted() {
    let queue = need!(queue(visibility(LONG)).await);

    enqueue(&queue, &messages([0, 0, 1, 1])).await;

    let event = heard(&queue, "fanout.queue.duplicate").await;
    assert_eq!(event.field("messages"), Some("2"));
}

#[tokio::test]
async fn a_full_queue_is_reported_with_its_depth() {
    let queue = need!(queue(visibility(LONG).depth(1)).await);
    enqueue(&queue, &[message("a")]).await;

    queue.enqueue(&[message("b")]).await.expect_err("full");

    let event = heard(&queue, "fanout.queue.full").await;
    assert_eq!(event.field("open"), Some("1"));
}

#[tokio::test]
async fn what_is_taken_over_and_given_up_is_reported() {
    let queue = need!(queue(visibility(VISIBILITY).attempts(attempts(1))).await);
    enqueue(&queue, &grouped("g", &["a", "b"])).await;

    next(&queue).await;
    next(&queue).await;

    heard(&queue, "fanout.queue.reclaimed").await;
    let about = [("id", "a"), ("cause", "abandoned")];
    heard_with(&queue, "fanout.queue.dead_lettered", &about).await;
}

#[tokio::test]
async fn dead_letters_are_reported_with_their_cause_and_so_is_their_end() {
    let options = visibility(LONG).attempts(attempts(1));
    let queue = need!(queue(options.dead_letters(1.try_into().expect("one"))).await);
    enqueue(&queue, &messages(0..2)).await;
    let reason = "no such customer".to_owned();

    let first = next(&queue).await;
    queue
        .retry(&first, Duration::ZERO, "broken")
        .await
        .expect("ours");
    let reject = Verdict::DeadLetter { reason };
    queue
        .settle(&[(&next(&queue).await, reject)])
        .await
        .expect("ours");
    queue.replay(10).await.expect("the queue is there");

    let key = "fanout.queue.dead_lettered";
    let about = [("cause", "exhausted"), ("reason", "broken")];
    heard_with(&queue, key, &about).await;
    let about = [("cause", "rejected"), ("reason", "no such customer")];
    heard_with(&queue, key, &about).await;
    let dropped = heard(&queue, "fanout.queue.dead_dropped").await;
    assert_eq!(dropped.field("messages"), Some("1"));
    let replayed = heard(&queue, "fanout.queue.replayed").await;
    assert_eq!(replayed.field("messages"), Some("1"));
}

#[tokio::test]
async fn what_is_no_message_is_reported() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG));
    let stream = redis.keys().key("queue", &[queue.name()]);
    let add = ["XADD", stream.as_str(), "*", "hello", "world"];
    server.command(&add).await.expect("added by hand");

    receive(&queue, 1, Duration::ZERO).await;

    let about = [("cause", "foreign")];
    heard_with(&queue, "fanout.queue.dead_lettered", &about).await;
}

#[tokio::test]
async fn handled_and_failed_messages_are_reported_and_so_is_the_state_of_the_queue() {
    let queue = need!(queue(visibility(LONG)).await);
    enqueue(&queue, &["good", "refused", "panics"].map(message)).await;

    let handler = |delivery: Arc<Delivery>| async move {
        match (delivery.message.id.as_str(), delivery.attempt) {
            ("refused", 1) => Err(Failure::new("not today")),
            ("panics", 1) => panic!("out of cheese"),
            _ => Ok(()),
        }
    };
    let retry = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
    let consumer = Consumer::new(queue.clone()).retry(retry);
    let consumer = consumer.report_every(Duration::from_millis(50));
    let all = async {
        let about = [("queue", queue.name().as_str())];
        recorder()
            .events("fanout.queue.handled", &about, 3, SOON)
            .await;
        let empty = [("place", "in_flight"), ("messages", "0")];
        heard_with(&queue, "fanout.queue.depth", &empty).await;
        let about = [("queue", queue.name().as_str()), ("lag_ms", "0")];
        recorder().event("fanout.queue.lag", &about, SOON).await;
    };
    consumer.run(handler, all).await.expect("a clean end");

    let key = "fanout.queue.failed";
    let about = [
        ("cause", "refused"),
        ("id", "refused"),
        ("error", "not today"),
    ];
    heard_with(&queue, key, &about).await;
    let about = [("cause", "panicked"), ("id", "panics")];
    let panicked = heard_with(&queue, key, &about).await;
    assert_eq!(
        panicked.field("error"),
        Some("the handler panicked: out of cheese")
    );
}

#[tokio::test]
async fn the_lag_grows_while_nobody_consumes() {
    let queue = need!(queue(visibility(LONG)).await);
    enqueue(&queue, &messages(0..2)).await;
    let lag = async || queue.depth().await.expect("there").lag.expect("some");

    let first = lag().await;
    let later = async { lag().await > first };

    assert!(later.await || lag().await >= first);
    receive(&queue, 2, Duration::ZERO).await;
    assert_eq!(queue.depth().await.expect("there").lag, None);
}

#[tokio::test]
async fn what_a_shutdown_hands_back_is_reported() {
    let queue = need!(queue(visibility(LONG)).await);
    enqueue(&queue, &[message("a")]).await;
    let started = Arc::new(Notify::new());

    let starting = Arc::clone(&started);
    let handler = move |_| {
        starting.notify_one();
        std::future::pending()
    };
    let consumer = Consumer::new(queue.clone()).drain(Duration::from_millis(10));
    let ended = consumer.run(handler, started.notified()).await;

    ended.expect("a clean end");
    let event = heard(&queue, "fanout.queue.released").await;
    assert_eq!(event.field("messages"), Some("1"));
}

#[tokio::test]
async fn an_outage_beyond_the_visibility_is_reported_by_whoever_it_meets() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let queue = open(&connect(&proxy.url()).await, visibility(VISIBILITY));
    enqueue(&queue, &["works", "ends"].map(message)).await;
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));

    let shared = (Arc::clone(&started), Arc::clone(&go_on));
    let handler = move |delivery: Arc<Delivery>| {
        let (started, go_on) = shared.clone();
        async move {
            if delivery.message.id == name("works") && delivery.attempt == 1 {
                std::future::pending::<()>().await;
            }
            if delivery.attempt == 1 {
                started.notify_one();
                go_on.notified().await;
            }
            Ok(())
        }
    };
    let outage = async {
        started.notified().await;
        proxy.refuse().await;
        proxy.cut().await;
        go_on.notify_one();
        heard_with(&queue, "fanout.queue.lost", &[("id", "works")]).await;
        heard(&queue, "fanout.queue.unsettled").await;
        heard(&queue, "fanout.queue.receive_failed").await;
        proxy.heal().await;
        let about = [("queue", queue.name().as_str())];
        recorder()
            .events("fanout.queue.handled", &about, 2, SOON)
            .await;
    };
    let ended = Consumer::new(queue.clone())
        .run(handler, Box::pin(outage))
        .await;

    ended.expect("it recovered");
}

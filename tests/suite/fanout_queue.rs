//! The queue: one conformance suite for every backend, and what is particular to Redis Streams.

mod conformance;
mod consumer;
mod failover;
mod faults;
mod limits;
mod nodes;
mod signals;
#[cfg(feature = "sqs")]
mod sqs;
mod versions;

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{Name, Ttl};
use coord_fanout::{Delivery, Enqueued, Message, Queue, QueueOptions, StreamQueue};
use coord_redis::Redis;
use coord_tests::need::{Missing, shared_redis_url, unique};
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::stage;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use conformance::{Backend, Shape};

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(30);

fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).expect("a valid name")
}

fn message(id: &str) -> Message {
    Message::new(name(id), id)
}

fn messages(ids: impl IntoIterator<Item = usize>) -> Vec<Message> {
    ids.into_iter()
        .map(|id| message(&format!("m{id}")))
        .collect()
}

/// Messages of one group, in this order.
fn grouped(group: &str, ids: &[&str]) -> Vec<Message> {
    ids.iter()
        .map(|id| message(id).group(name(group)))
        .collect()
}

fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    let ids = deliveries.iter().map(|one| one.message.id.as_str());
    ids.collect()
}

async fn enqueue(queue: &impl Queue, messages: &[Message]) -> Vec<Enqueued> {
    queue.enqueue(messages).await.expect("the queue is there")
}

/// What is there now, or comes within `wait`.
async fn receive(queue: &impl Queue, max: usize, wait: Duration) -> Vec<Delivery> {
    let received = queue.receive(max, wait).await;
    received.expect("the queue is there")
}

/// The next message, which must come.
async fn next(queue: &impl Queue) -> Delivery {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        if let Some(delivery) = receive(queue, 1, Duration::from_secs(1)).await.pop() {
            return delivery;
        }
    }
    panic!("no message within {SOON:?}")
}

/// Receives and completes until `count` came, or nothing comes any more.
async fn drain(queue: &impl Queue, count: usize) -> Vec<String> {
    let mut drained = Vec::new();
    while drained.len() < count {
        let deliveries = receive(queue, 100, Duration::from_secs(5)).await;
        if deliveries.is_empty() {
            break;
        }
        for delivery in deliveries {
            queue.complete(&delivery).await.expect("it is ours");
            drained.push(delivery.message.id.as_str().to_owned());
        }
    }
    drained
}

/// A receive waits at `server` for its first message.
async fn is_blocked(server: &RedisServer) {
    eventually(SOON, "somebody blocks", || async {
        let blocked = server.info("blocked_clients").await;
        blocked.expect("it answers") != "0"
    })
    .await;
}

async fn connect(url: &str) -> Redis {
    connect_as(url, &unique("queue")).await
}

async fn connect_as(url: &str, prefix: &str) -> Redis {
    // Before anything emits.
    recorder();
    let config = stage::config(url, prefix).ping_interval(Duration::from_millis(500));
    stage::connect(config).await
}

fn visibility(duration: Duration) -> QueueOptions {
    QueueOptions::default().visibility(Ttl::new(duration).expect("in range"))
}

/// A queue whose name no other test has, so that its signals are found.
fn open(redis: &Redis, options: QueueOptions) -> StreamQueue {
    StreamQueue::new(redis, name(unique("mails {eu}")), options)
}

fn attempts(attempts: u32) -> NonZeroU32 {
    NonZeroU32::new(attempts).expect("some attempts")
}

struct Streams(Redis);

impl Streams {
    async fn start() -> Result<Self, Missing> {
        Ok(Self(connect(&shared_redis_url().await?).await))
    }
}

impl Backend for Streams {
    type Queue = StreamQueue;

    async fn queue(&self, shape: Shape) -> StreamQueue {
        let options = visibility(shape.visibility).attempts(attempts(shape.attempts));
        open(&self.0, options)
    }
}

conformance::suite!(Streams::start());

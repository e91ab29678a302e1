//! Publish and subscribe that knows what it missed.

mod deliver;
mod epoch;
mod gap;
mod replay;
mod slow;
mod topology;

use std::ops::Deref;
use std::time::Duration;

use coord_broadcast::{Broadcast, Gap, Message, Position, Received, Subscription, Topic};
use coord_core::{Key, KeySpace, Name};
use coord_redis::{Config, Redis};
use coord_tests::need::Missing;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::Deployment;
use coord_tests::stage;
use coord_tests::wait::eventually;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// A health check every 200 ms where silence is to be found, so that what takes two of them is seen
/// soon. Elsewhere a busy machine would be taken for a dead one.
const PING_INTERVAL: Duration = Duration::from_millis(200);

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage(stage::Stage);

/// A stage on a server of its own.
type Alone = stage::Alone<Stage>;

impl From<Deployment> for Stage {
    fn from(redis: Deployment) -> Self {
        Self(stage::Stage::new(redis, "broadcast"))
    }
}

impl Deref for Stage {
    type Target = stage::Stage;

    fn deref(&self) -> &stage::Stage {
        &self.0
    }
}

/// What only a stage on a server of its own can do.
trait Faults {
    /// A client behind a proxy of its own.
    async fn proxied(&self) -> (FaultProxy, Broadcast);

    /// Ends the connections that carry subscriptions.
    async fn kill_subscribers(&self);
}

impl Faults for Alone {
    async fn proxied(&self) -> (FaultProxy, Broadcast) {
        let proxy = self.proxy().await;
        let config = config(&proxy.url(), &self.prefix).ping_interval(PING_INTERVAL);
        (proxy, Broadcast::new(&stage::connect(config).await))
    }

    async fn kill_subscribers(&self) {
        self.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    }
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        Ok(Self::from(Deployment::shared().await?))
    }

    /// A client of its own.
    async fn broadcast(&self) -> Broadcast {
        broadcast(&self.redis.url(), &self.prefix).await
    }

    /// The key of the topic `news`.
    fn key(&self) -> Key {
        key(&self.prefix, "news")
    }

    fn channel(&self) -> String {
        self.key().channel(0).as_str().to_owned()
    }

    async fn subscribed_becomes(&self, count: i64) {
        let channel = self.channel();
        eventually(SOON, &format!("{count} are subscribed"), || async {
            let subscribed = self.redis.subscribers(&channel).await;
            subscribed.is_ok_and(|subscribed| subscribed == count)
        })
        .await;
    }
}

async fn broadcast(url: &str, prefix: &str) -> Broadcast {
    Broadcast::new(&connect(url, prefix).await)
}

async fn connect(url: &str, prefix: &str) -> Redis {
    stage::connect(config(url, prefix)).await
}

fn config(url: &str, prefix: &str) -> Config {
    stage::config(url, prefix).deadline(Duration::from_secs(2))
}

fn key(prefix: &str, name: &str) -> Key {
    let keys = KeySpace::new(prefix).expect("a valid prefix");
    keys.key("broadcast", &[&self::name(name)])
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// A topic of numbers.
fn news() -> Topic<u64> {
    Topic::new(name("news"))
}

/// The same topic, with a log.
fn logged(kept: u32) -> Topic<u64> {
    news().replay(kept.try_into().expect("not zero"))
}

async fn publish(broadcast: &Broadcast, topic: &Topic<u64>, body: u64) -> Position {
    let published = broadcast.publish(topic, &body).await;
    published.expect("the server is there").position
}

async fn publish_all(
    broadcast: &Broadcast,
    topic: &Topic<u64>,
    bodies: impl IntoIterator<Item = u64>,
) {
    for body in bodies {
        publish(broadcast, topic, body).await;
    }
}

async fn next(subscription: &mut Subscription<u64>) -> Received<u64> {
    let next = tokio::time::timeout(SOON, subscription.next());
    let next = next.await.expect("something comes");
    next.expect("the client is open")
}

async fn message(subscription: &mut Subscription<u64>) -> Message<u64> {
    match next(subscription).await {
        Received::Message(message) => message,
        other => panic!("a message comes first, not {other:?}"),
    }
}

async fn gap(subscription: &mut Subscription<u64>) -> Gap {
    match next(subscription).await {
        Received::Gap(gap) => gap,
        other => panic!("a gap comes first, not {other:?}"),
    }
}

fn lost(from: u64, to: u64, gap: &Gap) {
    assert_eq!(gap.missed, Some(from..=to));
}

/// How many messages the subscribers of `channel` were told to have been given.
fn received(channel: &str, way: &str) -> u64 {
    let fields = [("channel", channel), ("way", way)];
    let told = recorder().seen("redis.broadcast.received", &fields);
    let messages = told.iter().map(|event| event.field("messages").unwrap());
    messages.map(|count| count.parse::<u64>().unwrap()).sum()
}

/// What comes next are these messages, without anything in between.
async fn gets(subscription: &mut Subscription<u64>, bodies: impl IntoIterator<Item = u64>) {
    for body in bodies {
        assert_eq!(message(subscription).await.body().unwrap(), body);
    }
}

//! Publishing and subscribing.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, Result};
use coord_redis::{Kept, Redis, Reply, Script};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::position::{Position, hexadecimal};
use crate::signals::{Outcome, SIGNALS, Signal};
use crate::subscription::Subscription;
use crate::topic::{KIND, Place, Topic};

static PUBLISH: Script = Script::new("broadcast.publish", include_str!("lua/publish.lua"));

/// The longest body in bytes of JSON. A subscriber's buffer of 256 messages bounds its memory only
/// if a message is bounded, and the server cuts a subscriber off that is 8 MB behind for a minute.
const MAX_BODY: usize = 1 << 20;

/// How long a topic without messages is remembered. Whoever was away for less than this learns
/// how much it missed; a topic that nobody uses any more leaves nothing behind.
const IDLE: Duration = Duration::from_hours(7 * 24);

/// The topics in the space of one [`Redis`] client. Clones are the same publisher.
#[derive(Debug, Clone)]
pub struct Broadcast {
    redis: Redis,
    /// Tells its messages from those of others.
    origin: u64,
    origin_text: Arc<str>,
}

/// What is known of a message that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Its place in the topic.
    pub position: Position,
    /// How many connections it was sent to, hence at most how many processes of ours: each has one.
    /// On a cluster only the connections of one node are counted.
    pub receivers: u64,
}

impl Broadcast {
    /// The topics in the space of `redis`. Nothing is sent before the first is used.
    pub fn new(redis: &Redis) -> Self {
        coord_core::signals::register(SIGNALS);
        let origin = rand::random();
        Self {
            redis: redis.clone(),
            origin,
            origin_text: hexadecimal(origin).into(),
        }
    }

    /// Publishes `body` to all who subscribe to `topic` now, in one round trip.
    ///
    /// It is executed at most once, and never sent again by itself: who repeats a `Timeout` may
    /// publish twice.
    ///
    /// # Errors
    /// `Unavailable` when it was not published; `Timeout` when it may have been. `Invalid` for a
    /// body that is no JSON or longer than 1 MiB as JSON, and when the ACL user may not publish
    /// there. `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Dropping it leaves open whether the message is published.
    pub async fn publish<T: Serialize>(&self, topic: &Topic<T>, body: &T) -> Result<Published> {
        let place = topic.place(&self.redis);
        let published = self.try_publish(topic, &place, body).await;
        let channel = place.channel;
        match &published {
            Ok(_) => Signal::Published { channel }.emit(),
            Err(error) => {
                let outcome = if error.kind() == ErrorKind::Timeout {
                    Outcome::Unknown
                } else {
                    Outcome::Refused
                };
                let error = Detail::error(error);
                Signal::PublishFailed {
                    outcome,
                    channel,
                    error,
                }
                .emit();
            }
        }
        published
    }

    async fn try_publish<T: Serialize>(
        &self,
        topic: &Topic<T>,
        place: &Place,
        body: &T,
    ) -> Result<Published> {
        let what = || format!("publishing to {}", topic.name());
        let body =
            serde_json::to_vec(body).map_err(|error| Error::invalid(what()).with_source(error))?;
        if body.len() > MAX_BODY {
            return Err(Error::invalid(format!(
                "{}: {} bytes are more than {MAX_BODY}",
                what(),
                body.len()
            )));
        }
        // A random number, since a counter or a clock may be the same after a loss of data.
        let epoch = hexadecimal(rand::random());
        let publish = PUBLISH
            .call(&[&place.position, &place.log])
            .arg(place.channel.as_str())
            .arg(self.redis.publish_verb())
            .arg(epoch)
            .arg(IDLE.as_millis() as u64)
            .arg(topic.kept().map_or(0, std::num::NonZeroU32::get))
            .arg(&*self.origin_text)
            .arg(body);
        let reply = self.redis.run(&publish).await?;
        published(reply)
    }

    /// Subscribes to what is published to `topic` from now on.
    ///
    /// All subscriptions of the process share one connection, one a node on a cluster.
    ///
    /// # Errors
    /// `Unavailable` when it is not confirmed within the client's deadline; `Invalid` when the ACL
    /// user may not subscribe or read; `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Safe: the subscription is given up.
    pub async fn subscribe<T: DeserializeOwned>(
        &self,
        topic: &Topic<T>,
    ) -> Result<Subscription<T>> {
        self.begin(topic, None).await
    }

    /// Subscribes to `topic`, as one that has had every message up to `position`: what came after
    /// that is replayed where the topic has a log, and told as missed where it is not kept.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Cancel safety
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_from<T: DeserializeOwned>(
        &self,
        topic: &Topic<T>,
        position: Position,
    ) -> Result<Subscription<T>> {
        self.begin(topic, Some(position)).await
    }

    async fn begin<T: DeserializeOwned>(
        &self,
        topic: &Topic<T>,
        from: Option<Position>,
    ) -> Result<Subscription<T>> {
        if topic.kept().is_some() {
            self.redis.keeps(Kept::Streams);
        }
        Subscription::begin(&self.redis, topic, from, self.origin).await
    }

    /// Subscribes to all topics whose name begins with `start`, on a single server or behind
    /// sentinels.
    ///
    /// The order of messages holds within each topic. After an interruption it cannot know what it
    /// missed, nor replay it, since it does not know of all topics: each is an unknown gap.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe); `Invalid` on a cluster.
    ///
    /// # Cancel safety
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_matching<T: DeserializeOwned>(
        &self,
        start: &str,
    ) -> Result<Subscription<T>> {
        let pattern = self.redis.keys().pattern(KIND, start);
        let pattern = pattern.channels(self.redis.database());
        let following = self.redis.follow_pattern(&pattern).await?;
        Ok(Subscription::matching(&self.redis, following, self.origin))
    }
}

fn published(reply: Reply) -> Result<Published> {
    let [epoch, sequence, receivers] = reply.array()?;
    Ok(Published {
        position: Position::of(&epoch.bytes()?, &sequence.bytes()?)?,
        receivers: receivers.int()?.unsigned_abs(),
    })
}

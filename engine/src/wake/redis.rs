//! Hints through Redis.

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::{Name, Result};

use super::backend::{Backend, Ears, Kind};
use crate::store::Reply;

/// Hints through a topic of coord-broadcast, over the connections that its client has.
///
/// All engines under one key prefix share the topic. Those on other databases cost each other a
/// look now and then, and nothing else.
pub struct Redis {
    broadcast: Broadcast,
    topic: Topic<String>,
}

impl Redis {
    /// Through `broadcast`.
    pub fn new(broadcast: Broadcast) -> Self {
        let name = Name::new("engine.wake").expect("neither empty nor long");
        Self {
            broadcast,
            topic: Topic::new(name),
        }
    }

    async fn publish(&self, message: &str) -> Result<()> {
        let body = message.to_owned();
        self.broadcast.publish(&self.topic, &body).await.map(drop)
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        let mut subscription = self.broadcast.subscribe(&self.topic).await?;
        ears.begun();
        // It makes its connection again by itself, for ever, until the client is shut down.
        while let Some(received) = subscription.next().await {
            match received {
                // What is none of ours is passed over; the subscription says so.
                Received::Message(message) => {
                    _ = message.body().map(|hint| ears.heard(&hint));
                }
                Received::Gap(_) | Received::Lagged(_) => ears.begun(),
            }
        }
        Ok(())
    }
}

impl Backend for Redis {
    fn kind(&self) -> Kind {
        Kind::Redis
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(self.publish(message))
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(self.hear(ears))
    }
}

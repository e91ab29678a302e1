//! Hints through Redis.

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::{Name, Result};
use coord_redis::Config;
use tokio::sync::OnceCell;

use super::backend::{Backend, Ears, Kind};
use crate::store::Reply;

/// Hints through a topic of coord-broadcast, over the connections that its client has, or over its
/// own.
///
/// All engines under one key prefix share the topic. Those on other databases cost each other a
/// look now and then, and nothing else.
pub struct Redis {
    broadcast: OnceCell<Broadcast>,
    /// Where to connect to while there is none.
    config: Option<Config>,
    topic: Topic<String>,
}

impl Redis {
    /// Through `broadcast`.
    pub fn new(broadcast: Broadcast) -> Self {
        Self::over(OnceCell::new_with(Some(broadcast)), None)
    }

    /// Over connections of its own to the server of `config`. They are made once an engine uses
    /// this, and tried again for as long as the server is away: the engine works without it.
    pub fn at(config: Config) -> Self {
        Self::over(OnceCell::new(), Some(config))
    }

    fn over(broadcast: OnceCell<Broadcast>, config: Option<Config>) -> Self {
        let name = Name::new("engine.wake").expect("neither empty nor long");
        Self {
            broadcast,
            config,
            topic: Topic::new(name),
        }
    }

    async fn broadcast(&self) -> Result<&Broadcast> {
        let connect = async || {
            let config = self.config.clone();
            let config = config.expect("one without a broadcast has it");
            let redis = coord_redis::Redis::connect(config).await?;
            Ok(Broadcast::new(&redis))
        };
        self.broadcast.get_or_try_init(connect).await
    }

    async fn publish(&self, message: &str) -> Result<()> {
        let (broadcast, body) = (self.broadcast().await?, message.to_owned());
        broadcast.publish(&self.topic, &body).await.map(drop)
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        let mut subscription = self.broadcast().await?.subscribe(&self.topic).await?;
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

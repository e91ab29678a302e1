//! Subscriptions, which one connection carries for all who ask.

use coord_core::{Channel, Error, Result};

use super::Redis;
use crate::command::{Command, Reply};
use crate::feed::Kind;
use crate::following::Following;
use crate::subscriber::{Subscriber, Subscription};

impl Redis {
    /// Subscribes to `channel`, and returns once the server has confirmed it.
    ///
    /// # Errors
    /// `Unavailable` when it is not confirmed within the deadline; `Invalid` when the ACL user may
    /// not subscribe.
    ///
    /// # Cancel safety
    /// Safe: the subscription is given up.
    pub async fn subscribe(&self, channel: &Channel) -> Result<Subscription> {
        let (subscription, _) = self.listen(Kind::Channel, channel, None).await?;
        Ok(subscription)
    }

    /// Subscribes to `channel`, and runs `check` whenever the server has confirmed it: before this
    /// returns, and after each interruption. What `check` finds comes behind everything that was
    /// published before it looked. All who follow one channel give the same check, a command that
    /// only reads.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe), and what `check` ends in.
    ///
    /// # Cancel safety
    /// Safe: the subscription is given up.
    pub async fn follow(&self, channel: &Channel, check: Command) -> Result<Following> {
        let (subscription, found) = self.listen(Kind::Channel, channel, Some(check)).await?;
        Ok(Following {
            subscription,
            found,
        })
    }

    /// Subscribes to all channels that `pattern` matches, without a check.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe); `Invalid` on a cluster, whose nodes know their own
    /// channels only.
    ///
    /// # Cancel safety
    /// Safe: the subscription is given up.
    pub async fn follow_pattern(&self, pattern: &Channel) -> Result<Following> {
        if self.is_cluster() {
            let message = format!("subscribing to {pattern}: a cluster takes no patterns");
            return Err(Error::invalid(message));
        }
        let (subscription, found) = self.listen(Kind::Pattern, pattern, None).await?;
        Ok(Following {
            subscription,
            found,
        })
    }

    async fn listen(
        &self,
        kind: Kind,
        channel: &Channel,
        check: Option<Command>,
    ) -> Result<(Subscription, Reply)> {
        let subscriber = self.0.subscriber.get_or_init(|| {
            let sharded = self.0.server.has_sharded_pubsub();
            let runtime = self.0.upkeep.runtime();
            Subscriber::start(&self.0.config, &self.0.apart, sharded, runtime)
        });
        let subscribing = subscriber.subscribe(kind, channel, check);
        tokio::time::timeout(self.0.config.deadline, subscribing)
            .await
            .unwrap_or_else(|_| {
                Err(Error::unavailable(format!(
                    "subscribing to {channel}: not confirmed within the deadline"
                )))
            })
    }

    /// The command that publishes to what [`subscribe`](Self::subscribe) subscribed to, for use
    /// in scripts: `SPUBLISH` on a cluster with sharded pub/sub, `PUBLISH` elsewhere.
    pub fn publish_verb(&self) -> &'static str {
        let sharded = self.0.apart.cluster().is_some() && self.0.server.has_sharded_pubsub();
        if sharded { "SPUBLISH" } else { "PUBLISH" }
    }
}

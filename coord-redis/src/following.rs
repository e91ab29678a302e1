//! Subscriptions that look, after each confirmation, at what is stored about their channel.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Channel;
use tokio::sync::watch;

use crate::command::Reply;
use crate::subscriber::{Event, Subscription};

/// What a [`Following`] receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A message.
    Message {
        /// Which channel it was published to, where the subscription is to a pattern.
        channel: Option<Arc<str>>,
        /// Its bytes.
        message: Arc<[u8]>,
    },
    /// The subscription was interrupted for so long.
    Interrupted(Duration),
    /// What the check found after that. Everything that was published before it looked, and after
    /// the server had confirmed the subscription again, came before it.
    Checked(Reply),
    /// The subscriber was too slow; so many of these were dropped. It knows what that means for it,
    /// so it tells of it, too: the signal `redis.subscription.lagged` is not emitted.
    Lagged(u64),
}

/// A subscription with a check; see [`Redis::follow`](crate::Redis::follow).
#[derive(Debug)]
pub struct Following {
    pub(crate) subscription: Subscription,
    pub(crate) found: Reply,
}

impl Following {
    /// What the check found when the subscription was first confirmed. The first messages may have
    /// been published before it looked.
    pub fn found(&self) -> &Reply {
        &self.found
    }

    /// The next thing heard; `None` once the client is shut down.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Heard> {
        Some(match self.subscription.event().await? {
            Ok(Event::Message { channel, message }) => Heard::Message { channel, message },
            Ok(Event::Gap(length)) => Heard::Interrupted(length),
            Ok(Event::Checked(reply)) => Heard::Checked(reply),
            Err(missed) => Heard::Lagged(missed),
        })
    }

    /// Whether messages come now: false from an interruption until the server has confirmed the
    /// subscription again. It ends with the client.
    pub fn receiving(&self) -> watch::Receiver<bool> {
        self.subscription.receiving()
    }

    /// The channel, or the pattern over channels.
    pub fn channel(&self) -> &Channel {
        self.subscription.channel()
    }
}

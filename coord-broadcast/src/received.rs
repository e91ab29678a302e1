//! What a subscriber receives.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Channel, Error, Name, Result};
use serde::de::DeserializeOwned;

use crate::position::Position;
use crate::signals::{Signal, Skip};

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received<T> {
    /// A message.
    Message(Message<T>),
    /// Messages were missed, for good.
    Gap(Gap),
    /// The subscriber was too slow for its buffer of 256 messages, and missed so many.
    Lagged(u64),
}

/// A message as its subscriber gets it.
///
/// All subscribers of the process share its bytes; only [`body`](Self::body) makes a `T` of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Message<T> {
    /// The topic it was published to.
    pub topic: Name,
    /// Its place in the topic.
    pub position: Position,
    pub(crate) channel: Channel,
    pub(crate) bytes: Arc<[u8]>,
    /// Where the body begins.
    pub(crate) start: usize,
    pub(crate) body: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Message<T> {
    /// What was published, decoded by this call.
    ///
    /// # Errors
    /// `Corrupt` for a body that is no `T`: it was published for another type. The signal
    /// `redis.broadcast.skipped` says so.
    pub fn body(&self) -> Result<T> {
        serde_json::from_slice(&self.bytes[self.start..]).map_err(|error| {
            let channel = self.channel.clone();
            let (cause, detail) = (Skip::Body, Detail::error(&error));
            Signal::Skipped {
                cause,
                channel,
                error: detail,
            }
            .emit();
            let message = format!("the body of a message of {}", self.topic);
            Error::corrupt(message).with_source(error)
        })
    }
}

impl<T> fmt::Debug for Message<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("topic", &self.topic)
            .field("position", &self.position)
            .field("body", &self.bytes[self.start..].escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

/// Messages that a subscriber missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The sequences that are missing; nothing when nobody knows, since the server has lost the
    /// sequence or does not know of all topics.
    pub missed: Option<RangeInclusive<u64>>,
    /// For how long the subscription was interrupted; zero when it was not.
    pub lasted: Duration,
}

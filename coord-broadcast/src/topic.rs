//! What is published and subscribed to.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use coord_core::{Channel, Key, Name};
use coord_redis::Redis;

/// A topic whose messages are `T`s: its name, and whether it keeps a log for replay.
///
/// Publishers and subscribers of one topic describe it alike; put it where both find it.
///
/// ```
/// use std::num::NonZeroU32;
/// use coord_broadcast::Topic;
/// use coord_core::Name;
///
/// fn prices() -> coord_core::Result<Topic<(String, u64)>> {
///     let kept = NonZeroU32::new(1000).expect("not zero");
///     Ok(Topic::new(Name::new("prices")?).replay(kept))
/// }
/// # prices().map(|_| ())
/// # .unwrap();
/// ```
pub struct Topic<T> {
    name: Name,
    kept: Option<NonZeroU32>,
    body: PhantomData<fn(T) -> T>,
}

impl<T> Topic<T> {
    /// The topic `name`, without a log: what a subscriber misses it is told of, and no more.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            kept: None,
            body: PhantomData,
        }
    }

    /// Keeps at least the last `kept` messages, as long as the topic is used once a week. A
    /// subscriber that missed some of them gets them, once and in order.
    ///
    /// A publish then costs one more write of the message, and the server keeps somewhat more than
    /// `kept` of them in memory, since it drops them in blocks.
    #[must_use]
    pub fn replay(mut self, kept: NonZeroU32) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn kept(&self) -> Option<NonZeroU32> {
        self.kept
    }

    pub(crate) fn place(&self, redis: &Redis) -> Place {
        Place::new(&self.name, redis)
    }
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for Topic<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Topic")
            .field("name", &self.name)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

/// The kind of all keys of topics.
pub(crate) const KIND: &str = "broadcast";

/// Where a topic lies in Redis.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// `epoch:sequence` of its last message.
    pub(crate) position: Key,
    /// A stream of its last frames.
    pub(crate) log: Key,
    pub(crate) channel: Channel,
}

impl Place {
    fn new(name: &Name, redis: &Redis) -> Self {
        let position = redis.keys().key(KIND, &[name]);
        Self {
            log: position.part("log"),
            channel: position.channel(redis.database()),
            position,
        }
    }
}

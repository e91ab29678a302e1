//! How a lock is asked for.

use std::sync::Arc;

use coord_core::Ttl;
use coord_lease::Owner;

/// Who gets a lock that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Whoever asks first once it is free: mostly a client that the release draws from those that
    /// wait. Nobody has a claim on being next.
    #[default]
    Any,
    /// Who has waited longest. A release hands the lock to the first waiter directly; the price
    /// is a place in a queue that waiters refresh every five seconds.
    ///
    /// All who ask for one name should use the same order. Where they do not, it still has one
    /// owner at a time, and waiters in order come before all others at a release. `Any` gets it
    /// when the queue is empty, or when it asks in the instant after an owner died; it may wait
    /// for ever behind a queue that never empties.
    Fifo,
}

/// How a lock is asked for: its TTL, its owner, and the order among those who wait.
///
/// ```
/// use std::time::Duration;
/// use coord_core::{Name, Ttl};
/// use coord_lock::{LockOptions, Order, Owner};
///
/// let options = LockOptions::default()
///     .ttl(Ttl::new(Duration::from_secs(10))?)
///     .owner(&Owner::new(Name::new("billing")?))
///     .order(Order::Fifo);
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct LockOptions {
    pub(crate) ttl: Ttl,
    /// As its record stores it.
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) order: Order,
}

impl LockOptions {
    /// The life that the server gives the lock, and that each renewal gives it again; 30 s by
    /// default.
    ///
    /// It bounds how long others wait for a lock whose owner was killed, and how long Redis may
    /// be away before a lock is lost.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// What those who find the lock held are told of its owner; by default an owner named
    /// `unnamed`, with this host and process.
    #[must_use]
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.encode().into());
        self
    }

    /// The order among those who wait; [`Order::Any`] by default.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }
}

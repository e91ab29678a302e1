//! What carries hints between processes.

use std::sync::Arc;

use super::link::State;
use crate::store::Reply;

/// Carries short messages from each process to all, itself included.
///
/// It may lose, delay, double and reorder them, since they are hints; it has to say when it begins
/// to hear and when it no longer does. Whoever implements one for another broker needs no more than
/// its publish and its subscribe.
pub trait Backend: Send + Sync + 'static {
    /// What it is, for operators.
    fn kind(&self) -> Kind;

    /// Sends a message of at most 7 kB of text without control characters but line feeds.
    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()>;

    /// Hears what all processes send, and gives it to `ears`, until the connection breaks; then it
    /// is called again, after a while. Dropped, it hears no more.
    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()>;
}

/// What a backend is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A topic in Redis.
    Redis,
    /// `LISTEN` and `NOTIFY` of PostgreSQL.
    Notify,
    /// A table of the engine's own database.
    Table,
    /// Keys in memcached.
    Memcached,
    /// A subject of NATS.
    Nats,
    /// One of somebody else's making.
    Other,
}

coord_core::labels! { Kind {
    Redis => "redis", Notify => "notify", Table => "table",
    Memcached => "memcached", Nats => "nats", Other => "other",
} }

/// Where a backend takes what it hears.
pub struct Ears(pub(super) Arc<State>);

impl Ears {
    /// From here on it hears everything. What was sent before may have been missed, so that all who
    /// wait look. Said after the subscription holds; and again when something may have been lost.
    pub fn begun(&self) {
        self.0.begun();
    }

    /// A message that somebody has sent. Whether it told this process of news of another one.
    pub fn heard(&self, message: &str) -> bool {
        self.0.heard(message)
    }
}

//! A queue that only takes messages in, for tests of what enqueues.

use std::time::Duration;

use coord_core::{Error, Name, Result, Ttl};
use coord_fanout::{
    DeadLetter, Delivery, Depth, Enqueued, Message, Queue, Receipt, Settled, Verdict,
};
use tokio::time::Instant;

type Put = dyn Fn(&[Message]) -> Result<Vec<Enqueued>> + Send + Sync;

/// Hands every batch that is enqueued to a closure, which says what becomes of it.
///
/// It suppresses nothing, so a test sees every repetition.
pub struct Sink {
    name: Name,
    put: Box<Put>,
}

impl Sink {
    /// A sink into `put`.
    pub fn new<F>(put: F) -> Self
    where
        F: Fn(&[Message]) -> Result<Vec<Enqueued>> + Send + Sync + 'static,
    {
        Self {
            name: Name::new("sink").expect("it is not empty"),
            put: Box::new(put),
        }
    }
}

fn one_way<T>() -> Result<T> {
    Err(Error::invalid("nothing comes out of a sink"))
}

impl Queue for Sink {
    fn name(&self) -> &Name {
        &self.name
    }

    fn visibility(&self) -> Ttl {
        Ttl::DEFAULT
    }

    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Enqueued>> {
        (self.put)(messages)
    }

    async fn receive(&self, _: usize, _: Duration) -> Result<Vec<Delivery>> {
        one_way()
    }

    async fn settle(&self, _: &[(&Delivery, Verdict)]) -> Result<Vec<Settled>> {
        one_way()
    }

    async fn extend(&self, _: &[Receipt]) -> Result<Vec<Option<Instant>>> {
        one_way()
    }

    async fn depth(&self) -> Result<Depth> {
        one_way()
    }

    async fn dead_letters(&self, _: usize) -> Result<Vec<DeadLetter>> {
        one_way()
    }

    async fn replay(&self, _: usize) -> Result<u64> {
        one_way()
    }

    fn upkeep(&self, _: impl Future<Output = ()> + Send + 'static) {}
}

//! What a node says, one JSON object a line.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use coord_core::{Name, Result, Ttl};
use coord_fanout::{
    DeadLetter, Delivery, Depth, Enqueued, Message, Queue, Receipt, Settled, Verdict,
};
use serde::Serialize;
use tokio::time::Instant;

/// One thing that happened.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// It takes part.
    Up,
    /// It serves the control plane.
    Serving { address: SocketAddr },
    /// The tick of a group fell to it.
    Ticked { group: &'a str },
    /// It scanned a group: what was new, and what was suppressed.
    Scanned { added: usize, duplicates: usize },
    /// It was handed a record whose workflow was there already.
    Existing,
    /// It read what the lock file records of a group.
    Loaded { group: &'a str },
    /// It has begun to read an archive.
    Taken { record: &'a str },
    /// It has read an archive.
    Hashed { record: &'a str },
    /// It has to wait for an archive's turn under the limit of reads.
    Waited,
    /// It knows a verdict.
    Known {
        record: &'a str,
        #[serde(flatten)]
        verdict: &'a crate::audit::Verdict,
    },
    /// Something went wrong that it goes on after.
    Failed { message: &'a str },
    /// It has drained.
    Down,
    /// What the database holds of a record: its verdict, and how often a result was recorded.
    Recorded {
        record: &'a str,
        results: usize,
        #[serde(flatten)]
        verdict: Option<&'a crate::audit::Verdict>,
    },
}

pub(crate) fn say(event: &Event<'_>) {
    let line = serde_json::to_string(event).expect("an event has no part that JSON cannot have");
    // Whoever listened is gone: there is nobody left to tell.
    _ = writeln!(io::stdout().lock(), "{line}");
}

/// A queue that says what became of what is enqueued.
pub(crate) struct Told<Q>(Q);

impl<Q> Told<Q> {
    pub(crate) fn new(queue: Q) -> Self {
        Self(queue)
    }
}

impl<Q: Queue> Queue for Told<Q> {
    fn name(&self) -> &Name {
        self.0.name()
    }

    fn visibility(&self) -> Ttl {
        self.0.visibility()
    }

    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Enqueued>> {
        let enqueued = self.0.enqueue(messages).await?;
        let added = enqueued
            .iter()
            .filter(|outcome| **outcome == Enqueued::Added)
            .count();
        say(&Event::Scanned {
            added,
            duplicates: enqueued.len() - added,
        });
        Ok(enqueued)
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        self.0.receive(max, wait).await
    }

    async fn settle(&self, verdicts: &[(&Delivery, Verdict)]) -> Result<Vec<Settled>> {
        self.0.settle(verdicts).await
    }

    async fn extend(&self, deliveries: &[Receipt]) -> Result<Vec<Option<Instant>>> {
        self.0.extend(deliveries).await
    }

    async fn depth(&self) -> Result<Depth> {
        self.0.depth().await
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<DeadLetter>> {
        self.0.dead_letters(max).await
    }

    async fn replay(&self, max: usize) -> Result<u64> {
        self.0.replay(max).await
    }

    fn upkeep(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.upkeep(work);
    }
}

//! Hints by hand: to find out why work begins late.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hub::Snapshot;
use super::{Channel, Health, Kind, Wake};
use crate::engine::{Core, Engine};
use crate::model::{Namespace, Queue, RunId, TaskKind};

/// What a hint tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Tasks, of every kind, that may be claimed in a queue.
    Queue(Namespace, Queue),
    /// The end of a run, or the answer to an update of it.
    Run(RunId),
}

impl Subject {
    fn channels(&self) -> Vec<Channel> {
        match self {
            Self::Queue(namespace, queue) => [TaskKind::Workflow, TaskKind::Activity]
                .map(|kind| Channel::tasks(kind, namespace, queue))
                .to_vec(),
            Self::Run(run) => vec![Channel::run(run)],
        }
    }
}

/// What was known of a subject when it was taken: it hears of all news since.
pub struct News {
    snapshot: Snapshot,
    /// Holds what carries hints.
    _core: Arc<Core>,
}

impl News {
    /// Whether there has been news since it was taken. What carries hints makes itself known as
    /// news too, when it begins to hear and when it no longer does.
    pub fn changed(&self) -> bool {
        self.snapshot.changed()
    }

    /// Waits at most `wait` for news. Whether there has been any.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self, wait: Duration) -> bool {
        self.snapshot.wait(Instant::now() + wait).await
    }
}

/// One backend of hints, and whether what this process sends through it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carrier {
    /// What it is.
    pub kind: Kind,
    /// Whether what was sent came back, at the last try.
    pub works: bool,
}

impl Engine {
    /// Hints that there is news of `subject`, as the commit that makes it does: whoever waits for
    /// it, in any process, looks. At most a look is lost by it.
    ///
    /// # Cancel safety
    /// Safe to drop: the hint leaves nevertheless, as long as this engine lives.
    pub async fn hint(&self, subject: &Subject) {
        let wake = &self.core.wake;
        wake.signal(&subject.channels());
        wake.flush().await;
    }

    /// Hears of all news of `subject` from here on, of this process and, as far as something
    /// carries it, of others.
    pub fn news(&self, subject: &Subject) -> News {
        News {
            snapshot: self.core.wake.snapshot(&subject.channels()),
            _core: Arc::clone(&self.core),
        }
    }

    /// What carries hints between processes, in the order in which it was named.
    pub fn carriers(&self) -> Vec<Carrier> {
        self.core.wake.carriers()
    }

    /// Waits at most `wait` until all that carries hints is seen to work, and says whether it does,
    /// as [`wake_health`](Self::wake_health). Whether it works is not known before the first message
    /// has come back.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn until_hints_pass(&self, wait: Duration) -> Health {
        const EVERY: Duration = Duration::from_millis(20);
        let until = Instant::now() + wait;
        loop {
            let health = self.wake_health();
            if health != Health::Degraded || Instant::now() >= until {
                return health;
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

impl Wake {
    fn carriers(&self) -> Vec<Carrier> {
        let links = self.links.iter();
        links
            .map(|link| Carrier {
                kind: link.kind(),
                works: link.is_healthy(),
            })
            .collect()
    }
}

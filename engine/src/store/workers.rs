//! Workers: what each can go on with, and what waits for one that can.

use crate::compatibility::Supported;
use crate::model::{BuildId, Namespace, OwnerId, Queue, Timestamp};

/// A worker to be seen by others. It counts as alive as long as its process does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enlistment {
    /// Its id, of this life of it.
    pub worker: String,
    /// Its process.
    pub owner: OwnerId,
    /// The tenant.
    pub namespace: Namespace,
    /// Whose tasks it takes.
    pub queue: Queue,
    /// What its process marks new runs with.
    pub current: Option<BuildId>,
    /// What it can go on with.
    pub supported: Supported,
    /// What its machine is called, where that is known.
    pub host: Option<String>,
}

/// A worker that counts as alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRecord {
    /// What it said of itself.
    pub enlistment: Enlistment,
    /// What people call its process.
    pub node: String,
    /// The number of its process in its system.
    pub pid: u32,
    /// Whether its process takes no more work.
    pub is_draining: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When its process last showed that it lives.
    pub recorded_at: Timestamp,
    /// When it no longer counts as alive, unless its process shows again that it does.
    pub expires_at: Timestamp,
}

/// Which workers are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerFilter {
    /// Only those of this tenant.
    pub namespace: Option<Namespace>,
    /// Only those of this queue.
    pub queue: Option<Queue>,
}

/// Runs of one build in one queue that have a task to be claimed now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// The tenant.
    pub namespace: Namespace,
    /// Where their tasks wait.
    pub queue: Queue,
    /// What they are marked with.
    pub build: BuildId,
    /// How many.
    pub runs: u64,
    /// Since when the first of these tasks has been due.
    pub since: Timestamp,
}

/// What of marked runs is to be claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backlogs {
    /// The database's clock.
    pub now: Timestamp,
    /// By namespace, queue and build.
    pub backlogs: Vec<Backlog>,
}

impl Enlistment {
    /// The builds that it names.
    pub(crate) fn named(&self) -> &[BuildId] {
        match &self.supported {
            Supported::All => &[],
            Supported::Only(builds) => builds,
        }
    }
}

impl WorkerRecord {
    /// Whether it could claim what is in `backlog`.
    pub(crate) fn serves(&self, backlog: &Backlog) -> bool {
        let own = &self.enlistment;
        own.namespace == backlog.namespace
            && own.queue == backlog.queue
            && own.supported.holds(Some(&backlog.build))
    }
}

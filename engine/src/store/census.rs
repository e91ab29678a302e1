//! What stands where: counts, each with the age of the oldest, for people and for health.

use std::time::Duration;

use crate::model::{Namespace, OwnerId, Queue, TaskKind, Timestamp};

use super::Role;

/// At most so many open tasks are counted, so that a look costs no more than some tens of
/// milliseconds whatever has piled up.
pub const MOST_COUNTED: u64 = 100_000;

/// What stands where, at one instant; of one namespace when the engine keeps to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// The database's clock.
    pub now: Timestamp,
    /// The version of the schema that is there, and the one that this program brings.
    pub schema: (u32, u32),
    /// What waits and is done, by namespace, queue and kind.
    pub queues: Vec<QueueCensus>,
    /// What fires.
    pub schedules: ScheduleCensus,
    /// Who works.
    pub nodes: NodeCensus,
    /// Who does what for all: roles that were ever held.
    pub roles: Vec<RoleCensus>,
}

/// How many, and since when the oldest of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Since when the oldest is so; `None` when there is none.
    pub since: Option<Timestamp>,
}

impl Tally {
    /// For how long the oldest has been so at `now`.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let since = [self.since, other.since].into_iter().flatten().min();
        Self {
            count: self.count + other.count,
            since,
        }
    }
}

/// The open tasks of one kind in one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueCensus {
    /// The tenant.
    pub namespace: Namespace,
    /// The queue.
    pub queue: Queue,
    /// What the tasks are for.
    pub kind: TaskKind,
    /// All of them.
    pub open: u64,
    /// To be claimed now; since they were due.
    pub due: Tally,
    /// To be claimed later, such as timers and retries.
    pub later: u64,
    /// Under way; since they were claimed.
    pub leased: Tally,
    /// Under way by a lease that has ended; since then.
    pub expired: Tally,
    /// Set aside: the code went another way than the history.
    pub blocked_replay: Tally,
    /// Set aside: taken back too often.
    pub blocked_poison: Tally,
    /// Set aside: of an imported run.
    pub blocked_imported: Tally,
    /// To be claimed again after something went wrong; since they were made.
    pub retrying: Tally,
    /// Activities past one of their times; since then.
    pub overdue: Tally,
    /// The most attempts that any of them had.
    pub most_attempts: u32,
    /// How often that one was taken back that was so most often.
    pub most_recoveries: u32,
}

impl QueueCensus {
    /// Set aside, for whatever reason.
    pub(crate) fn set_aside(&self) -> Tally {
        let stuck = self.blocked_replay.and(self.blocked_poison);
        stuck.and(self.blocked_imported)
    }

    /// Of nothing.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn empty((namespace, queue, kind): (Namespace, Queue, TaskKind)) -> Self {
        Self {
            namespace,
            queue,
            kind,
            open: 0,
            due: Tally::default(),
            later: 0,
            leased: Tally::default(),
            expired: Tally::default(),
            blocked_replay: Tally::default(),
            blocked_poison: Tally::default(),
            blocked_imported: Tally::default(),
            retrying: Tally::default(),
            overdue: Tally::default(),
            most_attempts: 0,
            most_recoveries: 0,
        }
    }
}

/// The schedules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScheduleCensus {
    /// Those that fire.
    pub active: u64,
    /// Those that are paused.
    pub paused: u64,
    /// Those whose next occurrence is past; since it was due.
    pub overdue: Tally,
    /// How often they fired.
    pub fires: u64,
    /// How many occurrences were found too late.
    pub missed: u64,
}

/// The processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCensus {
    /// Those that show that they live.
    pub live: u64,
    /// Those that no longer do and were not declared dead yet; since they should have.
    pub silent: Tally,
}

/// Who has a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoleCensus {
    /// The role.
    pub role: Role,
    /// Who had it last.
    pub holder: Option<OwnerId>,
    /// Since when.
    pub acquired_at: Timestamp,
    /// Until when, unless it is renewed.
    pub expires_at: Timestamp,
}

impl Census {
    /// One tally of all queues.
    pub fn total(&self, of: impl Fn(&QueueCensus) -> Tally) -> Tally {
        self.queues
            .iter()
            .map(of)
            .fold(Tally::default(), Tally::and)
    }

    /// Whether there was more than is counted.
    pub fn is_capped(&self) -> bool {
        self.queues.iter().map(|queue| queue.open).sum::<u64>() >= MOST_COUNTED
    }

    /// Whether somebody has `role`.
    pub fn is_held(&self, role: Role) -> bool {
        let held = self.roles.iter().find(|held| held.role == role);
        held.is_some_and(|held| held.holder.is_some() && held.expires_at > self.now)
    }
}

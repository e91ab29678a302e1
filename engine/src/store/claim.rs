//! Leases: how tasks are claimed, kept and taken back, and what their owner reads.

use std::time::Duration;

use super::Quota;
use crate::model::{
    AttemptId, BuildId, Fingerprint, Namespace, OwnerId, Payload, Queue, Record, Run, RunId, Task,
    TaskId, TaskKind, Timestamp, TypeName,
};

/// A request for due tasks of one queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// The tenant.
    pub namespace: Namespace,
    /// Where to look.
    pub queue: Queue,
    /// What for, each kind at most once.
    pub wanted: Vec<Wanted>,
    /// Only these tasks, as far as they may be claimed; `None` for all that are due. What was handed
    /// over to the claimer is claimed so.
    pub only: Option<Vec<TaskId>>,
    /// The builds that the claimer can continue; `None` for all. A task without a build suits any.
    pub builds: Option<Vec<BuildId>>,
    /// What the code of the claimer is, of each type; `None` where that does not matter. A run with
    /// another one recorded is left alone.
    pub fingerprints: Option<Vec<Fingerprint>>,
    /// What it keeps within, in the order in which they are locked, the same for all who claim.
    /// Claims with a quota in common come one after the other.
    pub quotas: Vec<Quota>,
    /// Who claims.
    pub owner: OwnerId,
    /// For how long.
    pub ttl: Duration,
}

/// Tasks of one kind that a claim takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// The kind.
    pub kind: TaskKind,
    /// The types that the claimer knows. Others stay ready, with no attempt counted.
    pub names: Vec<TypeName>,
    /// How many at most.
    pub limit: u32,
    /// For activities: at least `limit` ids, one for each attempt that begins. Unused ones are lost.
    pub attempts: Vec<AttemptId>,
}

impl Claim {
    /// What is wanted of `kind`, if anything is.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn wanted_of(&self, kind: TaskKind) -> Option<&Wanted> {
        self.wanted.iter().find(|wanted| wanted.kind == kind)
    }
}

/// What was claimed.
#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    /// The database's clock, within the transaction.
    pub now: Timestamp,
    /// The tasks, those of each kind in the order in which they are due.
    pub tasks: Vec<ClaimedTask>,
    /// The earliest instant at which a ready task of this queue will be due, of the wanted kinds of
    /// which nothing was claimed; not looked for by a claim of certain tasks.
    pub next_due: Option<Timestamp>,
    /// The wanted kinds of which a quota of the namespace left nothing: more may be claimed when a
    /// task of any of its queues ends.
    pub held_back: Vec<TaskKind>,
}

/// A claimed task.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimedTask {
    /// The task, with the epoch of this claim.
    pub task: Task,
    /// Since when it could be claimed.
    pub due_at: Timestamp,
    /// For an activity: the event that scheduled it, with input and retry policy.
    pub scheduled: Option<Record>,
    /// For an activity: what the last heartbeat carried.
    pub progress: Option<Payload>,
}

/// A run to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// The run.
    pub run: RunId,
    /// The events up to this number are known already; 0 for none.
    pub after: u64,
    /// How many events at most.
    pub limit: u32,
}

/// What was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The database's clock.
    pub now: Timestamp,
    /// Each run in the order of the request; `None` if there is none.
    pub runs: Vec<Option<LoadedRun>>,
}

/// A run with its history and the messages that wait.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadedRun {
    /// The run. Its `history_length` is as of the last turn; events appended since are in `events`.
    pub run: Run,
    /// Its events after `after`, in order.
    pub events: Vec<Record>,
    /// The messages that wait, in order; `seq` is their place.
    pub inbox: Vec<Record>,
}

/// Leases to extend, all of one owner.
#[derive(Clone, PartialEq, Debug)]
pub struct Renewal {
    /// Whose.
    pub owner: OwnerId,
    /// For how long from now.
    pub ttl: Duration,
    /// Which.
    pub items: Vec<RenewalItem>,
}

/// One lease to extend.
#[derive(Clone, PartialEq, Debug)]
pub struct RenewalItem {
    /// The task.
    pub task: TaskId,
    /// Its epoch.
    pub epoch: u64,
    /// A heartbeat of the activity, with what it carries. Without one only the lease is extended,
    /// and its heartbeat timeout runs on.
    pub beat: Option<Option<Payload>>,
}

/// What became of the leases.
#[derive(Clone, PartialEq, Debug)]
pub struct Renewed {
    /// The database's clock, within the transaction.
    pub now: Timestamp,
    /// Each in the order of the request; `None` if it is lost.
    pub items: Vec<Option<StillHeld>>,
}

/// A lease that was extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StillHeld {
    /// When it ends now.
    pub lease_expires_at: Timestamp,
    /// For a workflow task: how many messages its run was ever sent.
    pub inbox_seq: u64,
}

/// An activity that has exceeded a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Overdue {
    /// The database's clock.
    pub now: Timestamp,
    /// The activity, as it is now: `attempt` counts the attempts begun so far.
    pub task: Task,
    /// The event that scheduled it.
    pub scheduled: Record,
    /// When it was scheduled.
    pub scheduled_at: Timestamp,
    /// When its attempt began; `None` while none is under way.
    pub started_at: Option<Timestamp>,
    /// When its attempt last gave a sign; its beginning counts as one.
    pub heartbeat_at: Option<Timestamp>,
    /// Who has it.
    pub owner: Option<OwnerId>,
}

/// What to take back. Queues take turns, so that much of one keeps none of another waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// How many tasks at most.
    pub limit: u32,
    /// A task that is taken back more often than this from owners that are gone is set aside as
    /// poison. A lease that ended while its owner shows that it lives does not count: the owner was
    /// slow, or its database was, and the task took no process down.
    pub poison_after: u32,
}

/// A page of open runs of one tenant, to be looked through for those without a workflow task that
/// nothing but one would ever go on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unattended {
    /// The tenant.
    pub namespace: Namespace,
    /// Where the page before ended.
    pub after: Option<(Timestamp, RunId)>,
    /// How many runs to look at.
    pub limit: u32,
}

/// The runs of a page that lack their workflow task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking {
    /// Those that lack their workflow task.
    pub runs: Vec<RunId>,
    /// Those that wait for an activity and have no task at all.
    pub of_activities: Vec<RunId>,
    /// Where the next page begins; `None` when this was the last one.
    pub next: Option<(Timestamp, RunId)>,
}

/// What was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// The queues in which tasks are ready again, each once.
    pub queues: Vec<(Namespace, Queue, TaskKind)>,
    /// How many tasks are ready again.
    pub ready: u64,
    /// How many of them were taken from owners that live, and let their leases end.
    pub of_living: u64,
    /// The tasks that were set aside.
    pub poisoned: Vec<TaskId>,
}

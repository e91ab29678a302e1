//! What can be written: each value is one thing that happens whole.

mod command;
mod give_back;
mod turn;

use std::time::Duration;

use super::{ScheduleKey, ScheduleWrite};
use crate::model::{Namespace, OwnerId, Queue, RunId, TaskId, TaskKind, Timestamp, WorkflowId};

pub use command::{CommandKind, Deliver, OnDuplicate, Start, Terminate};
pub use give_back::{BlockedReason, PutBack, PutBackHow, Settle};
pub use turn::{Append, Closing, Fence, NewActivity, Restore, Then, Turn};

/// One write of a batch.
#[derive(Clone, PartialEq, Debug)]
pub enum Write {
    /// Starts a run. Answered `Started` or `Refused`.
    Start(Box<Start>),
    /// Leaves a message for a run. Answered `Done`, `Repeated`, `Closed`, `NotFound` or `Full`.
    Deliver(Box<Deliver>),
    /// Adds events during a turn. Answered `Done` or `Lost`.
    Append(Append),
    /// Ends a turn, or commits what it has so far. Answered `Done`, `Taken`, `Lost` or `Stale`.
    Turn(Box<Turn>),
    /// Ends an activity and tells its run. Answered `Done` or `Lost`.
    Settle(Settle),
    /// Gives a task back. Answered `Done` or `Lost`.
    PutBack(PutBack),
    /// Ends a run from outside, whatever it does. Answered `Done`, `Repeated`, `Closed` or
    /// `NotFound`.
    Terminate(Box<Terminate>),
    /// Makes every task of a run that is set aside claimable again, with its counters of attempts
    /// and recoveries at zero. Answered `Done`, or `NotFound` if none is set aside.
    Resume(Target),
    /// Gives a run its workflow task if it has none and nothing but one would go on with it: it is
    /// due, or messages wait, or it waits for an instant. Its history stays as it is. Answered
    /// `Done`, or `NotFound` if it lacks nothing.
    Repair(RunId),
    /// Gives a run back the task of an activity that its history has scheduled and that has no
    /// outcome, if it has none and the run stands as it was seen. Answered `Done`, or `NotFound` if it
    /// lacks nothing or has gone on.
    Restore(Box<Restore>),
    /// Creates or changes a schedule, and starts what it fires. Answered `Scheduled`, `Stale` or
    /// `NotFound`.
    Schedule(Box<ScheduleWrite>),
    /// Deletes a schedule with the history of its fires. What it has started goes on. Answered
    /// `Scheduled` with the last revision, or `NotFound`.
    Unschedule(ScheduleKey),
}

/// What became of a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The database's clock, within the transaction.
    pub now: Timestamp,
    /// What became of each write, in their order.
    pub outcomes: Vec<Outcome>,
    /// The tasks that it left to be claimed, also those that it only had locked, since claims pass
    /// these by. One too many costs a look, one too few the time until somebody looks by himself.
    pub ready: Vec<Ready>,
}

/// Tasks of one queue and kind that are ready to be claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The tenant.
    pub namespace: Namespace,
    /// Where they wait.
    pub queue: Queue,
    /// What they are.
    pub kind: TaskKind,
    /// The earliest instant at which one of them may be claimed.
    pub due: Timestamp,
    /// Which they are.
    pub tasks: Vec<TaskId>,
}

/// What became of one write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It happened.
    Done {
        /// The run that it reached.
        run: RunId,
        /// How many messages the run was ever sent: more than were taken means news.
        inbox_seq: u64,
    },
    /// The run is there.
    Started {
        /// The run: the one asked for, or the current one of the instance.
        run: RunId,
        /// Whether this write, or an earlier try of the same, created it.
        created: bool,
    },
    /// The instance exists; nothing happened.
    Refused {
        /// Its current run.
        current: RunId,
    },
    /// The same command was carried out before; nothing happened now.
    Repeated {
        /// The run that it reached then.
        run: RunId,
    },
    /// The turn happened, and goes on under the run's workflow task, leased with this epoch.
    Taken {
        /// The epoch.
        epoch: u64,
        /// How many messages the run was ever sent.
        inbox_seq: u64,
    },
    /// The fence failed: the task is somebody else's, or nobody's, or gone. Nothing happened.
    Lost,
    /// The schedule is as written, with this revision.
    Scheduled {
        /// The revision.
        revision: u64,
    },
    /// The lease holds, but the run has gone on since: its history is longer, messages wait, or
    /// its workflow task is leased. Or the schedule has another revision than was read. Nothing
    /// happened.
    Stale,
    /// As many messages wait as may; nothing happened.
    Full,
    /// The run is closed; nothing happened.
    Closed,
    /// There is no such run; nothing happened.
    NotFound,
}

/// A run, named by itself or by its instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// This run, and no other.
    Run(RunId),
    /// The current run of an instance; also when it continues as new in the meantime.
    Current(Namespace, WorkflowId),
}

/// A claim on a task, as it fences a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The task.
    pub task: TaskId,
    /// Its epoch as claimed, or as seen.
    pub epoch: u64,
    /// By what right.
    pub holder: Holder,
}

/// By what right a task is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The task is leased by this owner, and the lease has not ended.
    Owner(OwnerId),
    /// The activity's deadline has passed, whoever has it. Only for activities.
    Overdue,
}

/// A lease given along with a new task, so that its maker goes on at once. Its epoch is 1 more than
/// that of the task without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Who gets it.
    pub owner: OwnerId,
    /// For how long.
    pub ttl: Duration,
}

/// By how much the epoch of a task that replaces a lost one is ahead of what its run remembers: the
/// lost one had been claimed a few times since, and none of its owners may pass for that of the new.
pub(crate) const LOST_EPOCHS: u64 = 1000;

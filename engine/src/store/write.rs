//! What can be written: each value is one thing that happens whole.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{ScheduleKey, ScheduleWrite};
use crate::model::{
    Attempt, AttemptId, BuildId, Closed, Due, Marks, Namespace, OwnerId, ParentLink, Priority,
    Queue, Record, RequestId, RunId, TaskId, TaskKind, Timeouts, Timestamp, TypeName, Wait,
    WorkflowId,
};

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

/// Which way of sending a request id is for: the same id may serve one of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommandKind {
    /// A start.
    Start,
    /// A signal.
    Signal,
    /// An update.
    Update,
    /// A request to end.
    Cancel,
    /// The end.
    Terminate,
}

impl CommandKind {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Signal => "signal",
            Self::Update => "update",
            Self::Cancel => "cancel",
            Self::Terminate => "terminate",
        }
    }
}

/// What happens when the id is in use, by a run that is open or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDuplicate {
    /// The caller is told. The default: two callers who mean different work must not share a run.
    #[default]
    Reject,
    /// The caller gets the run that is there.
    ReturnExisting,
}

/// A new run, with the workflow task that begins it.
///
/// The instance is created with it, unless `records` say that it continues another run (see
/// [`Then::Close`]). It is the same `Start` when instance and run are the same: then it is answered
/// `Started { created: true }` again.
#[derive(Clone, PartialEq, Debug)]
pub struct Start {
    /// The tenant.
    pub namespace: Namespace,
    /// The instance.
    pub workflow: WorkflowId,
    /// The run.
    pub run: RunId,
    /// Its number in the instance.
    pub number: u32,
    /// What happens when the instance exists.
    pub on_duplicate: OnDuplicate,
    /// The type of the workflow.
    pub name: TypeName,
    /// Where its workflow tasks wait.
    pub queue: Queue,
    /// The priority of its workflow tasks.
    pub priority: Priority,
    /// The build that may continue it.
    pub build: Option<BuildId>,
    /// The run that waits for its result.
    pub parent: Option<ParentLink>,
    /// The first events, from number 1.
    pub records: Vec<Record>,
    /// When its first workflow task is due.
    pub due: Due,
    /// Who begins it at once.
    pub lease: Option<Lease>,
    /// What makes it happen once: the same request is answered as its first time, whatever the run.
    pub request: Option<RequestId>,
    /// What it is found and described by.
    pub marks: Marks,
}

impl Start {
    /// How many of the signals among its events nobody has received.
    pub(crate) fn buffered(&self) -> u64 {
        let of = |kind: &str| self.records.iter().filter(|it| it.kind == kind).count() as u64;
        of("SignalReceived").saturating_sub(of("SignalApplied"))
    }
}

/// A message for a run.
///
/// It takes the next place of the run's inbox. A run without a workflow task gets one that is due
/// now; one whose task is ready at a later instant gets it made due now; a leased or a blocked task
/// stays as it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Deliver {
    /// For whom.
    pub target: Target,
    /// The message; its `seq` is given by the store.
    pub record: Record,
    /// What makes it happen once: a receipt is kept under it.
    pub request: Option<(CommandKind, RequestId)>,
    /// How many messages may wait in the inbox before it, with the signals that the run has taken
    /// and not received: where there are as many, it is answered `Full`. `None` for no bound.
    pub at_most: Option<NonZeroU32>,
}

/// Events that a turn adds while it goes on, under the lease of the run's workflow task.
///
/// The fence locks the task's row and writes nothing to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Append {
    /// The run's workflow task.
    pub held: Held,
    /// The run.
    pub run: RunId,
    /// The events, with the numbers that follow its history. One that is there already is skipped.
    pub records: Vec<Record>,
}

/// What entitles a turn to be committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fence {
    /// The run's workflow task.
    Task(Held),
    /// An activity of the run, whose result is among the events: its task ends with this turn, and
    /// the turn takes place only if nothing else has happened to the run: its history has
    /// `history_length` events, no message waits beyond `drained`, and its workflow task, if there
    /// is one, is ready. Otherwise `Stale`.
    Activity(Held),
}

/// A turn of a run, or what it has so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Turn {
    /// What entitles to it.
    pub fence: Fence,
    /// The run.
    pub run: RunId,
    /// How many events the history has before `records`.
    pub history_length: u64,
    /// The events to add.
    pub records: Vec<Record>,
    /// The place in the inbox up to which messages have become events, or were dropped: these rows
    /// go.
    pub drained: u64,
    /// How many of the signals in its history the run has not received, where that has changed.
    pub buffered: Option<u64>,
    /// Activities to schedule.
    pub activities: Vec<NewActivity>,
    /// Open activities to drop, whoever has them. One that is gone already is passed over.
    pub dropped: Vec<TaskId>,
    /// Children to start. One whose instance exists is answered to this run as a message
    /// `ChildFailed`, see [`NotStarted`](Turn::not_started).
    pub children: Vec<Start>,
    /// The message for this run when a child could not be started; the store adds the `step` of the
    /// child. `None` when there are no children.
    pub not_started: Option<Record>,
    /// Messages for other runs. One that is closed or not there is passed over.
    pub deliveries: Vec<Deliver>,
    /// What the run is found and described by from here on.
    pub marks: Marks,
    /// What becomes of the run.
    pub then: Then,
}

/// What becomes of a run after a turn.
#[derive(Clone, PartialEq, Debug)]
pub enum Then {
    /// The turn goes on: the task stays leased, with its epoch. Only with [`Fence::Task`].
    Keep,
    /// The turn goes on, and from here under the run's workflow task, which is made if there is none
    /// and leased with an epoch one higher than before. Only with [`Fence::Activity`]. Answered
    /// `Taken`.
    Take(Lease),
    /// The run waits. Its status is `waiting`, or `running` when its task is due.
    ///
    /// When messages wait beyond `drained`, its workflow task is ready at once. Otherwise it is
    /// ready at `due`, with its attempts at zero, its lease ended and its epoch one higher; or gone
    /// when there is no `due`.
    Wait {
        /// The next instant at which it has something to do.
        due: Option<Due>,
        /// What it waits for.
        wait: Option<Wait>,
    },
    /// The run is closed.
    Close(Box<Closing>),
}

/// The end of a run, with all that goes with it in the same transaction: its tasks and messages are
/// gone, its parent and its children are told.
#[derive(Clone, PartialEq, Debug)]
pub struct Closing {
    /// How it ended.
    pub closed: Closed,
    /// The message for the parent's run, if the run has one and it is open; the store adds the
    /// `step` of the parent. `None` when the run continues as new.
    pub to_parent: Option<Record>,
    /// The message for open children that are to be ended.
    pub terminate_child: Record,
    /// The message for open children that are to be asked to end.
    pub cancel_child: Record,
    /// The next run of the instance, which becomes its current one, inherits the link to the parent
    /// and takes over the messages that wait, with their places. Children stay with the closed run,
    /// by their policy.
    pub next: Option<Start>,
}

/// An activity to schedule.
///
/// Its task is [`TaskId::of`] the run and the step. Input and retry policy stand in the event that
/// schedules it, and are read from there.
#[derive(Clone, PartialEq, Debug)]
pub struct NewActivity {
    /// The operation.
    pub step: u64,
    /// The number of the event that schedules it.
    pub scheduled_seq: u64,
    /// The type of the activity.
    pub name: TypeName,
    /// Where it waits.
    pub queue: Queue,
    /// Its priority.
    pub priority: Priority,
    /// Its timeouts.
    pub timeouts: Timeouts,
    /// Who begins it at once, and as which attempt.
    pub lease: Option<(Lease, AttemptId)>,
}

/// The end of an activity: its task goes, its run is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Settle {
    /// The activity.
    pub held: Held,
    /// Its run. A run that is closed is not told, and the task goes all the same.
    pub run: RunId,
    /// The message for the run.
    pub record: Record,
    /// The attempt, if it did not succeed.
    pub attempt: Option<Attempt>,
}

/// A task that its owner gives back.
#[derive(Clone, PartialEq, Debug)]
pub struct PutBack {
    /// The task. Its epoch becomes one higher.
    pub held: Held,
    /// How.
    pub how: PutBackHow,
}

/// How a task is given back.
#[derive(Clone, PartialEq, Debug)]
pub enum PutBackHow {
    /// Untouched: it is ready at once, and the attempt does not count.
    Untouched,
    /// After a failed attempt: it is ready at `due`, and `last_error` says why. The attempt counts.
    Retry {
        /// When it may be claimed again.
        due: Due,
        /// What went wrong, for people.
        error: String,
        /// The attempt of an activity, to be kept.
        attempt: Option<Attempt>,
    },
    /// It is set aside until somebody resumes it.
    Blocked {
        /// Why, for code.
        reason: BlockedReason,
        /// Why, for people: the expected and the got command side by side.
        error: String,
    },
}

/// By how much the epoch of a task that replaces a lost one is ahead of what its run remembers: the
/// lost one had been claimed a few times since, and none of its owners may pass for that of the new.
pub(crate) const LOST_EPOCHS: u64 = 1000;

/// Why a task is set aside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockedReason {
    /// The code does not do what the history says that it did.
    Replay,
    /// It took its process down too often.
    Poison,
    /// It was put here to be looked at.
    Imported,
}

impl BlockedReason {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Poison => "poison",
            Self::Imported => "imported",
        }
    }
}

/// The end of a run from outside. Whoever has its tasks finds them `Lost`.
#[derive(Clone, PartialEq, Debug)]
pub struct Terminate {
    /// The run.
    pub target: Target,
    /// The last event; its `seq` is given by the store, after the highest that is there.
    pub record: Record,
    /// What goes with it.
    pub closing: Closing,
    /// What makes it happen once.
    pub request: Option<RequestId>,
}

//! What a turn commits.

use super::{Deliver, Held, Lease, Start};
use crate::model::{
    AttemptId, Closed, Due, Fingerprint, Marks, Priority, Queue, Record, RunId, TaskId, Timeouts,
    TypeName, Wait,
};

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
    /// Activities of the run, at least one, whose results are among the events: their tasks end
    /// with this turn. It takes place only if all of them are held, otherwise it is `Lost`; and only
    /// if nothing else has happened to the run: its history has `history_length` events, no message
    /// waits beyond `drained`, and its workflow task, if there is one, is ready. Otherwise `Stale`.
    Activities(Vec<Held>),
}

impl Fence {
    /// The claims that it takes, all of them.
    pub fn held(&self) -> &[Held] {
        match self {
            Self::Task(held) => std::slice::from_ref(held),
            Self::Activities(held) => held,
        }
    }

    /// Whether it is of activities, and not of the run's workflow task.
    pub const fn is_of_activities(&self) -> bool {
        matches!(self, Self::Activities(_))
    }
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
    /// What the code is that the run goes on with, where that is not recorded: from here on only its
    /// like goes on with it.
    pub fingerprint: Option<Fingerprint>,
    /// What the run is found and described by from here on.
    pub marks: Marks,
    /// What becomes of the run.
    pub then: Then,
}

/// An activity whose task was lost.
#[derive(Clone, PartialEq, Debug)]
pub struct Restore {
    /// The run.
    pub run: RunId,
    /// How many events its history had when the activity was seen to have no outcome.
    pub history_length: u64,
    /// The activity, its times counted from now.
    pub activity: NewActivity,
    /// How many attempts of it are known to have failed.
    pub attempts: u32,
}

/// What becomes of a run after a turn.
#[derive(Clone, PartialEq, Debug)]
pub enum Then {
    /// The turn goes on: the task stays leased, with its epoch. Only with [`Fence::Task`].
    Keep,
    /// The turn goes on, and from here under the run's workflow task, which is made if there is none
    /// and leased with an epoch one higher than before. Only with [`Fence::Activities`]. Answered
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

//! What callers ask for.

use std::num::NonZeroU32;

use super::{Closing, Lease, Target};
use crate::model::{
    BuildId, Due, Fairness, Marks, Namespace, ParentLink, Priority, Queue, Record, RequestId,
    RunId, TypeName, WorkflowId,
};

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
    /// Whose share of their queues its tasks count against.
    pub fairness: Option<Fairness>,
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

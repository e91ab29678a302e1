//! What people and callers read.

use serde_json::{Map, Value};

use super::{Archived, Incarnation};
use crate::model::{
    Attempt, Attribute, Attributes, Namespace, Queue, Run, RunId, RunStatus, TaskId, TaskKind,
    Timestamp, TypeName, WorkflowId,
};

/// A run, and why it does or does not move.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// The database's clock.
    pub now: Timestamp,
    /// The run.
    pub run: Run,
    /// Its open tasks: the workflow task first, if there is one, then its activities.
    pub tasks: Vec<OpenTask>,
    /// The processes that have those of them that are leased.
    pub owners: Vec<OwnerRecord>,
    /// Attempts of its activities that did not succeed, the latest first, at most 100.
    pub attempts: Vec<Attempt>,
    /// What it is found by.
    pub attributes: Attributes,
    /// What describes it to people.
    pub memo: Map<String, Value>,
    /// Where its history is kept, when it is no longer here: then there are no attempts either.
    pub archived: Option<Archived>,
}

/// A process that has tasks, alive or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerRecord {
    /// Who.
    pub incarnation: Incarnation,
    /// Whether it has left, or was declared dead.
    pub is_gone: bool,
    /// Its last sign of life.
    pub heartbeat_at: Timestamp,
    /// Until when it counts as alive without another one.
    pub expires_at: Timestamp,
}

/// A task as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenTask {
    /// The task.
    pub task: TaskId,
    /// What it is for.
    pub kind: TaskKind,
    /// Where it waits.
    pub queue: Queue,
    /// The type of the workflow or of the activity.
    pub name: TypeName,
    /// As stored: `ready`, `leased` or `blocked`.
    pub status: String,
    /// When it may be claimed; when it was set aside.
    pub available_at: Timestamp,
    /// When it was claimed, while somebody has it.
    pub leased_at: Option<Timestamp>,
    /// When that lease ends unless it is renewed.
    pub lease_expires_at: Option<Timestamp>,
    /// Who has it.
    pub owner: Option<String>,
    /// Attempts so far.
    pub attempt: u32,
    /// How often it was taken back.
    pub recoveries: u32,
    /// Why it is set aside.
    pub blocked: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Which runs are meant: those for which all of it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    /// The tenant.
    pub namespace: Namespace,
    /// Only runs of this type.
    pub name: Option<TypeName>,
    /// Only runs that stand in one of these ways; all, when there are none.
    pub statuses: Vec<RunStatus>,
    /// Only runs of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Only runs whose workflow id begins so.
    pub id_prefix: Option<String>,
    /// Only runs that were started then.
    pub started: Period,
    /// Only runs that closed then.
    pub closed: Period,
    /// Only runs whose search attributes are so.
    pub attributes: Vec<Condition>,
}

impl Filter {
    /// All runs of `namespace`.
    #[must_use]
    pub const fn all(namespace: Namespace) -> Self {
        Self {
            namespace,
            name: None,
            statuses: Vec::new(),
            workflow: None,
            id_prefix: None,
            started: Period::ANY,
            closed: Period::ANY,
            attributes: Vec::new(),
        }
    }
}

/// A time between two instants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Period {
    /// From when on.
    pub from: Option<Timestamp>,
    /// Until before when.
    pub until: Option<Timestamp>,
}

impl Period {
    /// Any instant, and none.
    pub const ANY: Self = Self {
        from: None,
        until: None,
    };

    /// Whether it holds `instant`.
    pub fn holds(self, instant: Option<Timestamp>) -> bool {
        let Some(instant) = instant else {
            return self == Self::ANY;
        };
        self.from.is_none_or(|from| from <= instant)
            && self.until.is_none_or(|until| instant < until)
    }
}

/// What a search attribute is to be.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// Which.
    pub name: String,
    /// What.
    pub test: Test,
}

/// How a value is compared.
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// It is this value. A list holds the keyword; of several keywords, all.
    Is(Attribute),
    /// It is of the kind of the bounds, and lies between them. Keywords go by their bytes.
    Within {
        /// From which on.
        from: Option<Attribute>,
        /// Until before which.
        until: Option<Attribute>,
    },
}

/// Which runs to list.
#[derive(Clone, PartialEq, Debug)]
pub struct Listing {
    /// Which.
    pub filter: Filter,
    /// How many at most.
    pub limit: u32,
    /// Only runs after this one: the end of the page before.
    pub after: Option<(Timestamp, RunId)>,
}

/// One page of runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The runs.
    pub runs: Vec<Run>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<(Timestamp, RunId)>,
}

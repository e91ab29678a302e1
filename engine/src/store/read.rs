//! What people and callers read.

use crate::model::{
    Attempt, Namespace, Run, RunId, RunStatus, TaskId, TaskKind, Timestamp, TypeName,
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
    /// Attempts of its activities that did not succeed, the latest first, at most 100.
    pub attempts: Vec<Attempt>,
}

/// A task as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenTask {
    /// The task.
    pub task: TaskId,
    /// What it is for.
    pub kind: TaskKind,
    /// The type of the workflow or of the activity.
    pub name: TypeName,
    /// As stored: `ready`, `leased` or `blocked`.
    pub status: String,
    /// When it may be claimed.
    pub available_at: Timestamp,
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

/// Which runs to list.
#[derive(Clone, PartialEq, Debug)]
pub struct Listing {
    /// The tenant.
    pub namespace: Namespace,
    /// Only runs that stand so.
    pub status: Option<RunStatus>,
    /// Only runs of this type.
    pub name: Option<TypeName>,
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

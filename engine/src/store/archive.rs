//! What leaves the database before its retention ends.

use std::time::Duration;

use crate::model::{Namespace, RunId, Timestamp, WorkflowId};

/// A page of closed runs, the longest closed first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedRuns {
    /// The tenant.
    pub namespace: Namespace,
    /// Only runs that closed at least so long ago.
    pub closed_for: Duration,
    /// Only runs after this one: the end of the page before.
    pub after: Option<(Timestamp, RunId)>,
    /// How many runs at most are looked at.
    pub limit: u32,
}

/// What a page has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unarchived {
    /// Those of the page whose history is here.
    pub runs: Vec<(WorkflowId, RunId)>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<(Timestamp, RunId)>,
}

/// A closed run whose history is kept elsewhere, and is to be removed here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archival {
    /// The run.
    pub run: RunId,
    /// How many events are kept there: with another number nothing is removed.
    pub events: u64,
    /// Where.
    pub place: String,
}

/// Where the history of a run is kept that is no longer here.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Archived {
    /// When it was removed here.
    pub at: Timestamp,
    /// Where it is, in the words of whoever keeps it.
    pub place: String,
}

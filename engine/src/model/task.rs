//! Units to claim.

use std::fmt;

use coord_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{AttemptId, BuildId, Namespace, Queue, RunId, TaskId, Timestamp, TypeName, WorkflowId};

/// What a task is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskKind {
    /// A turn of a run: replay, go on, commit. At most one is open a run.
    Workflow,
    /// An activity, over all its attempts.
    Activity,
}

impl TaskKind {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Activity => "activity",
        }
    }
}

/// Where a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskStatus {
    /// To be claimed, once it is due.
    Ready,
    /// Somebody has it, until its lease ends.
    Leased,
    /// Set aside, with the reason in `last_error`: nobody claims it until somebody resumes it.
    Blocked,
    /// Done; kept for a while only when a remote worker may report it again.
    Completed,
    /// Reported as failed; kept as above.
    Failed,
    /// No longer wanted; kept as above.
    Cancelled,
}

impl TaskStatus {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which of two due tasks goes first: 0 to 9, the lower one. 5 unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// How many there are: a claim probes each.
    pub const COUNT: u8 = 10;

    /// The priority `number`.
    ///
    /// # Errors
    /// `Invalid` above 9.
    pub fn new(number: u8) -> Result<Self> {
        if number < Self::COUNT {
            return Ok(Self(number));
        }
        Err(Error::invalid(format!("priority {number} is above 9")))
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

impl TryFrom<u8> for Priority {
    type Error = Error;

    fn try_from(number: u8) -> Result<Self> {
        Self::new(number)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A task as its claimer gets it.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The tenant.
    pub namespace: Namespace,
    /// What it is for.
    pub kind: TaskKind,
    /// Where it waited.
    pub queue: Queue,
    /// Its priority.
    pub priority: Priority,
    /// The type of the workflow, or of the activity.
    pub name: TypeName,
    /// The instance it belongs to.
    pub workflow: WorkflowId,
    /// The run it belongs to.
    pub run: RunId,
    /// The operation in its run; `None` for a workflow task.
    pub step: Option<u64>,
    /// The build that may continue the run.
    pub build: Option<BuildId>,
    /// The fencing token of this claim: larger than that of any claim before.
    pub epoch: u64,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The id of this attempt; `None` for a workflow task.
    pub attempt_id: Option<AttemptId>,
    /// When the lease ends unless it is renewed.
    pub lease_expires_at: Timestamp,
    /// The earliest of the activity's deadlines.
    pub deadline_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_a_priority_hold() {
        assert_eq!(Priority::new(9).expect("the last one").get(), 9);
        assert!(Priority::new(10).is_err());
    }
}

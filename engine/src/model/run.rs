//! Executions of workflows, and what a caller's command led to.

use serde::{Deserialize, Serialize};

use super::{
    BuildId, Failure, Fingerprint, Namespace, Payload, Queue, RequestId, RunId, Timestamp,
    TypeName, WorkflowId,
};

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Started, and no worker has taken it yet.
    Pending,
    /// It has a workflow task to do.
    Running,
    /// It waits for news, or for an instant.
    Waiting,
    /// It returned its output, or continued as the next run.
    Completed,
    /// It returned a failure, or its time was over.
    Failed,
    /// It ended as somebody asked it to.
    Cancelled,
    /// Somebody ended it.
    Terminated,
}

impl RunStatus {
    /// Whether it goes on.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Waiting)
    }

    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }

    /// The status whose word is `text`.
    pub fn from_word(text: &str) -> Option<Self> {
        const ALL: [RunStatus; 7] = [
            RunStatus::Pending,
            RunStatus::Running,
            RunStatus::Waiting,
            RunStatus::Completed,
            RunStatus::Failed,
            RunStatus::Cancelled,
            RunStatus::Terminated,
        ];
        ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What a waiting run waits for: the oldest of its open operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// An activity.
    Activity,
    /// An instant.
    Timer,
    /// A signal.
    Signal,
    /// A child workflow.
    Child,
    /// A condition of its own state.
    Condition,
}

impl Wait {
    /// The wait whose word is `text`.
    pub fn from_word(text: &str) -> Option<Self> {
        const ALL: [Wait; 5] = [
            Wait::Activity,
            Wait::Timer,
            Wait::Signal,
            Wait::Child,
            Wait::Condition,
        ];
        ALL.into_iter().find(|wait| wait.as_str() == text)
    }

    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Signal => "signal",
            Self::Child => "child",
            Self::Condition => "condition",
        }
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Closed {
    /// With its output.
    Completed(Payload),
    /// With a failure.
    Failed(Failure),
    /// As somebody asked it to, for this reason.
    Cancelled(Failure),
    /// Somebody ended it, for this reason.
    Terminated(Failure),
    /// Its time was over.
    TimedOut(Failure),
    /// It goes on as another run.
    ContinuedAsNew(RunId),
}

impl Closed {
    /// The status of a run that ended so.
    pub const fn status(&self) -> RunStatus {
        match self {
            Self::Completed(_) | Self::ContinuedAsNew(_) => RunStatus::Completed,
            Self::Failed(_) | Self::TimedOut(_) => RunStatus::Failed,
            Self::Cancelled(_) => RunStatus::Cancelled,
            Self::Terminated(_) => RunStatus::Terminated,
        }
    }

    /// The reason as stored and as shown, finer than the status.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled(_) => "cancelled",
            Self::Terminated(_) => "terminated",
            Self::TimedOut(_) => "timed_out",
            Self::ContinuedAsNew(_) => "continued_as_new",
        }
    }
}

/// What becomes of an open child when its parent closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClose {
    /// It is ended. The default: work that nobody waits for any more should not go on unseen.
    #[default]
    Terminate,
    /// It is asked to end, and may clean up.
    RequestCancel,
    /// It goes on alone.
    Abandon,
}

impl ParentClose {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::RequestCancel => "request_cancel",
            Self::Abandon => "abandon",
        }
    }
}

/// A run as `describe` and `list` show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The tenant.
    pub namespace: Namespace,
    /// The instance.
    pub workflow: WorkflowId,
    /// This run.
    pub run: RunId,
    /// Its number in the instance, from 1.
    pub number: u32,
    /// The type of the workflow.
    pub name: TypeName,
    /// Where its workflow tasks wait.
    pub queue: Queue,
    /// The build that may continue it.
    pub build: Option<BuildId>,
    /// What its code was when it began, where its worker said so.
    pub fingerprint: Option<Fingerprint>,
    /// Where it stands.
    pub status: RunStatus,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// How many events its history has, as of the last turn.
    pub history_length: u64,
    /// How many messages it was ever sent.
    pub inbox_seq: u64,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it closed.
    pub closed_at: Option<Timestamp>,
    /// How it closed; `None` while it is open.
    pub closed: Option<Closed>,
    /// The run that started it as a child.
    pub parent: Option<RunId>,
}

/// What a command of a caller led to; the same command is answered the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The run that it reached.
    pub run: RunId,
    /// The caller's id for it.
    pub request: RequestId,
    /// When it was carried out.
    pub at: Timestamp,
}

//! What each kind of event holds beside its value.

use std::time::Duration;

use coord_core::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::time::span;
use super::trace;
use super::{
    AttemptId, Attributes, BuildId, Expired, Failure, Fairness, Occurrence, OpKind, ParentClose,
    ParentLink, Priority, Queue, RequestId, Retry, RunId, Timeouts, Timestamp, TypeName,
    WorkflowId,
};

/// The run began; the value is its input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Started {
    /// The type of the workflow.
    pub name: TypeName,
    /// The instance.
    pub workflow: WorkflowId,
    /// The number of the run in the instance.
    pub number: u32,
    /// Where its workflow tasks wait, and its activities unless they say otherwise.
    pub queue: Queue,
    /// The priority of its tasks.
    pub priority: Priority,
    /// Whose share of their queues its tasks count against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// The build that may continue it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildId>,
    /// Where the run's random numbers begin.
    pub seed: u64,
    /// The run that waits for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLink>,
    /// The run that continued as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_from: Option<RunId>,
    /// Which occurrence of which schedule started the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
    /// When all runs of the instance must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_deadline_at: Option<Timestamp>,
    /// What describes the run to people.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memo: Map<String, Value>,
    /// What the run is found by.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// The trace that the run belongs to, and what began it there.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "trace")]
    pub trace: Option<TraceContext>,
}

/// Nothing but that it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Nothing {}

/// Why the run, or what it waited for, did not succeed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// The failure.
    pub failure: Failure,
}

/// The run goes on as another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContinuedAsNew {
    /// The other run.
    pub run: RunId,
}

/// An activity is wanted; the value is its input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActivityScheduled {
    /// The type of the activity.
    pub name: TypeName,
    /// Where it waits.
    pub queue: Queue,
    /// Its priority.
    pub priority: Priority,
    /// The retry policy in force.
    pub retry: Retry,
    /// The timeouts in force.
    pub timeouts: Timeouts,
    /// What the author sent, to be given back as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Value>,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
    /// The trace that it belongs to, and the turn that wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "trace")]
    pub trace: Option<TraceContext>,
}

/// The activity returned; the value is its result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityCompleted {
    /// The attempt that returned.
    pub attempt: AttemptId,
    /// Its number.
    pub number: u32,
}

/// The activity failed, and no attempt follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActivityFailed {
    /// The attempt that failed.
    pub attempt: AttemptId,
    /// Its number.
    pub number: u32,
    /// The failure.
    pub failure: Failure,
}

/// The activity exceeded a time, and no attempt follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActivityTimedOut {
    /// Which time.
    pub expired: Expired,
    /// How many attempts there were.
    pub number: u32,
}

/// A local step or a side effect ended; the value is its result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Noted {
    /// Its name.
    pub name: TypeName,
}

/// A local step failed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StepFailed {
    /// Its name.
    pub name: TypeName,
    /// The failure.
    pub failure: Failure,
}

/// The run waits for an instant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimerScheduled {
    /// The instant: fixed here, whatever happens until then.
    pub due_at: Timestamp,
    /// The span that was asked for.
    #[serde(with = "span")]
    pub delay: Duration,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
}

/// A signal reached the run; the value is what it carries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignalReceived {
    /// The name of the signal.
    pub name: TypeName,
    /// The sender's id for it.
    pub request: RequestId,
    /// The trace that its sender belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "trace")]
    pub trace: Option<TraceContext>,
}

/// The run waits for a signal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignalWaitOpened {
    /// The name of the signal.
    pub name: TypeName,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
}

/// A wait got its signal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignalApplied {
    /// The number of the event with which the signal was received.
    pub received: u64,
}

/// An update reached the run; the value is its input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateAccepted {
    /// The name of the update.
    pub name: TypeName,
    /// The sender's id for it.
    pub request: RequestId,
    /// The trace that its sender belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "trace")]
    pub trace: Option<TraceContext>,
}

/// The run waits for an update.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateWaitOpened {
    /// The name of the update.
    pub name: TypeName,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
}

/// A wait got its update.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateApplied {
    /// The number of the event with which it was accepted.
    pub received: u64,
    /// The sender's id for it.
    pub request: RequestId,
}

/// The run waits until a condition of its own state holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConditionWaitOpened {
    /// What its author calls it.
    pub name: TypeName,
    /// Until when it waits at most: fixed here, whatever happens until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The span that was asked for.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "span::option"
    )]
    pub timeout: Option<Duration>,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
}

/// An operation was not begun: it would exceed a limit, or its input does not fit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperationRefused {
    /// What was asked for.
    pub operation: OpKind,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<TypeName>,
    /// Why.
    pub failure: Failure,
}

/// The history has become long: the run should continue as new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContinueAsNewSuggested {
    /// By which measure.
    pub measure: Measure,
}

/// How the size of a history is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Its events.
    Events,
    /// The bytes of its values.
    Bytes,
    /// The activities and children that are open.
    FanOut,
}

/// The run answered an update; the value is the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateCompleted {
    /// The sender's id for it.
    pub request: RequestId,
}

/// The run refused an update.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UpdateRejected {
    /// The sender's id for it.
    pub request: RequestId,
    /// Why.
    pub failure: Failure,
}

/// The run took one of the ways that its code has known over time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionMarked {
    /// The change in the code.
    pub change: TypeName,
    /// The way it took.
    pub version: u32,
}

/// The run is found by other attributes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SearchAttributes {
    /// All that it has from here on.
    pub attributes: Attributes,
}

/// Something else describes the run to people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Memo {
    /// All of it from here on.
    pub memo: Map<String, Value>,
}

/// A child workflow was started; the value is its input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The type of the workflow.
    pub name: TypeName,
    /// The child's instance.
    pub workflow: WorkflowId,
    /// Its first run.
    pub run: RunId,
    /// What becomes of it when this run closes.
    pub on_close: ParentClose,
    /// Whether a request to end leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shielded: bool,
}

/// Somebody asked the run to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Why.
    pub reason: String,
}

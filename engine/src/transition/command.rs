//! What the code of a run asks for.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::model::{
    Attributes, Failure, OpKind, ParentClose, Payload, Priority, Queue, RequestId, Retry, RunId,
    Timeouts, TypeName, WorkflowId,
};

/// One thing that the code of a run asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// An activity.
    Activity {
        /// Its operation.
        step: u64,
        /// Its type.
        name: TypeName,
        /// Its input.
        input: Payload,
        /// Where it waits; the run's queue if not said.
        queue: Option<Queue>,
        /// Its priority; the run's if not said.
        priority: Option<Priority>,
        /// When it is tried again.
        retry: Retry,
        /// How long it may take.
        timeouts: Timeouts,
    },
    /// A timer.
    Timer {
        /// Its operation.
        step: u64,
        /// From now.
        delay: Duration,
    },
    /// A wait for a signal.
    AwaitSignal {
        /// Its operation.
        step: u64,
        /// The name of the signal.
        name: TypeName,
    },
    /// A wait for an update.
    AwaitUpdate {
        /// Its operation.
        step: u64,
        /// The name of the update.
        name: TypeName,
    },
    /// A wait for a condition of the code's own state.
    AwaitCondition {
        /// Its operation.
        step: u64,
        /// What its author calls it.
        name: TypeName,
        /// How long it waits at most, from now.
        timeout: Option<Duration>,
    },
    /// A condition holds.
    Satisfy {
        /// The wait for it.
        step: u64,
    },
    /// An operation that cannot be begun.
    Refuse {
        /// Its operation.
        step: u64,
        /// Its sort.
        operation: OpKind,
        /// Its name.
        name: Option<TypeName>,
        /// Why.
        failure: Failure,
    },
    /// The answer to an update.
    Answer {
        /// The sender's id for it.
        request: RequestId,
        /// The answer, or why it is refused.
        result: Result<Payload, Failure>,
    },
    /// A child workflow.
    Child(Box<ChildCommand>),
    /// A local step ended.
    StepEnded {
        /// Its operation.
        step: u64,
        /// Its name.
        name: TypeName,
        /// How.
        result: Result<Payload, Failure>,
    },
    /// A value was taken from outside.
    SideEffect {
        /// Its operation.
        step: u64,
        /// Its name.
        name: TypeName,
        /// The value.
        value: Payload,
    },
    /// The run takes a way through code that has changed.
    Version {
        /// Its operation.
        step: u64,
        /// The change.
        change: TypeName,
        /// The way.
        version: u32,
    },
    /// The run is to be found by these attributes.
    SetAttributes {
        /// Its operation.
        step: u64,
        /// All of them.
        attributes: Attributes,
    },
    /// This describes the run to people.
    SetMemo {
        /// Its operation.
        step: u64,
        /// All of it.
        memo: Map<String, Value>,
    },
    /// A request to end leaves an operation alone: the one that the next command begins.
    Shield {
        /// Which.
        step: u64,
    },
    /// The code no longer waits for an operation.
    Drop {
        /// Which.
        step: u64,
    },
    /// The code returned its output.
    Complete(Payload),
    /// The code returned a failure.
    Fail(Failure),
    /// The run goes on as another.
    Continue(Box<ContinueCommand>),
}

impl Command {
    /// The operation that it would begin, if it begins one that can be refused.
    pub(super) fn begins(&self) -> Option<(u64, OpKind, Option<TypeName>)> {
        Some(match self {
            Self::Activity { step, name, .. } => (*step, OpKind::Activity, Some(name.clone())),
            Self::Timer { step, .. } => (*step, OpKind::Timer, None),
            Self::AwaitSignal { step, name } => (*step, OpKind::Signal, Some(name.clone())),
            Self::AwaitUpdate { step, name } => (*step, OpKind::Update, Some(name.clone())),
            Self::AwaitCondition { step, name, .. } => {
                (*step, OpKind::Condition, Some(name.clone()))
            }
            Self::Child(child) => (child.step, OpKind::Child, Some(child.name.clone())),
            _ => return None,
        })
    }
}

/// A child to start.
#[derive(Clone, PartialEq, Debug)]
pub struct ChildCommand {
    /// Its operation.
    pub step: u64,
    /// Its type.
    pub name: TypeName,
    /// Its instance.
    pub workflow: WorkflowId,
    /// Its first run.
    pub run: RunId,
    /// Where its random numbers begin.
    pub seed: u64,
    /// Its input.
    pub input: Payload,
    /// Where its workflow tasks wait; the parent's queue if not said.
    pub queue: Option<Queue>,
    /// What becomes of it when this run closes.
    pub on_close: ParentClose,
}

/// The run that goes on.
#[derive(Clone, PartialEq, Debug)]
pub struct ContinueCommand {
    /// It.
    pub run: RunId,
    /// Where its random numbers begin.
    pub seed: u64,
    /// Its input.
    pub input: Payload,
}

//! What the code of a run asks for, by sort.

use serde::{Deserialize, Serialize};

/// What sort of operation a step is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// An activity.
    Activity,
    /// A timer.
    Timer,
    /// A wait for a signal.
    Signal,
    /// A wait for an update.
    Update,
    /// A wait for a condition of the code's own state.
    Condition,
    /// A child workflow.
    Child,
    /// A local step.
    Step,
    /// A value from outside.
    SideEffect,
    /// A version marker.
    Version,
    /// The search attributes.
    Attributes,
    /// The memo.
    Memo,
}

impl OpKind {
    /// The word for it in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Signal => "wait for signal",
            Self::Update => "wait for update",
            Self::Condition => "wait for condition",
            Self::Child => "child workflow",
            Self::Step => "step",
            Self::SideEffect => "side effect",
            Self::Version => "version marker",
            Self::Attributes => "search attributes",
            Self::Memo => "memo",
        }
    }
}

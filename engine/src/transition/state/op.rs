//! Operations: how they begin, and how they are given up.

use crate::model::{EventKind, Failure, OpKind, RunId, Timestamp, TypeName, WorkflowId, events};

/// An operation of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Its sort.
    pub kind: OpKind,
    /// Its name; a timer has none.
    pub name: Option<TypeName>,
    /// When it ends by itself: a timer, or a wait with a timeout.
    pub due_at: Timestamp,
    /// Whether it has its outcome.
    pub ended: bool,
    /// Whether a request to end leaves it alone.
    pub shielded: bool,
    /// The child's instance and first run.
    pub child: Option<(WorkflowId, RunId)>,
}

/// Where signals or updates of one name meet the waits for them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Channel {
    pub(super) kind: OpKind,
    pub(super) name: TypeName,
}

/// The operation that an event opens, if it does.
pub(crate) fn opens(kind: &EventKind) -> Option<(OpKind, Option<TypeName>)> {
    Some(match kind {
        EventKind::ActivityScheduled(activity) => (OpKind::Activity, Some(activity.name.clone())),
        EventKind::TimerScheduled(_) => (OpKind::Timer, None),
        EventKind::SignalWaitOpened(wait) => (OpKind::Signal, Some(wait.name.clone())),
        EventKind::UpdateWaitOpened(wait) => (OpKind::Update, Some(wait.name.clone())),
        EventKind::ConditionWaitOpened(wait) => (OpKind::Condition, Some(wait.name.clone())),
        EventKind::OperationRefused(refused) => (refused.operation, refused.name.clone()),
        EventKind::ChildStarted(child) => (OpKind::Child, Some(child.name.clone())),
        EventKind::StepCompleted(step) => (OpKind::Step, Some(step.name.clone())),
        EventKind::StepFailed(step) => (OpKind::Step, Some(step.name.clone())),
        EventKind::SideEffectRecorded(noted) => (OpKind::SideEffect, Some(noted.name.clone())),
        EventKind::VersionMarked(marked) => (OpKind::Version, Some(marked.change.clone())),
        EventKind::SearchAttributes(_) => (OpKind::Attributes, None),
        EventKind::Memo(_) => (OpKind::Memo, None),
        _ => return None,
    })
}

/// Whether a request to end leaves the operation that an event opens alone.
pub(super) const fn is_shielded(kind: &EventKind) -> bool {
    match kind {
        EventKind::ActivityScheduled(activity) => activity.shielded,
        EventKind::TimerScheduled(timer) => timer.shielded,
        EventKind::SignalWaitOpened(wait) => wait.shielded,
        EventKind::UpdateWaitOpened(wait) => wait.shielded,
        EventKind::ConditionWaitOpened(wait) => wait.shielded,
        EventKind::ChildStarted(child) => child.shielded,
        _ => false,
    }
}

/// How many operations of a sort are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Activities.
    pub activities: usize,
    /// Children.
    pub children: usize,
    /// Timers, and waits with a timeout.
    pub timers: usize,
}

impl Tally {
    pub(super) fn count(&mut self, op: &Op, change: fn(&mut usize)) {
        match op.kind {
            OpKind::Activity => change(&mut self.activities),
            OpKind::Child => change(&mut self.children),
            _ if op.due_at.comes() => change(&mut self.timers),
            _ => {}
        }
    }
}

impl Op {
    /// The event with which it ends at its instant.
    pub(in crate::transition) fn due_as(&self) -> EventKind {
        let nothing = events::Nothing {};
        match self.kind {
            OpKind::Condition => EventKind::ConditionWaitTimedOut(nothing),
            _ => EventKind::TimerFired(nothing),
        }
    }

    /// The event with which the run no longer wants it.
    pub(in crate::transition) fn dropped_as(&self, why: &str) -> EventKind {
        let nothing = events::Nothing {};
        match self.kind {
            OpKind::Activity => EventKind::ActivityCancelled(nothing),
            OpKind::Timer => EventKind::TimerCancelled(nothing),
            OpKind::Signal => EventKind::SignalWaitCancelled(nothing),
            OpKind::Update => EventKind::UpdateWaitCancelled(nothing),
            OpKind::Condition => EventKind::ConditionWaitCancelled(nothing),
            OpKind::Child => EventKind::ChildCancelled(events::Failed {
                failure: Failure::new(why).of_kind(Failure::CANCELLED),
            }),
            OpKind::Step
            | OpKind::SideEffect
            | OpKind::Version
            | OpKind::Attributes
            | OpKind::Memo => {
                unreachable!("it has its outcome from the start, so it is never open")
            }
        }
    }
}

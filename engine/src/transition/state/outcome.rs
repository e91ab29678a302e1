//! What an event means to the operation that it is about.

use super::{Outcome, RunState};
use crate::model::{Event, EventKind, Failure};

impl RunState {
    /// The outcome that an event gives to its operation.
    pub(super) fn outcome(&mut self, event: &Event) -> Option<Outcome> {
        let value = || Ok(event.payload.clone());
        match &event.kind {
            EventKind::ActivityCompleted(_)
            | EventKind::StepCompleted(_)
            | EventKind::SideEffectRecorded(_)
            | EventKind::TimerFired(_)
            | EventKind::ConditionWaitSatisfied(_)
            | EventKind::ChildCompleted(_)
            | EventKind::VersionMarked(_)
            | EventKind::SearchAttributes(_)
            | EventKind::Memo(_) => Some(value()),
            EventKind::ActivityFailed(failed) => Some(Err(failed.failure.clone())),
            EventKind::StepFailed(failed) => Some(Err(failed.failure.clone())),
            EventKind::OperationRefused(refused) => Some(Err(refused.failure.clone())),
            EventKind::ConditionWaitTimedOut(_) => {
                let failure = Failure::new("the condition did not hold in time");
                Some(Err(failure.of_kind(Failure::TIMED_OUT)))
            }
            EventKind::ActivityTimedOut(timed_out) => {
                let message = format!("the activity exceeded its {}", timed_out.expired.as_str());
                Some(Err(Failure::new(message).of_kind(Failure::TIMED_OUT)))
            }
            EventKind::ChildFailed(failed)
            | EventKind::ChildCancelled(failed)
            | EventKind::ChildTerminated(failed) => Some(Err(failed.failure.clone())),
            EventKind::ActivityCancelled(_)
            | EventKind::TimerCancelled(_)
            | EventKind::SignalWaitCancelled(_)
            | EventKind::UpdateWaitCancelled(_)
            | EventKind::ConditionWaitCancelled(_) => {
                let reason = self
                    .cancel
                    .clone()
                    .unwrap_or_else(|| "no longer wanted".to_owned());
                Some(Err(Failure::new(reason).of_kind(Failure::CANCELLED)))
            }
            EventKind::SignalApplied(applied) => Some(Ok(self.hand_over(applied.received))),
            EventKind::UpdateApplied(applied) => Some(Ok(self.hand_over(applied.received))),
            _ => None,
        }
    }
}

//! Code along a history that is there already.

use std::task::Waker;

use coord_core::Result as CoordResult;

use super::{Code, Function, Means, Problem, Progress};
use crate::model::{Event, EventKind};
use crate::transition::{Identity, RunState, opens};

impl Code {
    /// Takes the code along a history: to where it stood after the last of `events`.
    ///
    /// # Errors
    /// The problem that stops it, or `Corrupt` when the events are no history.
    pub(crate) fn replay(
        identity: Identity,
        means: Means,
        events: &[Event],
        function: &Function,
    ) -> CoordResult<Result<(Self, RunState, Progress), Problem>> {
        let mut state = RunState::default();
        let mut outcomes = Vec::with_capacity(events.len());
        for event in events {
            outcomes.push(state.apply(event)?);
        }
        let mut code = Self::new(identity, means, &state, function);
        code.expect(&state, events);
        // A run may begin with signals that another one has handed on: before its first turn, its
        // code has asked for nothing.
        let is_first = |event: &Event| {
            matches!(
                event.kind,
                EventKind::Started(_) | EventKind::SignalReceived(_) | EventKind::UpdateAccepted(_)
            )
        };
        let has_turns = !events.iter().all(is_first);
        let mut progress = Progress::Waits;
        for (index, (event, outcome)) in events.iter().zip(outcomes).enumerate() {
            let has_ended = matches!(progress, Progress::Ended(_));
            if has_ended && has_turns && !state.is_closed() {
                return Ok(Err(ended_otherwise(event, "return")));
            }
            if let Err(problem) = code.check_end(event, &progress) {
                return Ok(Err(problem));
            }
            if is_last(&event.kind) {
                break;
            }
            if has_ended {
                // What is left was decided in the same go, or came and was no longer looked at.
                continue;
            }
            code.script.lock().ahead = has_turns && index + 1 < events.len();
            code.see(event, outcome);
            match code.poll(Waker::noop(), false) {
                Ok(now) => progress = now,
                Err(problem) => return Ok(Err(problem)),
            }
        }
        Ok(Ok((code, state, progress)))
    }

    fn expect(&mut self, state: &RunState, events: &[Event]) {
        let mut pages = self.script.lock();
        pages.expect(state);
        for event in events {
            match (&event.kind, event.step, &event.payload) {
                (EventKind::SideEffectRecorded(_), Some(step), Some(value)) => {
                    pages.noted.insert(step, value.clone());
                }
                (EventKind::OperationRefused(refused), Some(step), _) => {
                    pages.refused.insert(step, refused.failure.clone());
                }
                (
                    EventKind::ConditionWaitSatisfied(_)
                    | EventKind::ConditionWaitTimedOut(_)
                    | EventKind::ConditionWaitCancelled(_),
                    Some(step),
                    _,
                ) => {
                    pages.concluded.insert(step);
                }
                (EventKind::UpdateCompleted(completed), ..) => {
                    pages.answered.insert(completed.request.clone());
                }
                (EventKind::UpdateRejected(rejected), ..) => {
                    pages.answered.insert(rejected.request.clone());
                }
                (EventKind::VersionMarked(marked), Some(step), _) => {
                    pages
                        .versions
                        .insert(marked.change.clone(), (step, marked.version));
                }
                _ => {}
            }
        }
    }

    /// Whether the code has returned where the history says so, and as it says.
    fn check_end(&self, event: &Event, progress: &Progress) -> Result<(), Problem> {
        let got = match progress {
            Progress::Ended(ending) => ending.event_name(),
            _ => "a wait",
        };
        let agrees = match &event.kind {
            EventKind::Completed(_) | EventKind::ContinuedAsNew(_) => event.kind.name() == got,
            EventKind::Failed(_) | EventKind::Cancelled(_) => got == "Failed",
            kind => {
                let opens_unasked = event.step.filter(|_| opens(kind).is_some());
                if let (Some(step), Progress::Ended(_)) = (opens_unasked, progress) {
                    let mut pages = self.script.lock();
                    pages.check_issued(step);
                    return pages.problem.clone().map_or(Ok(()), Err);
                }
                true
            }
        };
        if agrees {
            return Ok(());
        }
        Err(ended_otherwise(event, got))
    }
}

fn ended_otherwise(event: &Event, got: &str) -> Problem {
    Problem::Diverged {
        step: event.step.unwrap_or_default(),
        expected: event.kind.name().to_owned(),
        got: got.to_owned(),
    }
}

fn is_last(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Completed(_)
            | EventKind::Failed(_)
            | EventKind::Cancelled(_)
            | EventKind::Terminated(_)
            | EventKind::TimedOut(_)
            | EventKind::ContinuedAsNew(_)
    )
}

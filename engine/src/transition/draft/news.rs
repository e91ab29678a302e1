//! What a run hears: messages, and instants that have come.

use coord_core::Result;

use super::Draft;
use crate::limits::Limit;
use crate::model::{Closed, EventKind, Failure, Message, OpKind, Payload, RequestId, events};

impl Draft {
    /// Takes the message at `place` of the inbox; one that the run no longer wants is dropped.
    ///
    /// # Errors
    /// `Corrupt` when the history is none.
    pub fn take(&mut self, place: u64, message: Message) -> Result<()> {
        if place <= self.drained {
            return Ok(());
        }
        self.drained = place;
        self.hear(message)
    }

    /// Takes a message that never was in the inbox: the result of an activity that ends along with
    /// this turn.
    ///
    /// # Errors
    /// `Corrupt` when the history is none.
    pub fn hear(&mut self, message: Message) -> Result<()> {
        if self.state.is_closed() {
            return Ok(());
        }
        let Message {
            step,
            kind,
            payload,
            ..
        } = message;
        match kind {
            EventKind::SignalReceived(events::SignalReceived { ref request, .. })
            | EventKind::UpdateAccepted(events::UpdateAccepted { ref request, .. })
                if self.state.has_request(request) =>
            {
                Ok(())
            }
            EventKind::UpdateAccepted(ref update) if self.has_too_many_updates() => {
                let rejected = events::UpdateRejected {
                    request: update.request.clone(),
                    failure: self.exceeds(Limit::PendingUpdates),
                };
                self.add(None, EventKind::UpdateRejected(rejected), None)
            }
            EventKind::SignalReceived(_) | EventKind::UpdateAccepted(_) => {
                let sort = match kind {
                    EventKind::UpdateAccepted(_) => OpKind::Update,
                    _ => OpKind::Signal,
                };
                self.add(None, kind, payload)?;
                self.note_received(sort);
                self.match_signals()
            }
            EventKind::CancelRequested(_) if self.state.cancel_reason().is_some() => Ok(()),
            EventKind::CancelRequested(request) => self.cancel(request),
            EventKind::Terminated(terminated) => {
                let failure = terminated.failure.clone();
                self.close(
                    EventKind::Terminated(terminated),
                    None,
                    Closed::Terminated(failure),
                )
            }
            _ if self.wants(step, &kind) => self.add(step, kind, payload),
            // It comes late or twice, or for an operation that nobody knows.
            _ => Ok(()),
        }
    }

    /// Fires the timers that are due, the earliest first, and ends a run whose time is over.
    ///
    /// # Errors
    /// `Corrupt` when the history is none.
    pub fn fire_due(&mut self) -> Result<()> {
        if self.state.is_closed() {
            return Ok(());
        }
        if self
            .state
            .deadline()
            .is_some_and(|deadline| deadline <= self.now)
        {
            let failure =
                Failure::new("the workflow exceeded its time").of_kind(Failure::TIMED_OUT);
            let event = EventKind::TimedOut(events::Failed {
                failure: failure.clone(),
            });
            return self.close(event, None, Closed::TimedOut(failure));
        }
        let mut due: Vec<_> = self
            .state
            .open()
            .filter(|(_, op)| op.due_at <= self.now)
            .map(|(step, op)| (op.due_at, step))
            .collect();
        due.sort_unstable();
        for (_, step) in due {
            let Some(op) = self.state.op(step) else {
                continue;
            };
            self.add(Some(step), op.due_as(), None)?;
        }
        Ok(())
    }

    /// Whether `kind` is the outcome of an operation that is open.
    fn wants(&self, step: Option<u64>, kind: &EventKind) -> bool {
        let Some(op) = step
            .and_then(|step| self.state.op(step))
            .filter(|op| !op.ended)
        else {
            return false;
        };
        match kind {
            EventKind::ActivityCompleted(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityTimedOut(_) => op.kind == OpKind::Activity,
            EventKind::ChildCompleted(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildCancelled(_)
            | EventKind::ChildTerminated(_) => op.kind == OpKind::Child,
            _ => false,
        }
    }

    pub(super) fn answer(
        &mut self,
        request: RequestId,
        result: std::result::Result<Payload, Failure>,
    ) -> Result<()> {
        match result {
            Ok(answer) => {
                let completed = events::UpdateCompleted { request };
                self.add(None, EventKind::UpdateCompleted(completed), Some(answer))
            }
            Err(failure) => {
                let rejected = events::UpdateRejected { request, failure };
                self.add(None, EventKind::UpdateRejected(rejected), None)
            }
        }
    }

    pub(super) fn match_signals(&mut self) -> Result<()> {
        while let Some((wait, applied)) = self.state.next_match() {
            self.add(Some(wait), applied, None)?;
        }
        Ok(())
    }

    /// The condition of the wait `step` holds, unless it has ended already.
    pub(super) fn satisfy(&mut self, step: u64) -> Result<()> {
        let op = self.state.op(step);
        if op.is_none_or(|op| op.ended || op.kind != OpKind::Condition) {
            return Ok(());
        }
        let satisfied = EventKind::ConditionWaitSatisfied(events::Nothing {});
        self.add(Some(step), satisfied, None)
    }
}

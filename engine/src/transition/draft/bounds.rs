//! What a run may have at most.

use coord_core::Result;

use super::Draft;
use crate::limits::{Limit, Limits};
use crate::model::{Closed, EventKind, Failure, OpKind, events};
use crate::transition::command::Command;

/// How many events a run has beyond its limit at least, to end in good order.
const LEAST_LEEWAY: u64 = 1000;

/// A run that comes near a limit, or beyond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strain {
    /// Which limit.
    pub limit: Limit,
    /// Whether it is beyond; then what was asked for was refused.
    pub is_exceeded: bool,
}

impl Draft {
    /// What the code asks for from here on is asked for in one go.
    pub const fn begin_batch(&mut self) {
        self.batch = 0;
    }

    /// Whether so much waits to be committed that it is to be committed before more is decided.
    pub fn is_full(&self) -> bool {
        let most = self.limits.transaction_events;
        most > 0 && self.pending.events.len() >= most as usize
    }

    /// Which limits the run has come near to, or beyond, since the last time.
    pub fn take_strains(&mut self) -> Vec<Strain> {
        std::mem::take(&mut self.strains)
    }

    /// Tells the run, once, that it should continue as new when its history has become long.
    ///
    /// It is an event, so that the code goes the same way again under other limits.
    ///
    /// # Errors
    /// `Corrupt` when the history is none.
    pub fn suggest_continuing(&mut self) -> Result<()> {
        if self.state.is_closed() || self.state.is_suggested() {
            return Ok(());
        }
        let (limits, tally) = (&self.limits, self.state.tally());
        let fan_out = tally.activities + tally.children;
        let is_over = |most: u32, count: u64| most > 0 && count >= u64::from(most);
        let measure = if is_over(limits.suggest_events, self.state.length()) {
            events::Measure::Events
        } else if is_over(limits.suggest_bytes, self.state.bytes()) {
            events::Measure::Bytes
        } else if is_over(limits.suggest_fan_out, fan_out as u64) {
            events::Measure::FanOut
        } else {
            return Ok(());
        };
        let suggested = events::ContinueAsNewSuggested { measure };
        self.add(None, EventKind::ContinueAsNewSuggested(suggested), None)
    }

    /// Ends a run whose history is full and whose code goes on asking all the same, as a loop does
    /// that takes no failure for an answer: each refusal is an event, too.
    ///
    /// It ends from outside, so that code which is asked a question later need not agree.
    pub(super) fn is_given_up(&mut self, command: &Command) -> Result<bool> {
        let most = u64::from(self.limits.history_events);
        let end = most + (most / 10).max(LEAST_LEEWAY);
        let ends = matches!(
            command,
            Command::Complete(_) | Command::Fail(_) | Command::Continue(_)
        );
        if most == 0 || ends || self.state.length() < end {
            return Ok(false);
        }
        let failure = self.exceeds(Limit::HistoryEvents);
        let terminated = events::Failed {
            failure: failure.clone(),
        };
        let closed = Closed::Terminated(failure);
        self.close(EventKind::Terminated(terminated), None, closed)?;
        Ok(true)
    }

    /// Refuses what `command` would begin beyond a limit; whether it did.
    pub(super) fn refuses(&mut self, command: &Command) -> Result<bool> {
        let Some((step, operation, name)) = command.begins() else {
            return Ok(false);
        };
        self.batch += 1;
        let Some(limit) = self.exceeded_by(command, operation) else {
            return Ok(false);
        };
        let failure = self.exceeds(limit);
        self.refuse(
            step,
            events::OperationRefused {
                operation,
                name,
                failure,
            },
        )?;
        Ok(true)
    }

    pub(super) fn refuse(&mut self, step: u64, refused: events::OperationRefused) -> Result<()> {
        self.add(Some(step), EventKind::OperationRefused(refused), None)
    }

    fn exceeded_by(&mut self, command: &Command, operation: OpKind) -> Option<Limit> {
        let tally = *self.state.tally();
        let is_timed = matches!(
            command,
            Command::Timer { .. }
                | Command::AwaitCondition {
                    timeout: Some(_),
                    ..
                }
        );
        let length = usize::try_from(self.state.length()).unwrap_or(usize::MAX);
        let counts = [
            Some((Limit::HistoryEvents, length + 1)),
            Some((Limit::CommandBatch, self.batch)),
            (operation == OpKind::Activity)
                .then_some((Limit::PendingActivities, tally.activities + 1)),
            (operation == OpKind::Child).then_some((Limit::PendingChildren, tally.children + 1)),
            is_timed.then_some((Limit::PendingTimers, tally.timers + 1)),
        ];
        for (limit, count) in counts.into_iter().flatten() {
            let most = limit.of(&self.limits);
            if Limits::is_exceeded(most, count) {
                return Some(limit);
            }
            if self.limits.is_near(most, count) {
                self.note(limit, false);
            }
        }
        None
    }

    /// Notes that a limit is exceeded; the failure that says so.
    pub(super) fn exceeds(&mut self, limit: Limit) -> Failure {
        self.note(limit, true);
        limit.exceeded(&self.limits)
    }

    pub(super) fn has_too_many_updates(&self) -> bool {
        let count = self.state.buffered(OpKind::Update) + 1;
        Limits::is_exceeded(self.limits.pending_updates, count)
    }

    /// Notes that messages of a sort, of which one has just come, are many.
    pub(super) fn note_received(&mut self, kind: OpKind) {
        let limit = match kind {
            OpKind::Update => Limit::PendingUpdates,
            _ => Limit::PendingSignals,
        };
        let (most, count) = (limit.of(&self.limits), self.state.buffered(kind));
        if self.limits.is_near(most, count) {
            self.note(limit, false);
        }
    }

    pub(super) fn note(&mut self, limit: Limit, is_exceeded: bool) {
        let strain = Strain { limit, is_exceeded };
        if !self.strains.contains(&strain) {
            self.strains.push(strain);
        }
    }
}

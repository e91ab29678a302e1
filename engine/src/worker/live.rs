//! A run in memory: its state, and its code at the point to which the history took it.

use std::sync::Arc;
use std::task::Waker;

use coord_core::{Error, Result};

use crate::flow::{Code, Ending, Function, Problem, Progress};
use crate::model::{Event, Ids, Message, Record, Timestamp};
use crate::transition::{Draft, Identity};

/// A run in memory.
pub(super) struct Live {
    pub(super) draft: Draft,
    code: Code,
    ids: Arc<Ids>,
    /// How many activities in a row its own node has begun.
    pub(super) chain: u32,
}

/// Where a run stands after it has run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stand {
    /// It has ended.
    Ended,
    /// It waits for news.
    Waits,
    /// It goes on when what was decided is committed.
    WantsCommit,
    /// A local step is under way.
    Works,
}

/// Why a run cannot be gone on with here and now.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The task is no longer ours.
    Lost,
    /// The run has gone on elsewhere.
    Stale,
    /// The code has a problem.
    Problem(Problem),
    /// The history does not read, or the database does not answer.
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Live {
    /// Takes `function` along the history of a run, with the messages up to `drained` taken.
    ///
    /// What the code decides beyond the history is decided at `now`.
    pub(super) fn replay(
        identity: Identity,
        ids: Arc<Ids>,
        events: &[Event],
        function: &Function,
        (drained, now): (u64, Timestamp),
    ) -> Result<Self, Trouble> {
        let replayed = Code::replay(identity.clone(), Arc::clone(&ids), events, function)?;
        let (code, state, progress) = replayed?;
        let mut live = Self {
            draft: Draft::new(identity, state, drained),
            code,
            ids,
            chain: 0,
        };
        live.draft.set_now(now);
        if !live.draft.state().is_closed() {
            live.carry_out()?;
            if let Progress::Ended(ending) = progress {
                live.end(ending)?;
            }
        }
        Ok(live)
    }

    /// Takes the messages that wait, and fires what is due.
    pub(super) fn take(&mut self, inbox: Vec<Record>, now: Timestamp) -> Result<(), Trouble> {
        self.draft.set_now(now);
        for record in inbox {
            let place = record.seq;
            self.draft.take(place, Message::from_record(record)?)?;
        }
        self.draft.fire_due()?;
        Ok(())
    }

    /// Runs the code on until it waits for something, with what it decides decided at `now`. `task`
    /// is woken when a local step goes on.
    pub(super) fn run_on(&mut self, task: &Waker, now: Timestamp) -> Result<Stand, Trouble> {
        self.draft.set_now(now);
        loop {
            if self.draft.state().is_closed() {
                return Ok(Stand::Ended);
            }
            if self.draft.holds_back() {
                return Ok(Stand::WantsCommit);
            }
            if let Some(fed) = self.draft.next_fed() {
                self.code.see(&fed.event, fed.outcome);
            }
            let is_committed = !self.draft.is_pending() && !self.draft.has_fed();
            let progress = self.code.poll(task, is_committed)?;
            self.carry_out()?;
            if let Progress::Ended(ending) = progress {
                self.end(ending)?;
                return Ok(Stand::Ended);
            }
            if self.draft.has_fed() {
                continue;
            }
            return Ok(match progress {
                Progress::Works => Stand::Works,
                Progress::WantsCommit if self.draft.is_pending() => Stand::WantsCommit,
                // All is committed by now, so it may begin.
                Progress::WantsCommit => continue,
                Progress::Waits | Progress::Ended(_) => Stand::Waits,
            });
        }
    }

    fn carry_out(&mut self) -> Result<(), Trouble> {
        for command in self.code.take_commands() {
            self.draft.carry_out(command)?;
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) -> Result<(), Trouble> {
        self.draft.carry_out(ending.command(&self.ids))?;
        Ok(())
    }

    /// What the code says to a query.
    pub(super) fn code(&self) -> &Code {
        &self.code
    }
}

//! A run in memory: its state, and its code at the point to which the history took it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use coord_core::signals::Detail;
use coord_core::trace::{Span, SpanKind};
use coord_core::{Error, Result, TraceContext};

use crate::flow::{Code, Ending, Function, Means, Problem, Progress};
use crate::model::{Event, EventKind, Fingerprint, Ids, Message, Record, RunId, Timestamp, events};
use crate::signals::Signal;
use crate::store::{Fence, Then, Turn};
use crate::transition::{Draft, Identity, Strain};

/// How many messages are taken before the code looks at them and what it decides may be committed.
const MESSAGES_AT_ONCE: usize = 500;

/// A run in memory.
pub(super) struct Live {
    pub(super) draft: Draft,
    code: Code,
    ids: Arc<Ids>,
    /// Messages that were not taken yet.
    inbox: VecDeque<Record>,
    /// How many activities in a row its own node has begun.
    pub(super) chain: u32,
    /// That of the turn under way.
    turn: Span,
    /// What its code is, to be recorded with its next turn.
    pub(super) unrecorded: Option<Fingerprint>,
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
    /// What the code decides beyond the history is decided at `now`, within the span `turn`.
    pub(super) fn replay(
        identity: Identity,
        means: Means,
        events: &[Event],
        function: &Function,
        (drained, now, turn): (u64, Timestamp, Span),
    ) -> Result<Self, Trouble> {
        let entered = turn.enter();
        let (ids, limits) = (Arc::clone(&means.0), *means.1.limits());
        let replayed = Code::replay(identity.clone(), means, events, function)?;
        let (code, state, progress) = replayed?;
        let mut live = Self {
            draft: Draft::new(identity, state, drained, limits),
            code,
            ids,
            inbox: VecDeque::new(),
            chain: 0,
            turn: Span::none(),
            unrecorded: None,
        };
        drop(entered);
        live.begin(turn);
        live.draft.set_now(now);
        live.carry_out()?;
        if let Progress::Ended(ending) = progress {
            live.end(ending)?;
        }
        Ok(live)
    }

    /// Begins a turn, of which the span is `turn`.
    fn begin(&mut self, turn: Span) {
        if let Some(context) = turn.context() {
            self.draft.set_trace(Some(context.clone()));
        }
        self.turn = turn;
    }

    /// Begins another turn of a run that has stayed in memory.
    pub(super) fn begin_again(&mut self) {
        let turn = turn_of(&self.draft.identity().run, self.draft.state().started());
        self.begin(turn);
    }

    /// It, with the turn under way ended, to stay in memory.
    pub(super) fn at_rest(mut self: Box<Self>) -> Box<Self> {
        self.turn = Span::none();
        self
    }

    /// What is to be committed now, with what its code is, if that is not recorded.
    pub(super) fn cut(&mut self, fence: Fence, then: Option<Then>) -> Result<Turn> {
        let turn = self.draft.cut(fence, then)?;
        Ok(Turn {
            fingerprint: self.unrecorded.take(),
            ..turn
        })
    }

    /// Hears of the messages that wait, to be taken as the code runs on.
    pub(super) fn take(&mut self, inbox: Vec<Record>) {
        self.inbox = inbox.into();
    }

    /// Takes the next messages, as many as fit into a transaction.
    fn take_next(&mut self) -> Result<(), Trouble> {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(record) = self.inbox.pop_front() else {
                break;
            };
            let (place, message) = (record.seq, Message::from_record(record)?);
            if let Some(trace) = trace_of(&message.kind) {
                self.turn.link(trace);
            }
            self.draft.take(place, message)?;
        }
        Ok(())
    }

    /// Takes what comes to a run that waits: messages first, then what is due, so that what was there
    /// in time counts.
    fn hear_more(&mut self) -> Result<(), Trouble> {
        self.take_next()?;
        if self.inbox.is_empty() && !self.draft.has_fed() {
            self.draft.fire_due()?;
        }
        if !self.draft.has_fed() {
            self.draft.suggest_continuing()?;
        }
        Ok(())
    }

    /// Runs the code on until it waits for something, with what it decides decided at `now`. `task`
    /// is woken when a local step goes on.
    pub(super) fn run_on(&mut self, task: &Waker, now: Timestamp) -> Result<Stand, Trouble> {
        self.draft.set_now(now);
        let _entered = self.turn.enter();
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
            if let Some(end) = self.code.take_step_end() {
                self.draft.carry_out(end)?;
                continue;
            }
            if self.draft.is_full() {
                return Ok(Stand::WantsCommit);
            }
            self.hear_more()?;
            if self.draft.has_fed() || self.draft.state().is_closed() {
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
        self.draft.begin_batch();
        for command in self.code.take_commands() {
            if self.draft.state().is_closed() {
                break;
            }
            self.draft.carry_out(command)?;
        }
        for strain in self.draft.take_strains() {
            report(&self.draft.identity().run, strain);
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) -> Result<(), Trouble> {
        if !self.draft.state().is_closed() {
            self.draft.carry_out(ending.command(&self.ids))?;
        }
        Ok(())
    }

    /// What the code says to a query.
    pub(super) fn code(&self) -> &Code {
        &self.code
    }
}

/// The span of a turn, under what began the run.
pub(super) fn turn_of(run: &RunId, started: Option<&events::Started>) -> Span {
    let Some(started) = started else {
        return Span::none();
    };
    let (parent, name) = (started.trace.as_ref(), &started.name);
    let mut span = Span::of(parent, SpanKind::Consumer, format_args!("workflow {name}"));
    span.note("coord.workflow.id", &started.workflow);
    span.note("coord.run.id", run);
    span
}

/// How the run of a history began.
pub(super) fn started(events: &[Event]) -> Option<&events::Started> {
    match events.first().map(|event| &event.kind) {
        Some(EventKind::Started(started)) => Some(started),
        _ => None,
    }
}

/// The trace of whoever sent a message.
const fn trace_of(message: &EventKind) -> Option<&TraceContext> {
    match message {
        EventKind::SignalReceived(signal) => signal.trace.as_ref(),
        EventKind::UpdateAccepted(update) => update.trace.as_ref(),
        _ => None,
    }
}

/// Says that a run comes near a limit, or beyond.
fn report(run: &RunId, strain: Strain) {
    let (limit, about) = (strain.limit, Detail::new(run));
    if strain.is_exceeded {
        Signal::LimitExceeded { limit, about }.emit();
    } else {
        Signal::LimitNear { limit, about }.emit();
    }
}

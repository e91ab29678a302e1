//! A turn in the making.

mod begin;
mod bounds;
mod commit;
mod end;
mod give_up;
mod news;

use std::collections::VecDeque;

use coord_core::{Error, Result, TraceContext};

use super::command::Command;
use super::state::{Outcome, RunState};
use crate::limits::{Limit, Limits};
use crate::model::{
    Closed, Event, EventKind, Marks, Namespace, OpKind, Payload, RunId, Timestamp, WorkflowId,
    events,
};
use crate::store::{Closing, Deliver, NewActivity, Start};

pub use bounds::Strain;
pub use end::{cancel_message, closing};

/// Which run a draft is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The tenant.
    pub namespace: Namespace,
    /// The instance.
    pub workflow: WorkflowId,
    /// The run.
    pub run: RunId,
}

/// An event that the code of the run has not seen yet, and the outcome that it brings.
#[derive(Clone, PartialEq, Debug)]
pub struct Fed {
    /// The event.
    pub event: Event,
    /// Which operation it ends, and how.
    pub outcome: Option<(u64, Outcome)>,
}

/// The state of a run, with what has been decided and not yet committed.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    identity: Identity,
    state: RunState,
    now: Timestamp,
    drained: u64,
    /// As of the last commit.
    drained_before: u64,
    /// How many signals nobody had received, likewise.
    buffered_before: usize,
    pending: Pending,
    feed: VecDeque<Fed>,
    limits: Limits,
    /// What it begins belongs under this.
    trace: Option<TraceContext>,
    /// How much the code has asked for in one go.
    batch: usize,
    /// The operation about to begin that a request to end leaves alone.
    shield: Option<u64>,
    strains: Vec<Strain>,
}

/// What is to be committed.
#[derive(Clone, PartialEq, Debug, Default)]
struct Pending {
    events: Vec<Event>,
    activities: Vec<NewActivity>,
    dropped: Vec<u64>,
    children: Vec<Start>,
    deliveries: Vec<Deliver>,
    marks: Marks,
    closing: Option<Closing>,
}

impl Draft {
    /// Nothing decided yet, at `state`, with the messages up to place `drained` taken.
    pub fn new(identity: Identity, state: RunState, drained: u64, limits: Limits) -> Self {
        Self {
            identity,
            now: state.at(),
            drained,
            drained_before: drained,
            buffered_before: state.buffered(OpKind::Signal),
            trace: state.started().and_then(|started| started.trace.clone()),
            state,
            pending: Pending::default(),
            feed: VecDeque::new(),
            limits,
            batch: 0,
            shield: None,
            strains: Vec::new(),
        }
    }

    /// Which run it is of.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The state with everything decided so far.
    pub const fn state(&self) -> &RunState {
        &self.state
    }

    /// The place of the last message that was taken.
    pub const fn drained(&self) -> u64 {
        self.drained
    }

    /// Sets the instant of what is decided from here on. It never goes back: events are in order.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// What is begun from here on belongs under `trace`. Until it is said, it belongs under what
    /// began the run.
    pub fn set_trace(&mut self, trace: Option<TraceContext>) {
        self.trace = trace;
    }

    /// The next event that the code has not seen.
    pub fn next_fed(&mut self) -> Option<Fed> {
        self.feed.pop_front()
    }

    /// Whether the code must not see the next event yet: the result of a local step, which is
    /// committed before anything follows from it.
    pub fn holds_back(&self) -> bool {
        let is_result = |fed: &Fed| {
            matches!(
                fed.event.kind,
                EventKind::StepCompleted(_) | EventKind::StepFailed(_)
            )
        };
        self.is_pending() && self.feed.front().is_some_and(is_result)
    }

    /// Whether there is an event that the code has not seen.
    pub fn has_fed(&self) -> bool {
        !self.feed.is_empty()
    }

    /// Whether anything waits to be committed.
    pub fn is_pending(&self) -> bool {
        !self.pending.events.is_empty() || !self.is_events_only()
    }

    /// Whether what waits to be committed is events only, with no message taken.
    pub fn is_events_only(&self) -> bool {
        let Pending {
            events: _,
            activities,
            dropped,
            children,
            deliveries,
            marks,
            closing,
        } = &self.pending;
        activities.is_empty()
            && dropped.is_empty()
            && children.is_empty()
            && deliveries.is_empty()
            && marks.is_empty()
            && closing.is_none()
            && self.drained == self.drained_before
    }

    /// Carries out what the code asks for, or refuses it; see [`Limits`].
    ///
    /// # Errors
    /// `Invalid` when it is asked after the end, or with details that have no JSON form.
    pub fn carry_out(&mut self, command: Command) -> Result<()> {
        if self.state.is_closed() {
            return Err(Error::invalid("a run that has ended asks for more"));
        }
        if self.is_given_up(&command)? || self.refuses(&command)? {
            return Ok(());
        }
        match command {
            Command::Activity { .. } => self.schedule(command),
            Command::Timer { step, delay } => {
                let due_at = self.now.plus(delay);
                let shielded = self.takes_shield(step);
                let timer = events::TimerScheduled {
                    due_at,
                    delay,
                    shielded,
                };
                self.add(Some(step), EventKind::TimerScheduled(timer), None)
            }
            Command::AwaitSignal { step, name } => {
                let shielded = self.takes_shield(step);
                let wait = events::SignalWaitOpened { name, shielded };
                self.add(Some(step), EventKind::SignalWaitOpened(wait), None)?;
                self.match_signals()
            }
            Command::AwaitUpdate { step, name } => {
                let shielded = self.takes_shield(step);
                let wait = events::UpdateWaitOpened { name, shielded };
                self.add(Some(step), EventKind::UpdateWaitOpened(wait), None)?;
                self.match_signals()
            }
            Command::AwaitCondition {
                step,
                name,
                timeout,
            } => {
                let wait = events::ConditionWaitOpened {
                    name,
                    due_at: timeout.map(|timeout| self.now.plus(timeout)),
                    timeout,
                    shielded: self.takes_shield(step),
                };
                self.add(Some(step), EventKind::ConditionWaitOpened(wait), None)
            }
            Command::Satisfy { step } => self.satisfy(step),
            Command::Refuse {
                step,
                operation,
                name,
                failure,
            } => {
                let refused = events::OperationRefused {
                    operation,
                    name,
                    failure,
                };
                self.refuse(step, refused)
            }
            Command::Answer { request, result } => self.answer(request, result),
            Command::Child(child) => self.start_child(*child),
            Command::StepEnded { step, name, result } => match result {
                Ok(value) => {
                    let noted = EventKind::StepCompleted(events::Noted { name });
                    self.add(Some(step), noted, Some(value))
                }
                Err(failure) => {
                    let failed = EventKind::StepFailed(events::StepFailed { name, failure });
                    self.add(Some(step), failed, None)
                }
            },
            Command::SideEffect { step, name, value } => {
                let noted = EventKind::SideEffectRecorded(events::Noted { name });
                self.add(Some(step), noted, Some(value))
            }
            Command::Version {
                step,
                change,
                version,
            } => {
                let marked = EventKind::VersionMarked(events::VersionMarked { change, version });
                self.add(Some(step), marked, None)
            }
            Command::SetAttributes { step, attributes } => self.set_attributes(step, attributes),
            Command::SetMemo { step, memo } => self.set_memo(step, memo),
            Command::Shield { step } => {
                self.shield = Some(step);
                Ok(())
            }
            Command::Drop { step } => self.drop_operation(step, "no longer wanted"),
            Command::Complete(output) => {
                let completed = EventKind::Completed(events::Nothing {});
                self.close(completed, Some(output.clone()), Closed::Completed(output))
            }
            Command::Fail(failure) => self.fail(failure),
            Command::Continue(next) => self.continue_as(*next),
        }
    }

    fn takes_shield(&mut self, step: u64) -> bool {
        self.shield.take_if(|shield| *shield == step).is_some()
    }

    fn add(&mut self, step: Option<u64>, kind: EventKind, payload: Option<Payload>) -> Result<()> {
        let event = Event {
            seq: self.state.length() + 1,
            at: self.now,
            step,
            kind,
            payload,
        };
        let outcome = self.state.apply(&event)?;
        let length = usize::try_from(self.state.length()).unwrap_or(usize::MAX);
        if self.limits.is_near(self.limits.history_events, length) {
            self.note(Limit::HistoryEvents, false);
        }
        self.pending.events.push(event.clone());
        self.feed.push_back(Fed { event, outcome });
        Ok(())
    }

    fn started(&self) -> Result<&events::Started> {
        let missing = || Error::corrupt("the history of a run does not begin with its start");
        self.state.started().ok_or_else(missing)
    }
}

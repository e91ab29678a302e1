//! A turn in the making.

mod begin;
mod commit;
mod end;

use std::collections::VecDeque;

use coord_core::{Error, Result};

use super::command::Command;
use super::state::{OpKind, Outcome, RunState};
use crate::model::{
    Closed, Event, EventKind, Failure, Message, Namespace, Payload, RequestId, RunId, Timestamp,
    WorkflowId, events,
};
use crate::store::{Closing, CommandKind, Deliver, NewActivity, Start, Target};

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
    pending: Pending,
    feed: VecDeque<Fed>,
}

/// What is to be committed.
#[derive(Clone, PartialEq, Debug, Default)]
struct Pending {
    events: Vec<Event>,
    activities: Vec<NewActivity>,
    dropped: Vec<u64>,
    children: Vec<Start>,
    deliveries: Vec<Deliver>,
    closing: Option<Closing>,
}

impl Draft {
    /// Nothing decided yet, at `state`, with the messages up to place `drained` taken.
    pub fn new(identity: Identity, state: RunState, drained: u64) -> Self {
        Self {
            identity,
            now: state.at(),
            state,
            drained,
            drained_before: drained,
            pending: Pending::default(),
            feed: VecDeque::new(),
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
            closing,
        } = &self.pending;
        activities.is_empty()
            && dropped.is_empty()
            && children.is_empty()
            && deliveries.is_empty()
            && closing.is_none()
            && self.drained == self.drained_before
    }

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
            EventKind::SignalReceived(_) | EventKind::UpdateAccepted(_) => {
                self.add(None, kind, payload)?;
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
            self.add(Some(step), EventKind::TimerFired(events::Nothing {}), None)?;
        }
        Ok(())
    }

    /// Carries out what the code asks for.
    ///
    /// # Errors
    /// `Invalid` when it is asked after the end, or with details that have no JSON form.
    pub fn carry_out(&mut self, command: Command) -> Result<()> {
        if self.state.is_closed() {
            return Err(Error::invalid("a run that has ended asks for more"));
        }
        match command {
            Command::Activity { .. } => self.schedule(command),
            Command::Timer { step, delay } => {
                let due_at = self.now.plus(delay);
                let timer = events::TimerScheduled { due_at, delay };
                self.add(Some(step), EventKind::TimerScheduled(timer), None)
            }
            Command::AwaitSignal { step, name } => {
                let wait = events::SignalWaitOpened { name };
                self.add(Some(step), EventKind::SignalWaitOpened(wait), None)?;
                self.match_signals()
            }
            Command::AwaitUpdate { step, name } => {
                let wait = events::UpdateWaitOpened { name };
                self.add(Some(step), EventKind::UpdateWaitOpened(wait), None)?;
                self.match_signals()
            }
            Command::Answer { request, result } => match result {
                Ok(answer) => {
                    let completed = events::UpdateCompleted { request };
                    self.add(None, EventKind::UpdateCompleted(completed), Some(answer))
                }
                Err(failure) => {
                    let rejected = events::UpdateRejected { request, failure };
                    self.add(None, EventKind::UpdateRejected(rejected), None)
                }
            },
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
            Command::Drop { step } => self.drop_operation(step, "no longer wanted"),
            Command::Complete(output) => {
                let completed = EventKind::Completed(events::Nothing {});
                self.close(completed, Some(output.clone()), Closed::Completed(output))
            }
            Command::Fail(failure) => self.fail(failure),
            Command::Continue(next) => self.continue_as(*next),
        }
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
        self.pending.events.push(event.clone());
        self.feed.push_back(Fed { event, outcome });
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

    fn match_signals(&mut self) -> Result<()> {
        while let Some((wait, applied)) = self.state.next_match() {
            self.add(Some(wait), applied, None)?;
        }
        Ok(())
    }

    fn cancel(&mut self, request: events::CancelRequested) -> Result<()> {
        let reason = request.reason.clone();
        self.add(None, EventKind::CancelRequested(request), None)?;
        let open: Vec<_> = self.state.open().map(|(step, _)| step).collect();
        for step in open {
            self.drop_operation(step, &reason)?;
        }
        Ok(())
    }

    fn drop_operation(&mut self, step: u64, why: &str) -> Result<()> {
        let Some(op) = self.state.op(step).filter(|op| !op.ended) else {
            return Ok(());
        };
        let (event, child) = (op.dropped_as(why), op.child.clone());
        if op.kind == OpKind::Activity {
            self.drop_activity(step);
        }
        if let Some((workflow, _)) = child {
            self.ask_child_to_end(workflow, step, why)?;
        }
        self.add(Some(step), event, None)
    }

    fn drop_activity(&mut self, step: u64) {
        let scheduled = self.pending.activities.len();
        self.pending
            .activities
            .retain(|activity| activity.step != step);
        if self.pending.activities.len() == scheduled {
            self.pending.dropped.push(step);
        }
    }

    fn ask_child_to_end(&mut self, child: WorkflowId, step: u64, why: &str) -> Result<()> {
        let request = format!("{}:{step}", self.identity.run);
        let target = Target::Current(self.identity.namespace.clone(), child);
        self.pending.deliveries.push(Deliver {
            target,
            record: cancel_message(why, self.now)?,
            request: Some((CommandKind::Cancel, RequestId::new(request)?)),
        });
        Ok(())
    }

    fn started(&self) -> Result<&events::Started> {
        let missing = || Error::corrupt("the history of a run does not begin with its start");
        self.state.started().ok_or_else(missing)
    }
}

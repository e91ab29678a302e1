//! A turn in the making.

use std::collections::VecDeque;

use coord_core::{Error, Result};

use super::command::{ChildCommand, Command, ContinueCommand};
use super::state::{OpKind, Outcome, RunState};
use crate::model::{
    Closed, Due, Event, EventKind, Failure, Message, Namespace, ParentClose, ParentLink, Payload,
    Record, RequestId, RunId, TaskId, Timestamp, WorkflowId, events,
};
use crate::store::{
    Closing, CommandKind, Deliver, Fence, NewActivity, OnDuplicate, Start, Target, Then, Turn,
};

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
            EventKind::SignalReceived(ref signal) if self.state.has_request(&signal.request) => {
                Ok(())
            }
            EventKind::SignalReceived(_) => {
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
        while let Some((wait, received)) = self.state.match_signal() {
            let applied = EventKind::SignalApplied(events::SignalApplied { received });
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

    fn schedule(&mut self, command: Command) -> Result<()> {
        let Command::Activity {
            step,
            name,
            input,
            queue,
            priority,
            retry,
            timeouts,
        } = command
        else {
            unreachable!("the caller matched it");
        };
        let started = self.started()?;
        let queue = queue.unwrap_or_else(|| started.queue.clone());
        let priority = priority.unwrap_or(started.priority);
        self.pending.activities.push(NewActivity {
            step,
            scheduled_seq: self.state.length() + 1,
            name: name.clone(),
            queue: queue.clone(),
            priority,
            timeouts,
            lease: None,
        });
        let activity = events::ActivityScheduled {
            name,
            queue,
            priority,
            retry,
            timeouts,
            echo: None,
        };
        self.add(
            Some(step),
            EventKind::ActivityScheduled(activity),
            Some(input),
        )
    }

    fn start_child(&mut self, child: ChildCommand) -> Result<()> {
        let parent = self.started()?;
        let queue = child.queue.unwrap_or_else(|| parent.queue.clone());
        let started = events::Started {
            name: child.name.clone(),
            workflow: child.workflow.clone(),
            number: 1,
            queue,
            priority: parent.priority,
            build: parent.build.clone(),
            seed: child.seed,
            parent: Some(ParentLink {
                run: self.identity.run.clone(),
                step: child.step,
                on_close: child.on_close,
            }),
            continued_from: None,
            execution_deadline_at: parent.execution_deadline_at,
            memo: serde_json::Map::new(),
        };
        let start = self.start(child.run.clone(), started, child.input.clone())?;
        self.pending.children.push(start);
        let event = events::ChildStarted {
            name: child.name,
            workflow: child.workflow,
            run: child.run,
            on_close: child.on_close,
        };
        self.add(
            Some(child.step),
            EventKind::ChildStarted(event),
            Some(child.input),
        )
    }

    /// A failure after a request to end is the end that was asked for, when it is of that sort.
    fn fail(&mut self, failure: Failure) -> Result<()> {
        let failed = events::Failed {
            failure: failure.clone(),
        };
        if self.state.cancel_reason().is_some() && failure.kind == Failure::CANCELLED {
            return self.close(
                EventKind::Cancelled(failed),
                None,
                Closed::Cancelled(failure),
            );
        }
        self.close(EventKind::Failed(failed), None, Closed::Failed(failure))
    }

    fn continue_as(&mut self, next: ContinueCommand) -> Result<()> {
        let before = self.started()?;
        let started = events::Started {
            number: before.number + 1,
            seed: next.seed,
            continued_from: Some(self.identity.run.clone()),
            ..before.clone()
        };
        let mut start = self.start(next.run.clone(), started, next.input.clone())?;
        for (index, (name, request, payload)) in self.state.left_over().into_iter().enumerate() {
            let signal = events::SignalReceived { name, request };
            let event = Event {
                seq: index as u64 + 2,
                at: self.now,
                step: None,
                kind: EventKind::SignalReceived(signal),
                payload,
            };
            start.records.push(event.record()?);
        }
        let event = events::ContinuedAsNew {
            run: next.run.clone(),
        };
        let closed = Closed::ContinuedAsNew(next.run);
        self.close(EventKind::ContinuedAsNew(event), Some(next.input), closed)?;
        let closing = self
            .pending
            .closing
            .as_mut()
            .expect("the line above set it");
        closing.next = Some(start);
        Ok(())
    }

    fn start(&self, run: RunId, started: events::Started, input: Payload) -> Result<Start> {
        let event = Event {
            seq: 1,
            at: self.now,
            step: None,
            kind: EventKind::Started(started.clone()),
            payload: Some(input),
        };
        Ok(Start {
            namespace: self.identity.namespace.clone(),
            workflow: started.workflow,
            run,
            number: started.number,
            on_duplicate: OnDuplicate::Reject,
            name: started.name,
            queue: started.queue,
            priority: started.priority,
            build: started.build,
            parent: started.parent,
            records: vec![event.record()?],
            due: Due::Now,
            lease: None,
        })
    }

    fn close(&mut self, event: EventKind, value: Option<Payload>, closed: Closed) -> Result<()> {
        self.add(None, event, value)?;
        // Its tasks go with it, whichever they are.
        self.pending.activities.clear();
        self.pending.dropped.clear();
        // A child that would be ended at once is not even begun.
        self.pending.children.retain(|child| {
            let link = child.parent.as_ref();
            link.is_some_and(|link| link.on_close == ParentClose::Abandon)
        });
        self.pending.closing = Some(closing(closed, self.now)?);
        Ok(())
    }

    fn started(&self) -> Result<&events::Started> {
        let missing = || Error::corrupt("the history of a run does not begin with its start");
        self.state.started().ok_or_else(missing)
    }

    /// The events that wait to be committed, of a turn that goes on.
    ///
    /// # Errors
    /// `Invalid` when the details of one have no JSON form.
    pub fn cut_events(&mut self) -> Result<Vec<Record>> {
        std::mem::take(&mut self.pending.events)
            .iter()
            .map(Event::record)
            .collect()
    }

    /// The turn that commits what was decided; afterwards nothing waits. A run that has ended is
    /// closed by it, another one goes on as `then` says, or waits.
    ///
    /// # Errors
    /// `Invalid` when the details of an event have no JSON form.
    pub fn cut(&mut self, fence: Fence, then: Option<Then>) -> Result<Turn> {
        self.drained_before = self.drained;
        let pending = std::mem::take(&mut self.pending);
        let run = &self.identity.run;
        let not_started = (!pending.children.is_empty())
            .then(|| self.not_started())
            .transpose()?;
        let waits = || Then::Wait {
            due: self.state.next_due().map(Due::At),
            wait: self.state.wait(),
        };
        let then = match pending.closing {
            Some(closing) => Then::Close(Box::new(closing)),
            None => then.unwrap_or_else(waits),
        };
        Ok(Turn {
            fence,
            run: run.clone(),
            history_length: self.state.length() - pending.events.len() as u64,
            records: pending
                .events
                .iter()
                .map(Event::record)
                .collect::<Result<_>>()?,
            drained: self.drained,
            activities: pending.activities,
            dropped: pending
                .dropped
                .iter()
                .map(|step| TaskId::of(run, *step))
                .collect(),
            children: pending.children,
            not_started,
            deliveries: pending.deliveries,
            then,
        })
    }

    fn not_started(&self) -> Result<Record> {
        let failure = Failure::new("a workflow with this id exists already").non_retryable();
        message(
            EventKind::ChildFailed(events::Failed { failure }),
            None,
            self.now,
        )
    }
}

/// What goes with the end of a run.
///
/// # Errors
/// `Invalid` when a failure has no JSON form.
pub fn closing(closed: Closed, now: Timestamp) -> Result<Closing> {
    let failed = |failure: &Failure| events::Failed {
        failure: failure.clone(),
    };
    let (kind, value) = match &closed {
        Closed::Completed(output) => (
            Some(EventKind::ChildCompleted(events::Nothing {})),
            Some(output.clone()),
        ),
        Closed::Failed(failure) | Closed::TimedOut(failure) => {
            (Some(EventKind::ChildFailed(failed(failure))), None)
        }
        Closed::Cancelled(failure) => (Some(EventKind::ChildCancelled(failed(failure))), None),
        Closed::Terminated(failure) => (Some(EventKind::ChildTerminated(failed(failure))), None),
        Closed::ContinuedAsNew(_) => (None, None),
    };
    let ended = Failure::new("its parent has ended").of_kind(Failure::TERMINATED);
    Ok(Closing {
        to_parent: kind.map(|kind| message(kind, value, now)).transpose()?,
        terminate_child: message(EventKind::Terminated(failed(&ended)), None, now)?,
        cancel_child: cancel_message("its parent has ended", now)?,
        next: None,
        closed,
    })
}

/// The message that asks a run to end.
///
/// # Errors
/// None that a reason can cause.
pub fn cancel_message(reason: &str, now: Timestamp) -> Result<Record> {
    let request = events::CancelRequested {
        reason: reason.to_owned(),
    };
    message(EventKind::CancelRequested(request), None, now)
}

fn message(kind: EventKind, payload: Option<Payload>, at: Timestamp) -> Result<Record> {
    Message {
        at,
        step: None,
        kind,
        payload,
    }
    .record()
}

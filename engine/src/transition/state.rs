//! What a history means.

mod op;
mod outcome;
mod received;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use coord_core::{Error, Result};
use serde_json::{Map, Value};

use crate::model::{
    Attributes, Event, EventKind, Failure, OpKind, Payload, RequestId, Timestamp, TypeName, Wait,
    events,
};
use op::Channel;
pub(crate) use op::opens;
pub use op::{Op, Tally};
use received::Carried;

/// What became of an operation: its value, or why it failed.
pub type Outcome = Result<Option<Payload>, Failure>;

/// A run as its history tells it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunState {
    length: u64,
    bytes: u64,
    at: Option<Timestamp>,
    started: Option<(events::Started, Option<Payload>)>,
    attributes: Attributes,
    memo: Map<String, Value>,
    ops: BTreeMap<u64, Op>,
    open: BTreeSet<u64>,
    /// Signals without a wait, by name, with the numbers of their events.
    buffered: BTreeMap<Channel, VecDeque<u64>>,
    /// What they carry.
    carried: BTreeMap<u64, Carried>,
    /// Waits without a signal, by name.
    waits: BTreeMap<Channel, VecDeque<u64>>,
    requests: HashSet<RequestId>,
    versions: BTreeMap<TypeName, (u64, u32)>,
    tally: Tally,
    cancel: Option<String>,
    suggested: bool,
    closed: bool,
}

impl RunState {
    /// The state after these events, from the first.
    ///
    /// # Errors
    /// `Corrupt` when they are no history.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self> {
        let mut state = Self::default();
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// How many events there are.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// How many bytes their values have.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many operations of each sort are open.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether the run was told that it should continue as new.
    pub const fn is_suggested(&self) -> bool {
        self.suggested
    }

    /// How many signals or updates no wait has got.
    pub(super) fn buffered(&self, kind: OpKind) -> usize {
        let channels = self.buffered.iter();
        let of_kind = channels.filter(|(channel, _)| channel.kind == kind);
        of_kind.map(|(_, received)| received.len()).sum()
    }

    /// When the last of them was decided.
    pub fn at(&self) -> Timestamp {
        self.at.unwrap_or(Timestamp::from_micros(0))
    }

    /// How the run began; `None` before its first event.
    pub fn started(&self) -> Option<&events::Started> {
        self.started.as_ref().map(|(started, _)| started)
    }

    /// With which input.
    pub fn input(&self) -> Option<&Payload> {
        self.started.as_ref().and_then(|(_, input)| input.as_ref())
    }

    /// What it is found by.
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What describes it to people.
    pub const fn memo(&self) -> &Map<String, Value> {
        &self.memo
    }

    /// The operation number `step`.
    pub fn op(&self, step: u64) -> Option<&Op> {
        self.ops.get(&step)
    }

    /// All operations, in the order of their numbers.
    pub fn ops(&self) -> impl Iterator<Item = (u64, &Op)> {
        self.ops.iter().map(|(step, op)| (*step, op))
    }

    /// The operations without an outcome, in the order of their numbers.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Op)> {
        self.open.iter().map(|step| (*step, &self.ops[step]))
    }

    /// Whether the last event is there.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why the run was asked to end.
    pub fn cancel_reason(&self) -> Option<&str> {
        self.cancel.as_deref()
    }

    /// Which way the run took through `change`, and at which step that was noted.
    pub fn version(&self, change: &TypeName) -> Option<(u64, u32)> {
        self.versions.get(change).copied()
    }

    /// The earliest instant at which a timer, or the time of the whole instance, is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        let timers = self.open().map(|(_, op)| op.due_at);
        timers
            .chain(self.deadline())
            .filter(|due| due.comes())
            .min()
    }

    /// When all runs of the instance must have ended.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.started()
            .and_then(|started| started.execution_deadline_at)
    }

    /// What the run waits for: its oldest open operation.
    pub fn wait(&self) -> Option<Wait> {
        let (_, oldest) = self.open().next()?;
        match oldest.kind {
            OpKind::Activity => Some(Wait::Activity),
            OpKind::Timer => Some(Wait::Timer),
            // To an operator an update is a signal that is answered.
            OpKind::Signal | OpKind::Update => Some(Wait::Signal),
            OpKind::Child => Some(Wait::Child),
            OpKind::Condition => Some(Wait::Condition),
            OpKind::Step
            | OpKind::SideEffect
            | OpKind::Version
            | OpKind::Attributes
            | OpKind::Memo => None,
        }
    }

    /// Whether a signal with this id was received before.
    pub(super) fn has_request(&self, request: &RequestId) -> bool {
        self.requests.contains(request)
    }

    /// Adds the next event, and says which operation got its outcome by it.
    ///
    /// # Errors
    /// `Corrupt` when it cannot follow what is there.
    pub fn apply(&mut self, event: &Event) -> Result<Option<(u64, Outcome)>> {
        if self.closed {
            return Err(corrupt(event, "comes after the end of its run"));
        }
        if event.seq != self.length + 1 {
            let expected = self.length + 1;
            return Err(corrupt(event, &format!("is not number {expected}")));
        }
        let outcome = match &event.kind {
            EventKind::Started(started) => {
                self.attributes.clone_from(&started.attributes);
                self.memo.clone_from(&started.memo);
                self.started = Some((started.clone(), event.payload.clone()));
                None
            }
            EventKind::CancelRequested(request) => {
                self.cancel.get_or_insert_with(|| request.reason.clone());
                None
            }
            EventKind::SignalReceived(signal) => {
                let origin = (&signal.request, signal.trace.as_ref());
                self.receive((OpKind::Signal, &signal.name), origin, event);
                None
            }
            EventKind::UpdateAccepted(update) => {
                let origin = (&update.request, update.trace.as_ref());
                self.receive((OpKind::Update, &update.name), origin, event);
                None
            }
            EventKind::UpdateRejected(rejected) => {
                self.requests.insert(rejected.request.clone());
                None
            }
            EventKind::UpdateCompleted(_) => None,
            EventKind::ContinueAsNewSuggested(_) => {
                self.suggested = true;
                None
            }
            EventKind::Completed(_)
            | EventKind::Failed(_)
            | EventKind::Cancelled(_)
            | EventKind::Terminated(_)
            | EventKind::TimedOut(_)
            | EventKind::ContinuedAsNew(_) => {
                self.closed = true;
                self.open.clear();
                self.tally = Tally::default();
                None
            }
            EventKind::Unknown { name, .. } => {
                let message = format!("of kind {name} was written by a later version");
                return Err(corrupt(event, &message));
            }
            _ => self.apply_to_operation(event)?,
        };
        self.length = event.seq;
        self.bytes += event
            .payload
            .as_ref()
            .map_or(0, |value| value.bytes.len() as u64);
        self.at = Some(event.at);
        Ok(outcome)
    }

    fn apply_to_operation(&mut self, event: &Event) -> Result<Option<(u64, Outcome)>> {
        let step = event
            .step
            .ok_or_else(|| corrupt(event, "names no operation"))?;
        if let Some((kind, name)) = opens(&event.kind) {
            if self.ops.contains_key(&step) {
                return Err(corrupt(event, "opens an operation a second time"));
            }
            self.open_operation(step, kind, name.as_ref(), &event.kind);
        }
        let Some(outcome) = self.outcome(event) else {
            return Ok(None);
        };
        let Some(op) = self.ops.get_mut(&step).filter(|op| !op.ended) else {
            return Err(corrupt(event, "ends an operation that is not open"));
        };
        self.tally.count(op, |count| *count -= 1);
        op.ended = true;
        op.due_at = Timestamp::NEVER;
        self.open.remove(&step);
        if let Some(name) = op.name.clone() {
            let channel = Channel {
                kind: op.kind,
                name,
            };
            if let Some(waits) = self.waits.get_mut(&channel) {
                waits.retain(|wait| *wait != step);
            }
        }
        Ok(Some((step, outcome)))
    }

    fn open_operation(
        &mut self,
        step: u64,
        kind: OpKind,
        name: Option<&TypeName>,
        event: &EventKind,
    ) {
        let mut op = Op {
            kind,
            name: name.cloned(),
            due_at: Timestamp::NEVER,
            ended: false,
            shielded: op::is_shielded(event),
            child: None,
        };
        match event {
            EventKind::TimerScheduled(timer) => op.due_at = timer.due_at,
            EventKind::ConditionWaitOpened(wait) => {
                op.due_at = wait.due_at.unwrap_or(Timestamp::NEVER);
            }
            EventKind::ChildStarted(child) => {
                op.child = Some((child.workflow.clone(), child.run.clone()));
            }
            EventKind::SignalWaitOpened(_) | EventKind::UpdateWaitOpened(_) => {
                if let Some(name) = name.cloned() {
                    let waits = self.waits.entry(Channel { kind, name });
                    waits.or_default().push_back(step);
                }
            }
            EventKind::VersionMarked(marked) => {
                self.versions
                    .insert(marked.change.clone(), (step, marked.version));
            }
            EventKind::SearchAttributes(set) => self.attributes.clone_from(&set.attributes),
            EventKind::Memo(set) => self.memo.clone_from(&set.memo),
            _ => {}
        }
        self.tally.count(&op, |count| *count += 1);
        self.ops.insert(step, op);
        self.open.insert(step);
    }
}

fn corrupt(event: &Event, what: &str) -> Error {
    Error::corrupt(format!(
        "event {} ({}) {what}",
        event.seq,
        event.kind.name()
    ))
}

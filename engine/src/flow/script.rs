//! What the code of a run and its driver share.

mod usage;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use coord_core::signals::Detail;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::code::Problem;
use serde_json::{Map, Value};

use crate::model::{
    Attributes, Failure, Ids, Occurrence, OpKind, Payload, RequestId, Timestamp, TypeName, events,
};
use crate::transition::{Command, Identity, Outcome, RunState};
use crate::values::{Unfit, Values};
pub(super) use usage::User;

/// The handle of both sides.
#[derive(Clone)]
pub(super) struct Script {
    pages: Arc<Mutex<Pages>>,
    values: Arc<Values>,
}

impl Script {
    pub(super) fn new(pages: Pages, values: Arc<Values>) -> Self {
        Self {
            pages: Arc::new(Mutex::new(pages)),
            values,
        }
    }

    /// `value` as it is stored. When the codec fails, that is a problem of this turn and no news for
    /// the code, which could go another way the next time.
    pub(super) fn encode(&self, value: &impl Serialize) -> Result<Payload, Failure> {
        self.values.encode(value).map_err(|unfit| self.told(unfit))
    }

    /// The value of a payload; one of `()` may be missing. As [`encode`](Self::encode) otherwise.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        payload: Option<&Payload>,
    ) -> Result<T, Failure> {
        self.values
            .decode(payload)
            .map_err(|unfit| self.told(unfit))
    }

    pub(super) const fn values(&self) -> &Arc<Values> {
        &self.values
    }

    fn told(&self, unfit: Unfit) -> Failure {
        match unfit {
            Unfit::Value(failure) => failure,
            Unfit::Codec(error) => {
                let said = Detail::error(&error).to_string();
                let problem = Problem::Codec(said.clone());
                self.lock().problem.get_or_insert(problem);
                Failure::new(said)
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pages> {
        // No code of the user runs under it.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question's answer, computed from the code's live state.
pub(super) type Answer = Box<dyn Fn(Option<&Payload>) -> Result<Payload, Failure> + Send>;

/// An await of the code, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Await {
    pub(super) step: u64,
    pub(super) kind: OpKind,
    pub(super) place: &'static Location<'static>,
}

pub(super) struct Pages {
    pub(super) identity: Identity,
    /// What started the workflow, if a schedule did.
    pub(super) occurrence: Option<Occurrence>,
    pub(super) ids: Arc<Ids>,
    next_step: u64,
    /// Who runs at this moment, and so may ask for something.
    pub(super) user: User,
    /// What the history says of operations, from the start.
    expected: BTreeMap<u64, (OpKind, Option<TypeName>)>,
    /// Values from outside that the history has.
    pub(super) noted: BTreeMap<u64, Payload>,
    /// Operations that the history has as refused.
    pub(super) refused: BTreeMap<u64, Failure>,
    /// Waits for conditions whose end the history has.
    pub(super) concluded: BTreeSet<u64>,
    /// Which update each wait for one got.
    pub(super) updates: BTreeMap<u64, RequestId>,
    /// Updates whose answer the history has.
    pub(super) answered: BTreeSet<RequestId>,
    pub(super) versions: BTreeMap<TypeName, (u64, u32)>,
    /// What the run is found by, as far as the code has come.
    pub(super) attributes: Attributes,
    /// What describes it to people, likewise.
    pub(super) memo: Map<String, Value>,
    /// What the code has asked for.
    issued: BTreeMap<u64, (OpKind, Option<TypeName>)>,
    slots: BTreeMap<u64, Slot>,
    pub(super) commands: Vec<Command>,
    pub(super) now: Timestamp,
    seed: u64,
    pub(super) cancel: Option<String>,
    pub(super) continue_with: Option<Payload>,
    /// Whether the history has more than the code has seen.
    pub(super) ahead: bool,
    /// Whether all that was decided so far is committed, so that a local step may begin.
    pub(super) is_committed: bool,
    /// Local steps that have not ended.
    pub(super) locals: BTreeMap<u64, Local>,
    /// Those of them that a request to end leaves alone.
    pub(super) shielded: BTreeSet<u64>,
    /// The ends of local steps, to become events one at a time.
    pub(super) ended_steps: VecDeque<Command>,
    /// Conditions that are waited for and did not hold when they were last looked at.
    pub(super) conditions: BTreeSet<u64>,
    /// Conditions that the code has found to hold.
    pub(super) satisfied: BTreeSet<u64>,
    /// By which measure the history has become long.
    pub(super) suggested: Option<events::Measure>,
    /// How many events the code has seen.
    pub(super) seen: u64,
    pub(super) problem: Option<Problem>,
    /// Whether the code is being put away: its futures then drop without a word.
    pub(super) detached: bool,
    pub(super) last_await: Option<Await>,
    pub(super) answers: BTreeMap<TypeName, Answer>,
}

/// Where a local step stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Local {
    /// It waits until all before it is committed.
    Waits,
    /// It is under way.
    Works,
    /// The run was asked to end before it had.
    Interrupted,
}

/// Where an operation waits for its outcome.
#[derive(Default)]
struct Slot {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Pages {
    pub(super) fn new(identity: Identity, ids: Arc<Ids>, seed: u64) -> Self {
        Self {
            identity,
            occurrence: None,
            ids,
            next_step: 1,
            user: User::Nobody,
            expected: BTreeMap::new(),
            noted: BTreeMap::new(),
            refused: BTreeMap::new(),
            concluded: BTreeSet::new(),
            updates: BTreeMap::new(),
            answered: BTreeSet::new(),
            versions: BTreeMap::new(),
            attributes: Attributes::new(),
            memo: Map::new(),
            issued: BTreeMap::new(),
            slots: BTreeMap::new(),
            commands: Vec::new(),
            now: Timestamp::from_micros(0),
            seed,
            cancel: None,
            continue_with: None,
            ahead: false,
            is_committed: false,
            locals: BTreeMap::new(),
            shielded: BTreeSet::new(),
            ended_steps: VecDeque::new(),
            conditions: BTreeSet::new(),
            satisfied: BTreeSet::new(),
            suggested: None,
            seen: 0,
            problem: None,
            detached: false,
            last_await: None,
            answers: BTreeMap::new(),
        }
    }

    /// Sets what the history knows already.
    pub(super) fn expect(&mut self, state: &RunState) {
        self.expected = state
            .ops()
            .map(|(step, op)| (step, (op.kind, op.name.clone())))
            .collect();
    }

    /// The number of the next operation, which is asked for at `place`.
    pub(super) fn take_step(&mut self, place: &'static Location<'static>) -> u64 {
        self.check_use(place);
        let step = self.next_step;
        self.next_step += 1;
        step
    }

    pub(super) const fn peek_step(&self) -> u64 {
        self.next_step
    }

    /// Notes that the code asks for an operation, and says whether the history has it already.
    /// `None` when the code goes another way than the history: then it must not go on.
    pub(super) fn issue(
        &mut self,
        step: u64,
        kind: OpKind,
        name: Option<&TypeName>,
    ) -> Option<bool> {
        let got = (kind, name.cloned());
        self.issued.insert(step, got.clone());
        match self.expected.get(&step) {
            Some(expected) if *expected == got => Some(true),
            Some(expected) => {
                self.diverge(step, said(Some(expected)), said(Some(&got)));
                None
            }
            // A step that was under way when its process died has left no trace.
            None if self.ahead && kind != OpKind::Step => {
                self.diverge(step, said(None), said(Some(&got)));
                None
            }
            None => Some(false),
        }
    }

    /// Whether the code has asked for operation `step`; if not, it goes another way.
    pub(super) fn check_issued(&mut self, step: u64) {
        if !self.issued.contains_key(&step) {
            let expected = said(self.expected.get(&step));
            self.diverge(step, expected, said(None));
        }
    }

    pub(super) fn diverge(&mut self, step: u64, expected: String, got: String) {
        self.problem.get_or_insert(Problem::Diverged {
            step,
            expected,
            got,
        });
    }

    pub(super) fn wait(&mut self, at: Await, waker: &Waker) -> Option<Outcome> {
        if !self.check_use(at.place) {
            return None;
        }
        self.last_await = Some(at);
        let slot = self.slots.entry(at.step).or_default();
        if let Some(outcome) = slot.outcome.take() {
            self.slots.remove(&at.step);
            return Some(outcome);
        }
        slot.waker = Some(waker.clone());
        None
    }

    /// Gives operation `step` its outcome; the waker of who waits for it.
    pub(super) fn resolve(&mut self, step: u64, outcome: Outcome) -> Option<Waker> {
        let slot = self.slots.entry(step).or_default();
        slot.outcome = Some(outcome);
        slot.waker.take()
    }

    /// The wakers of those operations, to be polled again.
    pub(super) fn wakers(&self, steps: impl IntoIterator<Item = u64>) -> Vec<Waker> {
        let slots = steps.into_iter().filter_map(|step| self.slots.get(&step));
        slots.filter_map(|slot| slot.waker.clone()).collect()
    }

    /// The local steps that stand so.
    pub(super) fn locals_that(&self, stand: Local) -> impl Iterator<Item = u64> {
        let locals = self
            .locals
            .iter()
            .filter(move |(_, local)| **local == stand);
        locals.map(|(step, _)| *step)
    }

    /// The run was asked to end: its local steps end where they stand. Their wakers.
    pub(super) fn interrupt(&mut self) -> Vec<Waker> {
        for (step, local) in &mut self.locals {
            if !self.shielded.contains(step) {
                *local = Local::Interrupted;
            }
        }
        self.wakers(self.locals_that(Local::Interrupted))
    }

    /// The failure of local step `step`, if it was interrupted.
    pub(super) fn interruption(&self, step: u64) -> Option<Failure> {
        let local = self.locals.get(&step)?;
        let reason = self.cancel.clone()?;
        (*local == Local::Interrupted).then(|| Failure::new(reason).of_kind(Failure::CANCELLED))
    }

    /// The condition that operation `step` waits for holds.
    pub(super) fn satisfy(&mut self, step: u64) {
        self.conditions.remove(&step);
        self.satisfied.insert(step);
        if self.concluded.contains(&step) {
            return;
        }
        if self.ahead && self.expected.contains_key(&step) {
            let condition = said(self.expected.get(&step));
            return self.diverge(
                step,
                format!("{condition} still open"),
                "that it holds".into(),
            );
        }
        self.commands.push(Command::Satisfy { step });
    }

    /// The history says that the condition of operation `step` holds here.
    pub(super) fn check_satisfied(&mut self, step: u64) {
        if !self.satisfied.contains(&step) {
            let condition = said(self.expected.get(&step));
            let got = "that it does not hold yet".to_owned();
            self.diverge(step, format!("{condition} satisfied"), got);
        }
    }

    /// Whether anybody waits for an operation.
    pub(super) fn is_awaiting(&self) -> bool {
        self.slots.values().any(|slot| slot.waker.is_some())
    }

    /// The code no longer waits for operation `step`.
    pub(super) fn forget(&mut self, step: u64) {
        self.slots.remove(&step);
        if self.issued.contains_key(&step) && !self.detached {
            self.commands.push(Command::Drop { step });
        }
    }

    /// The next of the run's random numbers.
    ///
    /// `SplitMix64`, from Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators"
    /// (OOPSLA 2014): one addition and a mix, and any seed will do.
    pub(super) fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An operation in words.
fn said(operation: Option<&(OpKind, Option<TypeName>)>) -> String {
    match operation {
        Some((kind, Some(name))) => format!("{} `{name}`", kind.as_str()),
        Some((kind, None)) => kind.as_str().to_owned(),
        None => "nothing".to_owned(),
    }
}

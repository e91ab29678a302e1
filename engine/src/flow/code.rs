//! The code of one run, as its driver sees it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polled, Poll, Waker};

use coord_core::Result as CoordResult;

use super::context::Context;
use super::script::{Await, Pages, Script};
use super::wake::Guard;
use crate::model::{Event, EventKind, Failure, Ids, Payload, TypeName};
use crate::transition::{Command, ContinueCommand, Identity, Outcome, RunState, opens};

/// A workflow function, without its types.
pub(crate) type Function = dyn Fn(Context, Option<Payload>) -> Running + Send + Sync;

/// A workflow function under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

/// How often code may wake itself in one go: combinators yield after some dozens of futures.
const MOST_SELF_WAKES: u32 = 10_000;

/// The code of a run, up to the point to which the history took it.
pub(crate) struct Code {
    running: Option<Running>,
    script: Script,
    guard: Arc<Guard>,
    waker: Waker,
}

/// Where the code stands after a poll.
#[derive(PartialEq, Debug)]
pub(crate) enum Progress {
    /// It waits for outcomes.
    Waits,
    /// A local step may begin once all that was decided is committed.
    WantsCommit,
    /// A local step is under way; it wakes the task that polls.
    Works,
    /// It has returned.
    Ended(Ending),
}

/// How the code has returned.
#[derive(PartialEq, Debug)]
pub(crate) enum Ending {
    Output(Payload),
    Failure(Failure),
    Continues(Payload),
}

/// Why the code cannot go on from here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    /// It asks for something else than the history says.
    Diverged {
        step: u64,
        expected: String,
        got: String,
    },
    /// It waits for something that the history knows nothing of.
    Foreign(String),
    /// It panicked.
    Panicked(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged {
                step,
                expected,
                got,
            } => {
                write!(
                    out,
                    "operation {step}: the history has {expected}, the code asks for {got}"
                )
            }
            Self::Foreign(place) => write!(
                out,
                "the workflow waits for something that is not of its context, {place}"
            ),
            Self::Panicked(message) => write!(out, "the workflow panicked: {message}"),
        }
    }
}

impl Code {
    /// The code of a run that has seen nothing yet, not even its start.
    pub(crate) fn new(
        identity: Identity,
        ids: Arc<Ids>,
        state: &RunState,
        function: &Function,
    ) -> Self {
        let seed = state.started().map_or(0, |started| started.seed);
        let script = Script::new(Pages::new(identity, ids, seed));
        let guard = Arc::new(Guard::default());
        let running = function(Context::new(script.clone()), state.input().cloned());
        Self {
            // The budget of the runtime would make code yield that waits for its history only.
            running: Some(Box::pin(tokio::task::unconstrained(running))),
            script,
            waker: Waker::from(Arc::clone(&guard)),
            guard,
        }
    }

    /// Takes the code along a history: to where it stood after the last of `events`.
    ///
    /// # Errors
    /// The problem that stops it, or `Corrupt` when the events are no history.
    pub(crate) fn replay(
        identity: Identity,
        ids: Arc<Ids>,
        events: &[Event],
        function: &Function,
    ) -> CoordResult<Result<(Self, RunState, Progress), Problem>> {
        let mut state = RunState::default();
        let mut outcomes = Vec::with_capacity(events.len());
        for event in events {
            outcomes.push(state.apply(event)?);
        }
        let mut code = Self::new(identity, ids, &state, function);
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
            if is_last(&event.kind) {
                break;
            }
            if let Progress::Ended(_) = progress {
                let expected = event.kind.name().to_owned();
                let step = event.step.unwrap_or_default();
                let got = "return".to_owned();
                return Ok(Err(Problem::Diverged {
                    step,
                    expected,
                    got,
                }));
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

    /// Shows the code the next event.
    pub(crate) fn see(&mut self, event: &Event, outcome: Option<(u64, Outcome)>) {
        let mut pages = self.script.lock();
        pages.now = event.at;
        if let EventKind::CancelRequested(request) = &event.kind {
            pages.cancel.get_or_insert_with(|| request.reason.clone());
        }
        if let (EventKind::UpdateApplied(applied), Some(step)) = (&event.kind, event.step) {
            pages.updates.insert(step, applied.request.clone());
        }
        if let Some(step) = event.step.filter(|_| opens(&event.kind).is_some()) {
            pages.check_issued(step);
        }
        let waker = outcome.and_then(|(step, outcome)| pages.resolve(step, outcome));
        drop(pages);
        if let Some(waker) = waker {
            self.guard.while_fed(|| waker.wake());
        }
    }

    /// Runs the code until it waits. `task` is woken when a local step goes on.
    ///
    /// # Errors
    /// The problem that stops it.
    pub(crate) fn poll(&mut self, task: &Waker, is_committed: bool) -> Result<Progress, Problem> {
        self.guard.belong_to(task);
        self.let_steps_begin(is_committed);
        for _ in 0..MOST_SELF_WAKES {
            if self.guard.take_foreign() {
                return Err(self.foreign());
            }
            let Some(ready) = self.poll_once()? else {
                if self.guard.take_woken_by_itself() {
                    continue;
                }
                return self.stands();
            };
            self.running = None;
            return Ok(Progress::Ended(self.ending(ready)));
        }
        Err(self.foreign())
    }

    fn let_steps_begin(&self, is_committed: bool) {
        let mut pages = self.script.lock();
        pages.is_committed = is_committed;
        if !is_committed || pages.waiting_steps == 0 {
            return;
        }
        let wakers = pages.waiting();
        drop(pages);
        self.guard
            .while_fed(|| wakers.into_iter().for_each(Waker::wake));
    }

    fn poll_once(&mut self) -> Result<Option<Result<Payload, Failure>>, Problem> {
        let Some(running) = self.running.as_mut() else {
            return Ok(None);
        };
        let mut cx = Polled::from_waker(&self.waker);
        let polled = self
            .guard
            .while_polled(|| catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut cx))));
        let polled = polled.map_err(|panic| Problem::Panicked(panic_message(&*panic)))?;
        if let Some(problem) = self.script.lock().problem.clone() {
            return Err(problem);
        }
        match polled {
            Poll::Ready(ready) => Ok(Some(ready)),
            Poll::Pending => Ok(None),
        }
    }

    fn stands(&self) -> Result<Progress, Problem> {
        let pages = self.script.lock();
        let progress = if pages.working_steps > 0 {
            Progress::Works
        } else if pages.waiting_steps > 0 {
            Progress::WantsCommit
        } else {
            Progress::Waits
        };
        let is_foreign = self.running.is_some() && !pages.is_awaiting();
        drop(pages);
        if is_foreign {
            Err(self.foreign())
        } else {
            Ok(progress)
        }
    }

    fn ending(&self, ready: Result<Payload, Failure>) -> Ending {
        match (ready, self.script.lock().continue_with.take()) {
            (Ok(output), _) => Ending::Output(output),
            (Err(_), Some(next)) => Ending::Continues(next),
            (Err(failure), None) => Ending::Failure(failure),
        }
    }

    fn foreign(&self) -> Problem {
        let place = match self.script.lock().last_await {
            Some(Await { step, kind, place }) => {
                format!(
                    "at or after the await of {} {step} at {place}",
                    kind.as_str()
                )
            }
            None => "before its first await".to_owned(),
        };
        Problem::Foreign(place)
    }

    /// What the code has asked for since the last time.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.script.lock().commands)
    }

    /// What the code says to `query`; `None` when it does not know it.
    pub(crate) fn answer(
        &self,
        query: &TypeName,
        input: Option<&Payload>,
    ) -> Option<Result<Payload, Failure>> {
        let pages = self.script.lock();
        let answer = pages.answers.get(query)?;
        let answered = catch_unwind(AssertUnwindSafe(|| answer(input)));
        Some(answered.unwrap_or_else(|panic| {
            Err(Failure::new(panic_message(&*panic)).of_kind(Failure::PANICKED))
        }))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.script.lock().detached = true;
        // Its futures go while their script still knows that this is no end.
        let running = self.running.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(running))));
    }
}

impl Ending {
    /// The command that makes it the end of the run.
    pub(crate) fn command(self, ids: &Ids) -> Command {
        match self {
            Self::Output(output) => Command::Complete(output),
            Self::Failure(failure) => Command::Fail(failure),
            Self::Continues(input) => Command::Continue(Box::new(ContinueCommand {
                run: ids.run(),
                seed: rand::random(),
                input,
            })),
        }
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

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

//! The code of one run, as its driver sees it.

mod replay;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polled, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::script::{Await, Local, Pages, Script, User};
use super::wake::Guard;
use crate::model::{Event, EventKind, Failure, Ids, Payload, TypeName};
use crate::transition::{Command, ContinueCommand, Identity, Outcome, RunState, opens};
use crate::values::Values;

/// A workflow function, without its types.
pub(crate) type Function = dyn Fn(Context, Option<Payload>) -> Running + Send + Sync;

/// `code` without its types.
pub(crate) fn function<I, O, F, R>(
    code: F,
) -> impl Fn(Context, Option<Payload>) -> Running + Send + Sync
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    F: Fn(Context, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, Failure>> + Send + 'static,
{
    let code = Arc::new(code);
    move |context, input| {
        let code = Arc::clone(&code);
        Box::pin(async move {
            let edge = context.clone();
            let output = code(context, edge.decode(input.as_ref())?).await?;
            edge.encode(&output)
        })
    }
}

/// What the code of a run makes ids and payloads with.
pub(crate) type Means = (Arc<Ids>, Arc<Values>);

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
    /// It uses its context where the history would not see it.
    Misused(String),
    /// It panicked.
    Panicked(String),
    /// Its values cannot be read or written here.
    Codec(String),
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
            Self::Misused(how) => write!(out, "the context of the workflow is used {how}"),
            Self::Panicked(message) => write!(out, "the workflow panicked: {message}"),
            Self::Codec(error) => write!(out, "a value cannot be read or written here: {error}"),
        }
    }
}

impl Code {
    /// The code of a run that has seen nothing yet, not even its start.
    pub(crate) fn new(
        identity: Identity,
        (ids, values): Means,
        state: &RunState,
        function: &Function,
    ) -> Self {
        let seed = state.started().map_or(0, |started| started.seed);
        let mut pages = Pages::new(identity, ids, seed);
        if let Some(started) = state.started() {
            pages.attributes.clone_from(&started.attributes);
            pages.memo.clone_from(&started.memo);
            pages.occurrence.clone_from(&started.occurrence);
        }
        let script = Script::new(pages, values);
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

    /// Shows the code the next event.
    pub(crate) fn see(&mut self, event: &Event, outcome: Option<(u64, Outcome)>) {
        let mut pages = self.script.lock();
        (pages.now, pages.seen) = (event.at, event.seq);
        let mut wakers = Vec::new();
        match (&event.kind, event.step) {
            (EventKind::CancelRequested(request), _) => {
                pages.cancel.get_or_insert_with(|| request.reason.clone());
                wakers = pages.interrupt();
            }
            (EventKind::ContinueAsNewSuggested(suggested), _) => {
                pages.suggested = Some(suggested.measure);
            }
            (EventKind::UpdateApplied(applied), Some(step)) => {
                pages.updates.insert(step, applied.request.clone());
            }
            (EventKind::ConditionWaitSatisfied(_), Some(step)) => pages.check_satisfied(step),
            _ => {}
        }
        if let Some(step) = event.step.filter(|_| opens(&event.kind).is_some()) {
            pages.check_issued(step);
        }
        wakers.extend(outcome.and_then(|(step, outcome)| pages.resolve(step, outcome)));
        drop(pages);
        self.guard
            .while_fed(|| wakers.into_iter().for_each(Waker::wake));
    }

    /// Runs the code until it waits. `task` is woken when a local step goes on.
    ///
    /// # Errors
    /// The problem that stops it.
    pub(crate) fn poll(&mut self, task: &Waker, is_committed: bool) -> Result<Progress, Problem> {
        self.guard.belong_to(task);
        self.let_steps_begin(is_committed);
        let mut has_looked = false;
        for _ in 0..MOST_SELF_WAKES {
            if self.guard.take_foreign() {
                return Err(self.foreign());
            }
            let Some(ready) = self.poll_once()? else {
                if self.guard.take_woken_by_itself() {
                    has_looked = false;
                    continue;
                }
                // What the code has done in this go may have made a condition true.
                if !has_looked && self.wake_conditions() {
                    has_looked = true;
                    continue;
                }
                return self.stands();
            };
            self.running = None;
            return Ok(Progress::Ended(self.ending(ready)));
        }
        Err(self.foreign())
    }

    fn wake_conditions(&self) -> bool {
        let pages = self.script.lock();
        let wakers = pages.wakers(pages.conditions.iter().copied());
        drop(pages);
        let are_any = !wakers.is_empty();
        self.guard
            .while_fed(|| wakers.into_iter().for_each(Waker::wake));
        are_any
    }

    fn let_steps_begin(&self, is_committed: bool) {
        let mut pages = self.script.lock();
        pages.is_committed = is_committed;
        if !is_committed {
            return;
        }
        let wakers = pages.wakers(pages.locals_that(Local::Waits));
        drop(pages);
        self.guard
            .while_fed(|| wakers.into_iter().for_each(Waker::wake));
    }

    fn poll_once(&mut self) -> Result<Option<Result<Payload, Failure>>, Problem> {
        let Some(running) = self.running.as_mut() else {
            return Ok(None);
        };
        let mut cx = Polled::from_waker(&self.waker);
        self.script.lock().user = User::code();
        let polled = self
            .guard
            .while_polled(|| catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut cx))));
        self.script.lock().user = User::Nobody;
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
        let progress = if pages.locals_that(Local::Works).next().is_some() {
            Progress::Works
        } else if pages.locals_that(Local::Waits).next().is_some() {
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
            (Err(failure), Some(next)) if failure.kind == Failure::CONTINUES => {
                Ending::Continues(next)
            }
            // It changed its mind, or another branch ended first.
            (Err(failure), _) => Ending::Failure(failure.bounded()),
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

    /// The end of a local step, of one at a time: it is to be the last event of its commit, so that
    /// nothing in the history lies between it and what the code makes of it.
    pub(crate) fn take_step_end(&mut self) -> Option<Command> {
        self.script.lock().ended_steps.pop_front()
    }

    /// What the code says to `query`; `None` when it does not know it.
    pub(crate) fn answer(
        &self,
        query: &TypeName,
        input: Option<&Payload>,
    ) -> Option<Result<Payload, Failure>> {
        // Not under the lock: it is the user's code, which may look into its context.
        let answer = self.script.lock().answers.remove(query)?;
        let answered = catch_unwind(AssertUnwindSafe(|| answer(input)));
        let mut pages = self.script.lock();
        pages.answers.insert(query.clone(), answer);
        if let Some(problem @ Problem::Misused(_)) = pages.problem.take() {
            return Some(Err(Failure::new(problem.to_string())));
        }
        Some(answered.unwrap_or_else(|panic| {
            Err(Failure::new(panic_message(&*panic)).of_kind(Failure::PANICKED))
        }))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let answers = {
            let mut pages = self.script.lock();
            pages.detached = true;
            // They may hold the context, and so what holds them.
            std::mem::take(&mut pages.answers)
        };
        // Its futures go while their script still knows that this is no end.
        let running = self.running.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(running))));
        drop(catch_unwind(AssertUnwindSafe(|| drop(answers))));
    }
}

impl Ending {
    /// The kind of event that it leads to; a failure may be the end that was asked for.
    const fn event_name(&self) -> &'static str {
        match self {
            Self::Output(_) => "Completed",
            Self::Failure(_) => "Failed",
            Self::Continues(_) => "ContinuedAsNew",
        }
    }

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

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

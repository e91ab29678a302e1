//! Local steps: work that is done here, once, and whose result the history keeps.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polled, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::Operation;
use super::code::panic_message;
use super::script::{Local, Pages, User};
use super::wake::StepWaker;
use crate::limits::{Limit, Limits};
use crate::model::{Failure, Payload, TypeName};
use crate::transition::Command;

/// Work that is done by this process under the lease of the run, and whose result is committed
/// before the workflow sees it.
///
/// A request to end the run ends it where it stands, at its next await: its work is dropped, and it
/// fails as [`Failure::CANCELLED`]. Work that occupies the thread is not interrupted.
///
/// It begins only when everything that the workflow decided before is committed. A process that
/// dies in between does it again: the work runs at least once, its result is kept once. The work
/// may wait for anything; what it may not do is use the context.
#[must_use = "a future does nothing unless it is awaited"]
pub struct StepCall<F, W, T> {
    operation: Operation,
    name: TypeName,
    stage: Stage<F, W>,
    output: PhantomData<fn() -> T>,
}

enum Stage<F, W> {
    /// Not looked at yet.
    New(F),
    /// It waits until all before it is committed.
    Waiting(F),
    /// Under way.
    Working(Pin<Box<W>>),
    /// It has ended, or the history has it: its outcome is fed.
    Ended,
}

impl<F, W, T, E> StepCall<F, W, T>
where
    F: FnOnce() -> W,
    W: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
    E: Into<Failure>,
{
    pub(super) fn new(operation: Operation, name: TypeName, work: F) -> Self {
        Self {
            operation,
            name,
            stage: Stage::New(work),
            output: PhantomData,
        }
    }

    /// Goes on as far as it can; whether its stage has changed.
    fn advance(&mut self, cx: &Polled<'_>) -> bool {
        let script = self.operation.script().clone();
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::New(work) => {
                if self.operation.ask_silently() {
                    return false;
                }
                let mut pages = script.lock();
                pages.locals.insert(self.operation.step(), Local::Waits);
                if self.operation.is_shielded() {
                    pages.shielded.insert(self.operation.step());
                }
                drop(pages);
                self.stage = Stage::Waiting(work);
                true
            }
            Stage::Waiting(work) => {
                let mut pages = script.lock();
                if let Some(failure) = self.refusal(&pages) {
                    drop(pages);
                    self.end(Err(failure));
                    return false;
                }
                if !pages.is_committed || !pages.commands.is_empty() {
                    self.stage = Stage::Waiting(work);
                    return false;
                }
                pages.locals.insert(self.operation.step(), Local::Works);
                drop(pages);
                match self.at_work(work) {
                    Ok(work) => self.stage = Stage::Working(Box::pin(work)),
                    Err(panic) => self.end(Err(panicked(&*panic))),
                }
                true
            }
            Stage::Working(mut work) => {
                let interruption = script.lock().interruption(self.operation.step());
                if let Some(failure) = interruption {
                    drop(work);
                    self.end(Err(failure));
                    return false;
                }
                let waker = Waker::from(Arc::new(StepWaker(cx.waker().clone())));
                let mut own = Polled::from_waker(&waker);
                match self.at_work(|| work.as_mut().poll(&mut own)) {
                    Ok(Poll::Pending) => self.stage = Stage::Working(work),
                    Ok(Poll::Ready(result)) => {
                        let result = result.map_err(Into::into);
                        self.end(result.and_then(|value| script.encode(&value)));
                    }
                    Err(panic) => self.end(Err(panicked(&*panic))),
                }
                false
            }
            Stage::Ended => false,
        }
    }

    /// Runs a part of the work, which is not the code of the workflow: it may ask for nothing.
    fn at_work<R>(&self, part: impl FnOnce() -> R) -> std::thread::Result<R> {
        let script = self.operation.script();
        script.lock().user = User::Step;
        let result = catch_unwind(AssertUnwindSafe(part));
        script.lock().user = User::code();
        result
    }

    /// Why the step must not begin.
    fn refusal(&self, pages: &Pages) -> Option<Failure> {
        let limits = self.operation.script().values().limits();
        let seen = usize::try_from(pages.seen).unwrap_or(usize::MAX);
        if Limits::is_exceeded(limits.history_events, seen) {
            return Some(Limit::HistoryEvents.exceeded(limits));
        }
        pages.interruption(self.operation.step())
    }

    fn end(&mut self, result: Result<Payload, Failure>) {
        let mut pages = self.operation.script().lock();
        pages.locals.remove(&self.operation.step());
        pages.ended_steps.push_back(Command::StepEnded {
            step: self.operation.step(),
            name: self.name.clone(),
            result: result.map_err(Failure::bounded),
        });
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::new(panic_message(panic)).of_kind(Failure::PANICKED)
}

// The work is boxed, and everything else is moved.
impl<F, W, T> Unpin for StepCall<F, W, T> {}

impl<F, W, T, E> Future for StepCall<F, W, T>
where
    F: FnOnce() -> W,
    W: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
    E: Into<Failure>,
{
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        while self.advance(cx) {}
        self.operation.poll_value(cx)
    }
}

impl<F, W, T> Drop for StepCall<F, W, T> {
    fn drop(&mut self) {
        let own = self.operation.step();
        let mut pages = self.operation.script().lock();
        pages.locals.remove(&own);
        let is_other =
            |end: &Command| !matches!(end, Command::StepEnded { step, .. } if *step == own);
        pages.ended_steps.retain(is_other);
    }
}

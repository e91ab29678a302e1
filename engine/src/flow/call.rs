//! The futures of a workflow.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as Polled, Poll};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::script::{Await, Script};
use crate::model::{
    Failure, OpKind, ParentClose, Payload, Priority, Queue, Retry, Timeouts, TypeName, WorkflowId,
};
use crate::transition::{ChildCommand, Command, Outcome};

/// An operation of the run, from its number to its outcome.
///
/// It is asked for when it is first polled; dropped before its end, it is no longer wanted.
pub(super) struct Operation {
    script: Script,
    at: Await,
    name: Option<TypeName>,
    state: State,
    /// Whether a request to end leaves it alone.
    is_shielded: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has asked for it.
    New,
    /// The run waits for it.
    Asked,
    /// It has its outcome.
    Over,
}

impl Operation {
    pub(super) fn new(
        script: &Script,
        kind: OpKind,
        name: Option<TypeName>,
        place: &'static Location<'static>,
    ) -> Self {
        let step = script.lock().take_step(place);
        Self {
            script: script.clone(),
            at: Await { step, kind, place },
            name,
            state: State::New,
            is_shielded: false,
        }
    }

    pub(super) const fn shielded(mut self) -> Self {
        self.is_shielded = true;
        self
    }

    pub(super) const fn is_shielded(&self) -> bool {
        self.is_shielded
    }

    pub(super) const fn step(&self) -> u64 {
        self.at.step
    }

    pub(super) fn name(&self) -> Option<TypeName> {
        self.name.clone()
    }

    pub(super) const fn script(&self) -> &Script {
        &self.script
    }

    /// Asks for it, unless that was done; `command` is for one that the history does not have.
    pub(super) fn ask(&mut self, command: impl FnOnce(u64) -> Command) {
        if self.state != State::New {
            return;
        }
        self.state = State::Asked;
        let mut pages = self.script.lock();
        if !pages.check_use(self.at.place) {
            return;
        }
        if pages.issue(self.at.step, self.at.kind, self.name.as_ref()) == Some(false) {
            if self.is_shielded {
                let step = self.at.step;
                pages.commands.push(Command::Shield { step });
            }
            pages.commands.push(command(self.at.step));
        }
    }

    /// Asks for it with an input that may not fit. That it does not is a fact of the history, so that
    /// the code goes the same way again when it would fit.
    pub(super) fn ask_with(
        &mut self,
        input: Result<Payload, Failure>,
        command: impl FnOnce(u64, TypeName, Payload) -> Command,
    ) {
        let (operation, name) = (self.at.kind, self.name.clone());
        self.ask(|step| match (input, name) {
            (Ok(input), Some(name)) => command(step, name, input),
            (Err(failure), name) => Command::Refuse {
                step,
                operation,
                name,
                failure,
            },
            (Ok(_), None) => unreachable!("what takes an input has a name"),
        });
    }

    /// As [`ask`](Self::ask), for one that asks for nothing until it has ended; whether the history
    /// has it.
    pub(super) fn ask_silently(&mut self) -> bool {
        self.state = State::Asked;
        let mut pages = self.script.lock();
        // An operation that diverges is never begun.
        pages
            .issue(self.at.step, self.at.kind, self.name.as_ref())
            .unwrap_or(true)
    }

    pub(super) fn poll(&mut self, cx: &mut Polled<'_>) -> Poll<Outcome> {
        match self.script.lock().wait(self.at, cx.waker()) {
            Some(outcome) => {
                self.state = State::Over;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl Operation {
    /// As [`poll`](Self::poll), with the value read.
    pub(super) fn poll_value<T: DeserializeOwned>(
        &mut self,
        cx: &mut Polled<'_>,
    ) -> Poll<Result<T, Failure>> {
        let outcome = self.poll(cx);
        outcome.map(|outcome| self.script.decode(outcome?.as_ref()))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.state == State::Asked {
            self.script.lock().forget(self.at.step);
        }
    }
}

/// An activity, asked for when it is first polled or by [`start`](Self::start).
///
/// Dropped before its end it is cancelled.
#[must_use = "a future does nothing unless it is awaited or started"]
pub struct ActivityCall<O> {
    operation: Operation,
    input: Result<Payload, Failure>,
    queue: Option<Queue>,
    priority: Option<Priority>,
    retry: Retry,
    timeouts: Timeouts,
    output: PhantomData<fn() -> O>,
}

impl<O: DeserializeOwned> ActivityCall<O> {
    pub(super) fn new(operation: Operation, input: Result<Payload, Failure>) -> Self {
        Self {
            operation,
            input,
            queue: None,
            priority: None,
            retry: Retry::default(),
            timeouts: Timeouts::default(),
            output: PhantomData,
        }
    }

    /// When a failed attempt is followed by another.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Where it waits for a worker. Default: the queue of the run.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Which of two due activities goes first. Default: the priority of the run.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// How long it may wait for its first attempt. Default: without a bound.
    pub fn schedule_to_start(mut self, span: Duration) -> Self {
        self.timeouts.schedule_to_start = Some(span);
        self
    }

    /// How long one attempt may take. Default: without a bound, as long as its worker lives.
    pub fn start_to_close(mut self, span: Duration) -> Self {
        self.timeouts.start_to_close = Some(span);
        self
    }

    /// How long all attempts together may take. Default: without a bound.
    pub fn schedule_to_close(mut self, span: Duration) -> Self {
        self.timeouts.schedule_to_close = Some(span);
        self
    }

    /// How long an attempt may go without a heartbeat. Default: without a bound.
    pub fn heartbeat(mut self, span: Duration) -> Self {
        self.timeouts.heartbeat = Some(span);
        self
    }

    /// Asks for it now, so that it runs while the workflow does something else.
    pub fn start(mut self) -> Self {
        self.ask();
        self
    }

    fn ask(&mut self) {
        self.operation
            .ask_with(self.input.clone(), |step, name, input| Command::Activity {
                step,
                name,
                input,
                queue: self.queue.clone(),
                priority: self.priority,
                retry: self.retry.clone(),
                timeouts: self.timeouts,
            });
    }
}

impl<O: DeserializeOwned> Future for ActivityCall<O> {
    type Output = Result<O, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        self.ask();
        self.operation.poll_value(cx)
    }
}

/// A timer. Dropped before its end it is cancelled.
#[must_use = "a future does nothing unless it is awaited"]
pub struct SleepCall {
    operation: Operation,
    delay: Duration,
}

impl SleepCall {
    pub(super) fn new(operation: Operation, delay: Duration) -> Self {
        Self { operation, delay }
    }
}

impl Future for SleepCall {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        let delay = self.delay;
        self.operation.ask(|step| Command::Timer { step, delay });
        self.operation.poll(cx).map(|outcome| outcome.map(drop))
    }
}

/// A wait for the next signal of a name. Dropped before its end it takes none.
#[must_use = "a future does nothing unless it is awaited"]
pub struct SignalCall<T> {
    operation: Operation,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> SignalCall<T> {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            value: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Future for SignalCall<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        if let Some(name) = self.operation.name.clone() {
            self.operation
                .ask(|step| Command::AwaitSignal { step, name });
        }
        self.operation.poll_value(cx)
    }
}

/// A child workflow, started when it is first polled or by [`start`](Self::start).
///
/// Dropped before its end it is asked to end.
#[must_use = "a future does nothing unless it is awaited or started"]
pub struct ChildCall<O> {
    operation: Operation,
    input: Result<Payload, Failure>,
    workflow: Option<WorkflowId>,
    queue: Option<Queue>,
    on_close: ParentClose,
    output: PhantomData<fn() -> O>,
}

impl<O: DeserializeOwned> ChildCall<O> {
    pub(super) fn new(operation: Operation, input: Result<Payload, Failure>) -> Self {
        Self {
            operation,
            input,
            workflow: None,
            queue: None,
            on_close: ParentClose::default(),
            output: PhantomData,
        }
    }

    /// What the child is called. Default: the id of this run and the number of the operation.
    pub fn id(mut self, workflow: WorkflowId) -> Self {
        self.workflow = Some(workflow);
        self
    }

    /// Where its workflow tasks wait. Default: the queue of this run.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// What becomes of it when this run ends first. Default: it is ended.
    pub fn on_close(mut self, on_close: ParentClose) -> Self {
        self.on_close = on_close;
        self
    }

    /// Starts it now, so that it runs while this workflow does something else.
    pub fn start(mut self) -> Self {
        self.ask();
        self
    }

    fn ask(&mut self) {
        let script = self.operation.script.clone();
        let (ids, parent) = {
            let pages = script.lock();
            (pages.ids.clone(), pages.identity.run.clone())
        };
        let command = |step, name, input| {
            let made = || WorkflowId::new(format!("{parent}:{step}")).expect("run ids are short");
            Command::Child(Box::new(ChildCommand {
                step,
                name,
                workflow: self.workflow.clone().unwrap_or_else(made),
                run: ids.run(),
                seed: rand::random(),
                input,
                queue: self.queue.clone(),
                on_close: self.on_close,
            }))
        };
        self.operation.ask_with(self.input.clone(), command);
    }
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = Result<O, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        self.ask();
        self.operation.poll_value(cx)
    }
}

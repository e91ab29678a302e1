//! Waiting for a condition of the code's own state.

use std::pin::Pin;
use std::task::{Context as Polled, Poll};
use std::time::Duration;

use super::call::Operation;
use crate::model::Failure;
use crate::transition::Command;

/// A wait until a condition holds. Dropped before its end it is given up.
#[must_use = "a future does nothing unless it is awaited"]
pub struct ConditionCall<F> {
    operation: Operation,
    condition: F,
    timeout: Option<Duration>,
    holds: bool,
}

impl<F: Fn() -> bool> ConditionCall<F> {
    pub(super) const fn new(operation: Operation, condition: F) -> Self {
        Self {
            operation,
            condition,
            timeout: None,
            holds: false,
        }
    }

    /// How long it waits at most, counted as in [`sleep`](super::Context::sleep): after that it
    /// ends in a failure of the sort [`Failure::TIMED_OUT`]. Default: without a bound.
    pub const fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

// Nothing of it is pinned.
impl<F> Unpin for ConditionCall<F> {}

impl<F: Fn() -> bool> Future for ConditionCall<F> {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        let (name, timeout) = (self.operation.name(), self.timeout);
        if let Some(name) = name {
            self.operation.ask(|step| Command::AwaitCondition {
                step,
                name,
                timeout,
            });
        }
        let outcome = self.operation.poll(cx).map(|outcome| outcome.map(drop));
        if outcome.is_pending() && !self.holds {
            self.holds = (self.condition)();
            let mut pages = self.operation.script().lock();
            if self.holds {
                pages.satisfy(self.operation.step());
            } else {
                pages.conditions.insert(self.operation.step());
            }
        }
        outcome
    }
}

impl<F> Drop for ConditionCall<F> {
    fn drop(&mut self) {
        let mut pages = self.operation.script().lock();
        pages.conditions.remove(&self.operation.step());
    }
}

//! Updates: requests from outside that the code of a workflow answers.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Polled, Poll};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Context;
use super::call::Operation;
use super::script::Script;
use crate::model::{Failure, OpKind, RequestId, TypeName};
use crate::transition::Command;

/// The updates of one name, in the order in which they were sent.
pub struct Updates<I, O> {
    context: Context,
    name: TypeName,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Updates<I, O> {
    pub(super) const fn new(context: Context, name: TypeName) -> Self {
        Self {
            context,
            name,
            types: PhantomData,
        }
    }

    /// The next one. Each reaches one wait; one that comes before any wait is kept.
    #[track_caller]
    pub fn recv(&self) -> UpdateCall<I, O> {
        UpdateCall {
            operation: self
                .context
                .operation(OpKind::Update, Some(self.name.clone())),
            name: self.name.clone(),
            types: PhantomData,
        }
    }
}

/// A wait for the next update of a name. Dropped before its end it takes none.
#[must_use = "a future does nothing unless it is awaited"]
pub struct UpdateCall<I, O> {
    operation: Operation,
    name: TypeName,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Future for UpdateCall<I, O> {
    type Output = Result<Request<I, O>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polled<'_>) -> Poll<Self::Output> {
        let name = self.name.clone();
        self.operation
            .ask(|step| Command::AwaitUpdate { step, name });
        let input = std::task::ready!(self.operation.poll_value(cx))?;
        let script = self.operation.script().clone();
        let request = script.lock().updates.remove(&self.operation.step());
        let missing = || Failure::new("an update without its request").non_retryable();
        Poll::Ready(Ok(Request {
            script,
            id: request.ok_or_else(missing)?,
            input,
            output: PhantomData,
        }))
    }
}

/// An update that waits for its answer. Dropped without one, it is answered by nobody, and its
/// sender learns of that when the workflow ends.
#[must_use = "its sender waits for an answer"]
pub struct Request<I, O> {
    script: Script,
    id: RequestId,
    /// What it carries.
    pub input: I,
    output: PhantomData<fn() -> O>,
}

impl<I, O: Serialize> Request<I, O> {
    /// The sender's id for it.
    pub const fn id(&self) -> &RequestId {
        &self.id
    }

    /// Answers it, and gives back what it carried.
    pub fn complete(self, output: &O) -> I {
        let result = self.script.encode(output);
        self.answer(result)
    }

    /// Refuses it: what it asks for is not done.
    pub fn reject(self, failure: Failure) -> I {
        self.answer(Err(failure))
    }

    fn answer(self, result: Result<crate::model::Payload, Failure>) -> I {
        let mut pages = self.script.lock();
        if !pages.answered.contains(&self.id) {
            let request = self.id;
            pages.commands.push(Command::Answer { request, result });
        }
        drop(pages);
        self.input
    }
}

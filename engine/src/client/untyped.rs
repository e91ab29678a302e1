//! A client for callers that learn names and values at run time alone.

use std::time::Duration;

use coord_core::{Error, Result};
use serde_json::Value;
use tokio::time::Instant;

use super::command::{Command, CommandCall};
use super::handle::{Asked, ask};
use super::update::{Answer, answer, send};
use super::{Client, CreateSchedule, StartCall};
use crate::health::{self, Explanation};
use crate::model::{
    Event, Failure, Payload, RequestId, Run, RunId, Schedule, ScheduleId, TypeName, WorkflowId,
};
use crate::store::{Description, Load, Outcome, Target, Write};

/// Starts and reaches workflows by names and JSON values that are only known at run time, as a
/// control plane or a command line does. Code that knows its workflows uses the [`Client`], where
/// the compiler checks both.
///
/// A [`Target`] names a run by itself or through its workflow. One that is a [`Target::Run`] is
/// reached whatever its namespace: whoever takes it from others looks at its description first.
#[derive(Clone)]
pub struct Untyped {
    client: Client,
}

/// What became of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reached {
    /// It was carried out.
    Now(RunId),
    /// It was carried out before, for the same request.
    Before(RunId),
    /// As many signals wait to be received as may. It was not sent.
    Full,
    /// The run has ended.
    Closed,
    /// There is no such run.
    Missing,
}

/// What became of a question.
#[derive(Clone, PartialEq, Debug)]
pub enum Queried {
    /// The answer.
    Answered(Value),
    /// The workflow's code fails at it.
    Refused(Failure),
    /// The workflow's code answers no questions of this name.
    NotKnown,
    /// No worker of this process has the workflow's code.
    NobodyHere,
    /// There is no such run.
    Missing,
}

/// What became of an update.
#[derive(Clone, PartialEq, Debug)]
pub enum Updated {
    /// It was answered, or refused.
    Answered(RunId, Result<Value, Failure>),
    /// It was sent, and is not answered yet.
    Sent(RunId),
    /// The run has ended; after the update was sent, it did so without an answer.
    Closed,
    /// There is no such run.
    Missing,
}

impl Client {
    /// The same client, by names and values that are known at run time alone.
    pub fn untyped(&self) -> Untyped {
        Untyped {
            client: self.clone(),
        }
    }
}

impl Untyped {
    /// Starts the workflow of type `name` as `id` with `input`, once it is awaited.
    pub fn start(&self, name: TypeName, id: WorkflowId, input: &Value) -> StartCall<Value> {
        StartCall::new(self.client.clone(), name, id, input)
    }

    /// Sends a signal; once for `request`, however often it is sent to this workflow.
    ///
    /// # Errors
    /// `Invalid` when the value is too large. `Unavailable` or `Timeout` when the database does not
    /// answer; to send it again then is safe with the same `request`.
    ///
    /// # Cancel safety
    /// Dropped, it may have been sent.
    pub async fn signal(
        &self,
        target: Target,
        name: TypeName,
        value: &Value,
        request: Option<RequestId>,
    ) -> Result<Reached> {
        let value = self.client.core.values.encode(value).map_err(Error::from);
        self.command(target, Command::Signal(name, value), request)
            .await
    }

    /// Asks a run to end, for `reason`. It may clean up first, or refuse.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    ///
    /// # Cancel safety
    /// As [`signal`](Self::signal).
    pub async fn cancel(
        &self,
        target: Target,
        reason: &str,
        request: Option<RequestId>,
    ) -> Result<Reached> {
        self.command(target, Command::Cancel(reason.to_owned()), request)
            .await
    }

    /// Ends a run, for `reason`, whatever it does. Its open children end by their policy.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    ///
    /// # Cancel safety
    /// As [`signal`](Self::signal).
    pub async fn terminate(
        &self,
        target: Target,
        reason: &str,
        request: Option<RequestId>,
    ) -> Result<Reached> {
        let failure = Failure::new(reason).of_kind(Failure::TERMINATED);
        self.command(target, Command::Terminate(failure), request)
            .await
    }

    async fn command(
        &self,
        target: Target,
        what: Command,
        request: Option<RequestId>,
    ) -> Result<Reached> {
        let mut call = CommandCall::new(self.client.clone(), target, what);
        if let Some(request) = request {
            call = call.request(request);
        }
        reached(call.outcome().await?)
    }

    /// Makes a run go on after it was set aside, with the code that runs now. `Missing` when it was
    /// not set aside.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may go on.
    pub async fn resume(&self, target: Target) -> Result<Reached> {
        reached(self.client.core.commit(Write::Resume(target)).await?)
    }

    /// Asks a run a question, which its code answers from its state as of the last event. The code
    /// runs in this process.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer. `Corrupt` when the code does
    /// not follow the history.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn query(&self, target: &Target, name: &TypeName, input: &Value) -> Result<Queried> {
        let core = &self.client.core;
        let Some(run) = core.store.find(target).await? else {
            return Ok(Queried::Missing);
        };
        let input = core.values.encode(input)?;
        Ok(match ask(core, &run, name, input).await? {
            Asked::Answered(answer) => Queried::Answered(self.decode(Some(&answer))?),
            Asked::Refused(failure) => Queried::Refused(failure),
            Asked::NotKnown => Queried::NotKnown,
            Asked::NobodyHere => Queried::NobodyHere,
        })
    }

    /// Sends an update, durably, once for `request`, and waits at most `wait` for the answer.
    ///
    /// # Errors
    /// `Invalid` when the input is too large. `Unavailable` or `Timeout` when the database does not
    /// answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have been sent; to send it again under the same request is safe.
    pub async fn update(
        &self,
        target: Target,
        (name, input): (TypeName, &Value),
        request: RequestId,
        wait: Duration,
    ) -> Result<Updated> {
        let core = &self.client.core;
        let input = core.values.encode(input)?;
        let sent = send(core, target.clone(), name, input, request.clone()).await?;
        let run = match reached(sent)? {
            Reached::Now(run) | Reached::Before(run) => run,
            Reached::Full => return Err(Error::corrupt("an update: answered as a signal")),
            Reached::Closed => return Ok(Updated::Closed),
            Reached::Missing => return Ok(Updated::Missing),
        };
        Ok(
            match answer(core, &target, &request, Instant::now() + wait).await? {
                Answer::Given(Ok(payload)) => {
                    Updated::Answered(run, Ok(self.decode(payload.as_ref())?))
                }
                Answer::Given(Err(failure)) => Updated::Answered(run, Err(failure)),
                Answer::NotYet => Updated::Sent(run),
                Answer::Ended => Updated::Closed,
                Answer::Missing => Updated::Missing,
            },
        )
    }

    /// A run; `None` when there is no such run.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn find(&self, target: &Target) -> Result<Option<Run>> {
        self.client.core.store.find(target).await
    }

    /// Where a run stands, and why it does or does not move; `None` when there is no such run.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn describe(&self, target: &Target) -> Result<Option<Description>> {
        self.client.core.store.describe(target).await
    }

    /// Why a run does not move: where it stands, what holds it up and since when, and what to do
    /// about it; `None` when there is no such run.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when the history
    /// does not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn explain(&self, target: &Target) -> Result<Option<Explanation>> {
        let core = &self.client.core;
        health::of(core, target).await
    }

    /// At most `limit` events of a run after the event number `after`, with the run as it stands;
    /// `None` when there is no such run.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when the history does
    /// not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn events(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Option<(Run, Vec<Event>)>> {
        let wanted = Load {
            run: run.clone(),
            after,
            limit,
        };
        let mut loaded = self.client.core.store.load(&[wanted]).await?;
        let Some(loaded) = loaded.runs.pop().flatten() else {
            return Ok(None);
        };
        let events = loaded.events.into_iter().map(Event::from_record);
        Ok(Some((loaded.run, events.collect::<Result<_>>()?)))
    }

    /// The value that a payload holds; `null` for none.
    ///
    /// # Errors
    /// `Corrupt` when it does not read. Whatever keeps the engine's codec from decoding.
    pub fn decode(&self, payload: Option<&Payload>) -> Result<Value> {
        self.client.core.values.read(payload)
    }

    /// `value` as the engine stores it, such as the input of a schedule's action.
    ///
    /// # Errors
    /// `Invalid` when it is too large. Whatever keeps the engine's codec from encoding.
    pub fn encode(&self, value: &Value) -> Result<Payload> {
        Ok(self.client.core.values.encode(value)?)
    }

    /// Creates a schedule with this definition, once it is awaited.
    pub fn create_schedule(&self, id: ScheduleId, schedule: Schedule) -> CreateSchedule {
        CreateSchedule::of(self.client.clone(), id, schedule)
    }
}

fn reached(outcome: Outcome) -> Result<Reached> {
    match outcome {
        Outcome::Done { run, .. } => Ok(Reached::Now(run)),
        Outcome::Repeated { run } => Ok(Reached::Before(run)),
        Outcome::Full => Ok(Reached::Full),
        Outcome::Closed => Ok(Reached::Closed),
        Outcome::NotFound => Ok(Reached::Missing),
        other => Err(Error::corrupt(format!("a command: answered {other:?}"))),
    }
}

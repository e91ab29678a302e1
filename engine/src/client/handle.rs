//! A workflow that was started.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Client;
use super::command::{Command, CommandCall, reached};
use crate::archive::{archive_one, events_of};
use crate::committer::locked;
use crate::engine::Core;
use crate::flow::{Query, Signal};
use crate::health::{self, Explanation};
use crate::model::{Closed, Event, Failure, Payload, Run, RunId, TypeName, WorkflowId};
use crate::store::{Archived, Description, Target, Write};
use crate::wake::{Channel, Snapshot};
use crate::worker::Shop;

/// A workflow that returns an `O`, or one run of it.
pub struct Handle<O> {
    pub(super) client: Client,
    id: WorkflowId,
    run: Option<RunId>,
    /// The end of `run`, told by the worker of this process that has begun it.
    end: Mutex<Option<oneshot::Receiver<Closed>>>,
    output: PhantomData<fn() -> O>,
}

impl<O> Handle<O> {
    pub(super) const fn current(client: Client, id: WorkflowId) -> Self {
        Self {
            client,
            id,
            run: None,
            end: Mutex::new(None),
            output: PhantomData,
        }
    }

    pub(super) const fn of_run(client: Client, id: WorkflowId, run: RunId) -> Self {
        Self {
            client,
            id,
            run: Some(run),
            end: Mutex::new(None),
            output: PhantomData,
        }
    }

    /// Its run ends with `end`, if it does so in this process.
    pub(super) fn expect(&mut self, end: oneshot::Receiver<Closed>) {
        self.end = Mutex::new(Some(end));
    }

    /// The id by which it was started.
    pub const fn id(&self) -> &WorkflowId {
        &self.id
    }

    /// The run that was found when it was started; `None` when nobody has looked.
    pub const fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    pub(super) fn target(&self) -> Target {
        Target::Current(self.client.namespace.clone(), self.id.clone())
    }

    fn command(&self, what: Command) -> CommandCall {
        CommandCall::new(self.client.clone(), self.target(), what)
    }

    /// Sends it a signal, once it is awaited. Signals of one sender reach it in their order.
    pub fn signal<T: Serialize>(&self, signal: Signal<T>, value: &T) -> CommandCall {
        let value = self.client.core.values.encode(value).map_err(Error::from);
        self.command(Command::Signal(signal.name(), value))
    }

    /// Asks it to end, for `reason`, once it is awaited. It may clean up first, or refuse.
    pub fn cancel(&self, reason: &str) -> CommandCall {
        self.command(Command::Cancel(reason.to_owned()))
    }

    /// Ends it, for `reason`, whatever it does, once it is awaited. Its open children end by their
    /// policy.
    pub fn terminate(&self, reason: &str) -> CommandCall {
        let failure = Failure::new(reason).of_kind(Failure::TERMINATED);
        self.command(Command::Terminate(failure))
    }

    /// Makes it go on after it was set aside, with the code that runs now.
    ///
    /// # Errors
    /// `Invalid` when it was not set aside. `Unavailable` or `Timeout` when the database does not
    /// answer.
    ///
    /// # Cancel safety
    /// Dropped, it may go on.
    pub async fn resume(&self) -> Result<()> {
        let write = Write::Resume(self.target());
        let outcome = self.client.core.commit(write).await?;
        reached(outcome, &self.target()).map(drop)
    }

    /// Where it stands, and why it does or does not move; `None` when there is no such workflow.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn describe(&self) -> Result<Option<Description>> {
        self.client.core.store.describe(&self.target()).await
    }

    /// Hands the history of its current run, which has ended, over to the archive of this engine now,
    /// and removes it here: see [`EngineBuilder::archive`](crate::EngineBuilder::archive). Where it is
    /// kept; the same when that was done before.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow, it has not ended, or this engine has no archive.
    /// Those of the archive. `Unavailable` or `Timeout` when the database does not answer; `Corrupt`
    /// when the history does not read.
    ///
    /// # Cancel safety
    /// Dropped, it may be archived; what was handed over and not removed here is handed over again by
    /// the next call.
    pub async fn archive(&self) -> Result<Archived> {
        let core = &self.client.core;
        let none = || Error::invalid("archiving a run: this engine has no archive");
        let (archive, _) = core.archive.as_ref().ok_or_else(none)?;
        let run = self.find().await?;
        if run.status.is_open() {
            let message = format!("archiving workflow {}: it has not ended", self.id);
            return Err(Error::invalid(message));
        }
        let of_run = Target::Run(run.run.clone());
        let archived = async || {
            let described = core.store.describe(&of_run).await?;
            let described = described.ok_or_else(|| self.missing())?;
            Ok::<_, Error>(described.archived)
        };
        if let Some(archived) = archived().await? {
            return Ok(archived);
        }
        let one = (&run.namespace, &run.run);
        archive_one(&*core.store, &**archive, one).await?;
        let gone = || Error::corrupt("archiving a run: its history is not what was handed over");
        archived().await?.ok_or_else(gone)
    }

    /// Why it does not move: where it stands, what holds it up and since when, and what to do about
    /// it; `None` when there is no such workflow.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when the history
    /// does not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn explain(&self) -> Result<Option<Explanation>> {
        health::of(&self.client.core, &self.target()).await
    }

    /// All events of its current run.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow, or its history is in an archive: the message says
    /// where. `Unavailable` or `Timeout` when the database does
    /// not answer; `Corrupt` when the history does not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn history(&self) -> Result<Vec<Event>> {
        self.events(&self.find().await?.run).await
    }

    pub(super) async fn events(&self, run: &RunId) -> Result<Vec<Event>> {
        let store = &*self.client.core.store;
        let events = events_of(store, run).await?;
        if events.is_empty() {
            self.client.core.expect_history(run).await?;
        }
        Ok(events)
    }

    /// Its current run as it is now.
    pub(super) async fn find(&self) -> Result<Run> {
        let run = self.client.core.store.find(&self.target()).await?;
        run.ok_or_else(|| self.missing())
    }

    /// Hears of the end of `run` from here on.
    fn watch(&self, run: RunId) -> (RunId, oneshot::Receiver<Closed>, Snapshot) {
        let wake = &self.client.core.wake;
        let (end, snapshot) = (wake.end_of(&run), wake.snapshot(&[Channel::run(&run)]));
        (run, end, snapshot)
    }

    pub(super) fn missing(&self) -> Error {
        Error::invalid(format!("there is no workflow {}", self.id))
    }

    /// Asks it a question, which its code answers from its state as of the last event.
    ///
    /// The code runs in this process, along the history and no further, so a worker that knows the
    /// workflow must be here; nothing is written.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow, when its code does not answer the question, or
    /// when it asks something of its context in answering it. `Unavailable`, at once, when no worker
    /// of this process knows the workflow and supports its build, or when the database does not answer. `Timeout` when the
    /// code takes more than ten seconds to answer, as one that blocks does. `Corrupt` when it does
    /// not follow its history.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn query<I: Serialize, A: DeserializeOwned>(
        &self,
        query: Query<I, A>,
        input: &I,
    ) -> Result<A> {
        let run = self.find().await?;
        let payload = self.client.core.values.encode(input)?;
        let name = query.name();
        let unanswered = || Error::invalid(format!("workflow {} does not answer {name}", self.id));
        let answer = match ask(&self.client.core, &run, &name, payload).await? {
            Asked::Answered(answer) => answer,
            Asked::Refused(failure) => return Err(Error::invalid(failure.to_string())),
            Asked::NotKnown => return Err(unanswered()),
            Asked::NobodyHere => {
                let build = run.build.as_ref().map(|build| format!(" of build {build}"));
                let (name, namespace) = (&run.name, &run.namespace);
                let message = format!(
                    "no worker of this process knows {name}{} of namespace {namespace}",
                    build.unwrap_or_default()
                );
                return Err(Error::unavailable(message));
            }
        };
        self.client.core.values.read(Some(&answer))
    }
}

impl<O: DeserializeOwned> Handle<O> {
    /// Waits at most `wait` for its end, over all runs that it continues as: its output, or the
    /// failure that ended it. `None` when it goes on.
    ///
    /// A failure of the sort [`Failure::CANCELLED`], [`Failure::TERMINATED`] or
    /// [`Failure::TIMED_OUT`] is an end of that sort.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow. `Unavailable` or `Timeout` when the database does
    /// not answer. `Corrupt` when the output is no `O`.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn result(&self, wait: Duration) -> Result<Option<Result<O, Failure>>> {
        let until = Instant::now() + wait;
        let expected = locked(&self.end).take();
        if let (Some(end), Some(run)) = (expected, &self.run) {
            let wake = &self.client.core.wake;
            wake.look_for(run);
            let snapshot = wake.snapshot(&[Channel::run(run)]);
            tokio::select! {
                biased;
                closed = end => if let Some(result) = closed.ok().and_then(result) {
                    return self.read(result).map(Some);
                },
                // Another process has gone on with it.
                is_hint = snapshot.wait(until) => if !is_hint {
                    return Ok(None);
                },
            }
        }
        let mut known = self.run.clone();
        loop {
            // Before the look, so that an end that comes during it is not missed.
            let watch = known.take().map(|run| self.watch(run));
            let run = self.find().await?;
            if let Some(result) = run.closed.and_then(result) {
                return self.read(result).map(Some);
            }
            known = Some(run.run.clone());
            // A run that was not watched during the look is looked at once more.
            let Some((_, end, snapshot)) = watch.filter(|(of, ..)| *of == run.run) else {
                continue;
            };
            // One of which no hint tells is found by the watch for all.
            tokio::select! {
                biased;
                closed = end => if let Some(result) = closed.ok().and_then(result) {
                    return self.read(result).map(Some);
                },
                is_hint = snapshot.wait(until) => if !is_hint {
                    return Ok(None);
                },
            }
        }
    }
}

impl<O: DeserializeOwned> Handle<O> {
    fn read(&self, result: Result<Payload, Failure>) -> Result<Result<O, Failure>> {
        match result {
            Ok(output) => self.client.core.values.read(Some(&output)).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }
}

/// What became of a question to the code of a run.
pub(super) enum Asked {
    Answered(Payload),
    /// Its code fails at it.
    Refused(Failure),
    /// Its code does not answer questions of this name.
    NotKnown,
    /// No worker of this process has its code.
    NobodyHere,
}

/// Asks the code of `run`, in this process.
pub(super) async fn ask(core: &Core, run: &Run, query: &TypeName, input: Payload) -> Result<Asked> {
    let workers = core.workers();
    let build = run.build.as_ref();
    let knows =
        |worker: &Arc<Shop>| worker.knows(&run.namespace, &run.name) && worker.supports(build);
    let Some(worker) = workers.into_iter().find(knows) else {
        return Ok(Asked::NobodyHere);
    };
    Ok(match worker.answer(run, query, input).await? {
        Some(Ok(answer)) => Asked::Answered(answer),
        Some(Err(failure)) => Asked::Refused(failure),
        None => Asked::NotKnown,
    })
}

/// What an end means to who waits; `None` when it goes on as another run.
fn result(closed: Closed) -> Option<Result<Payload, Failure>> {
    match closed {
        Closed::Completed(output) => Some(Ok(output)),
        Closed::Failed(failure)
        | Closed::Cancelled(failure)
        | Closed::Terminated(failure)
        | Closed::TimedOut(failure) => Some(Err(failure)),
        Closed::ContinuedAsNew(_) => None,
    }
}

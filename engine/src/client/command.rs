//! Commands to a workflow that was started.

use std::future::IntoFuture;
use std::num::NonZeroU32;
use std::pin::Pin;

use coord_core::signals::Detail;
use coord_core::{Error, Result, TraceContext};

use super::{Client, Uncommitted};
use crate::limits::Limit;
use crate::model::{
    Closed, EventKind, Failure, Message, Payload, Record, RequestId, RunId, Timestamp, TypeName,
    events,
};
use crate::signals::Signal;
use crate::store::{CallerTransaction, CommandKind, Deliver, Outcome, Target, Terminate, Write};
use crate::transition::{cancel_message, closing};
use crate::values::encoded;

/// A command to a workflow, sent when it is awaited.
#[must_use = "nothing is sent unless it is awaited"]
pub struct CommandCall {
    client: Client,
    target: Target,
    what: Command,
    request: Option<RequestId>,
}

/// What is asked of the workflow.
pub(super) enum Command {
    Signal(TypeName, Result<Payload>),
    Cancel(String),
    Terminate(Failure),
}

impl CommandCall {
    pub(super) const fn new(client: Client, target: Target, what: Command) -> Self {
        Self {
            client,
            target,
            what,
            request: None,
        }
    }

    /// Carries it out once for `request`, however often it is sent to this workflow. Default: once
    /// for this call.
    pub fn request(mut self, request: RequestId) -> Self {
        self.request = Some(request);
        self
    }

    /// Sends it in a transaction of the caller, a `&mut sqlx::Transaction` on the engine's database:
    /// it is sent exactly if the caller commits. Its workflow must not be changed by others in the
    /// meantime, so it waits, and makes others wait, until the transaction ends.
    ///
    /// MySQL and MariaDB: the session must be at `READ COMMITTED` and in UTC. SQLite: the
    /// transaction should have begun with `BEGIN IMMEDIATE`, or it may lose against another writer.
    ///
    /// # Errors
    /// As when it is awaited. `Contended` and `Unavailable` mean that the whole transaction has to
    /// begin again. `Invalid` also when the transaction is of another kind of database.
    ///
    /// # Cancel safety
    /// Dropped, the transaction should be rolled back.
    pub async fn in_transaction<'t>(
        self,
        transaction: impl Into<CallerTransaction<'t>>,
    ) -> Result<Uncommitted<()>> {
        let transaction = transaction.into();
        let (core, write) = (self.client.core.clone(), self.write().await?);
        let target = self.target;
        let (outcome, told) = core.commit_in(transaction, write).await?;
        report(&outcome, &target);
        reached(outcome, &target)?;
        Ok(Uncommitted::new((), core, told))
    }

    async fn send(self) -> Result<()> {
        let target = self.target.clone();
        reached(self.outcome().await?, &target).map(drop)
    }

    /// Sends it, and says what became of it.
    pub(super) async fn outcome(self) -> Result<Outcome> {
        let core = &self.client.core;
        let outcome = core.commit_known(self.write().await?).await?;
        report(&outcome, &self.target);
        if let (Command::Terminate(failure), Outcome::Done { run, .. }) = (self.what, &outcome) {
            core.wake.ended(run, &Closed::Terminated(failure));
        }
        Ok(outcome)
    }

    async fn write(&self) -> Result<Write> {
        let core = &self.client.core;
        let now = core.now().await?;
        let request = self.request.clone().unwrap_or_else(|| core.ids.request());
        let target = self.target.clone();
        let deliver = |record, kind, at_most| {
            let request = Some((kind, request.clone()));
            Write::Deliver(Box::new(Deliver {
                target: target.clone(),
                record,
                request,
                at_most,
            }))
        };
        Ok(match &self.what {
            Command::Signal(name, value) => {
                let received = events::SignalReceived {
                    name: name.clone(),
                    request: request.clone(),
                    trace: TraceContext::current(),
                };
                let payload = encoded(value)?;
                let kind = EventKind::SignalReceived(received);
                let at_most = NonZeroU32::new(core.values.limits().pending_signals);
                let record = record(kind, Some(payload), now)?;
                deliver(record, CommandKind::Signal, at_most)
            }
            Command::Cancel(reason) => {
                deliver(cancel_message(reason, now)?, CommandKind::Cancel, None)
            }
            Command::Terminate(failure) => {
                let kind = EventKind::Terminated(events::Failed {
                    failure: failure.clone(),
                });
                Write::Terminate(Box::new(Terminate {
                    target,
                    record: record(kind, None, now)?,
                    closing: closing(Closed::Terminated(failure.clone()), now)?,
                    request: Some(request),
                }))
            }
        })
    }
}

fn record(kind: EventKind, payload: Option<Payload>, at: Timestamp) -> Result<Record> {
    let message = Message {
        at,
        step: None,
        kind,
        payload,
    };
    message.record()
}

/// The run that a command has reached.
pub(super) fn reached(outcome: Outcome, target: &Target) -> Result<RunId> {
    let what = named(target);
    match outcome {
        Outcome::Done { run, .. } | Outcome::Repeated { run } => Ok(run),
        Outcome::Full => Err(Error::unavailable(format!(
            "{what} has not received as many signals as may wait for it: send it again when it has"
        ))),
        Outcome::Closed => Err(Error::invalid(format!("{what} has ended"))),
        Outcome::NotFound => Err(Error::invalid(format!("there is no {what} for this"))),
        other => Err(Error::corrupt(format!("{what}: answered {other:?}"))),
    }
}

/// Tells operators of a workflow that does not receive what it is sent.
fn report(outcome: &Outcome, target: &Target) {
    if *outcome == Outcome::Full {
        let (limit, about) = (Limit::PendingSignals, Detail::new(named(target)));
        Signal::LimitExceeded { limit, about }.emit();
    }
}

/// What a message calls it.
fn named(target: &Target) -> String {
    match target {
        Target::Run(run) => format!("run {run}"),
        Target::Current(_, id) => format!("workflow {id}"),
    }
}

impl IntoFuture for CommandCall {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Sends it, durably. A commit whose answer was lost is sent again as it is: it is carried out
    /// once.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow, when it has ended, or when the value is too large.
    /// `Unavailable` when as many signals wait for it as the engine's [`Limits`](crate::Limits)
    /// allow, so that this one was not sent. `Unavailable` or `Timeout` when the database does not answer; to send it again then is safe
    /// with the same [`request`](Self::request).
    ///
    /// # Cancel safety
    /// Dropped, it may have been sent.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

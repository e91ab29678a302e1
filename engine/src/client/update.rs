//! Updates: requests that a workflow answers.

use std::time::Duration;

use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Handle;
use super::handle::PAGE;
use crate::flow::Update;
use crate::model::{Event, EventKind, Failure, Message, RequestId, RunId, events};
use crate::store::{CommandKind, Load};
use crate::wake::{Channel, Snapshot};

impl<O> Handle<O> {
    /// Sends it an update, durably, and waits at most `wait` for the answer: what its code says, or
    /// the failure with which it refuses. `None` when it has not answered by then; it may do so
    /// later.
    ///
    /// A `request` is carried out once, however often it is sent: sent again, it waits for the same
    /// answer.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow, when it has ended, before or without an answer, or
    /// when the input is too large. `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have been sent; to send it again under the same request is safe.
    pub async fn update<I: Serialize, A: DeserializeOwned>(
        &self,
        update: Update<I, A>,
        input: &I,
        request: RequestId,
        wait: Duration,
    ) -> Result<Option<Result<A, Failure>>> {
        let payload = self.client.core.values.encode(input)?;
        let accepted = events::UpdateAccepted {
            name: update.name(),
            request: request.clone(),
        };
        let message = Message {
            at: self.client.core.now().await?,
            step: None,
            kind: EventKind::UpdateAccepted(accepted),
            payload: Some(payload),
        };
        let kind = (CommandKind::Update, request.clone());
        self.deliver(message.record()?, kind).await?;
        self.answer(&request, Instant::now() + wait).await
    }

    async fn answer<A: DeserializeOwned>(
        &self,
        request: &RequestId,
        until: Instant,
    ) -> Result<Option<Result<A, Failure>>> {
        let mut read: Option<(RunId, u64)> = None;
        let mut waiting: Option<(RunId, Snapshot)> = None;
        let wake = &self.client.core.wake;
        loop {
            let run = self.find().await?;
            let after = read
                .filter(|(seen, _)| *seen == run.run)
                .map_or(0, |(_, after)| after);
            let (after, answer) = self.look(&run.run, after, request).await?;
            if let Some(answer) = answer {
                return Ok(Some(match answer {
                    Ok(payload) => Ok(self.client.core.values.read(payload.as_ref())?),
                    Err(failure) => Err(failure),
                }));
            }
            if !run.status.is_open() {
                let message = format!("workflow {} has ended without an answer", self.id());
                return Err(Error::invalid(message));
            }
            read = Some((run.run.clone(), after));
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            if let Some((_, snapshot)) = waiting.take_if(|(of, _)| *of == run.run) {
                snapshot.wait(until.min(now + wake.probe())).await;
            }
            // Before the next look, so that an answer that comes during it is not missed.
            let snapshot = wake.snapshot(&[Channel::run(&run.run)]);
            waiting = Some((run.run, snapshot));
        }
    }

    /// Reads the history of `run` on from `after`: up to where, and the answer if it is there.
    async fn look(
        &self,
        run: &RunId,
        mut after: u64,
        request: &RequestId,
    ) -> Result<(u64, Option<crate::transition::Outcome>)> {
        loop {
            let wanted = Load {
                run: run.clone(),
                after,
                limit: PAGE,
            };
            let loaded = self
                .client
                .core
                .store
                .load(&[wanted])
                .await?
                .runs
                .pop()
                .flatten();
            let page = loaded.map(|run| run.events).unwrap_or_default();
            let is_last = page.len() < PAGE as usize;
            for record in page {
                let event = Event::from_record(record)?;
                after = event.seq;
                match event.kind {
                    EventKind::UpdateCompleted(done) if done.request == *request => {
                        return Ok((after, Some(Ok(event.payload))));
                    }
                    EventKind::UpdateRejected(refused) if refused.request == *request => {
                        return Ok((after, Some(Err(refused.failure))));
                    }
                    _ => {}
                }
            }
            if is_last {
                return Ok((after, None));
            }
        }
    }
}

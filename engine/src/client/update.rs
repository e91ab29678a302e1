//! Updates: requests that a workflow answers.

use std::time::Duration;

use coord_core::{Error, Result, TraceContext};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Handle;
use super::command::reached;
use crate::engine::Core;
use crate::flow::Update;
use crate::model::{
    Event, EventKind, Failure, Message, Payload, RequestId, RunId, TypeName, events,
};
use crate::store::{CommandKind, Deliver, Load, Outcome, Target, Write};
use crate::wake::{Channel, Snapshot};

/// How many events are read at a time.
const PAGE: u32 = 1000;

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
        let core = &self.client.core;
        let payload = core.values.encode(input)?;
        let target = self.target();
        let outcome = send(
            core,
            target.clone(),
            update.name(),
            payload,
            request.clone(),
        )
        .await?;
        reached(outcome, &target)?;
        match answer(core, &target, &request, Instant::now() + wait).await? {
            Answer::Given(Ok(payload)) => Ok(Some(Ok(core.values.read(payload.as_ref())?))),
            Answer::Given(Err(failure)) => Ok(Some(Err(failure))),
            Answer::NotYet => Ok(None),
            Answer::Missing => Err(self.missing()),
            Answer::Ended => {
                let message = format!("workflow {} has ended without an answer", self.id());
                Err(Error::invalid(message))
            }
        }
    }
}

/// What became of the answer to an update that was sent.
pub(super) enum Answer {
    Given(crate::transition::Outcome),
    NotYet,
    /// The workflow has ended without one.
    Ended,
    /// There is no such workflow any more.
    Missing,
}

/// Sends an update, durably.
pub(super) async fn send(
    core: &Core,
    target: Target,
    name: TypeName,
    payload: Payload,
    request: RequestId,
) -> Result<Outcome> {
    let accepted = events::UpdateAccepted {
        name,
        request: request.clone(),
        trace: TraceContext::current(),
    };
    let message = Message {
        at: core.now().await?,
        step: None,
        kind: EventKind::UpdateAccepted(accepted),
        payload: Some(payload),
    };
    let deliver = Deliver {
        target,
        record: message.record()?,
        request: Some((CommandKind::Update, request)),
        at_most: None,
    };
    core.commit_known(Write::Deliver(Box::new(deliver))).await
}

/// Waits until `until` for the answer to the update `request`.
pub(super) async fn answer(
    core: &Core,
    target: &Target,
    request: &RequestId,
    until: Instant,
) -> Result<Answer> {
    let mut read: Option<(RunId, u64)> = None;
    let mut waiting: Option<(RunId, Snapshot)> = None;
    loop {
        let Some(run) = core.store.find(target).await? else {
            return Ok(Answer::Missing);
        };
        let after = read
            .filter(|(seen, _)| *seen == run.run)
            .map_or(0, |(_, after)| after);
        let (after, answer) = look(core, &run.run, after, request).await?;
        if let Some(answer) = answer {
            return Ok(Answer::Given(answer));
        }
        if !run.status.is_open() {
            return Ok(Answer::Ended);
        }
        read = Some((run.run.clone(), after));
        let now = Instant::now();
        if now >= until {
            return Ok(Answer::NotYet);
        }
        if let Some((_, snapshot)) = waiting.take_if(|(of, _)| *of == run.run) {
            snapshot.wait(until.min(now + core.wake.probe())).await;
        }
        // Before the next look, so that an answer that comes during it is not missed.
        let snapshot = core.wake.snapshot(&[Channel::run(&run.run)]);
        waiting = Some((run.run, snapshot));
    }
}

/// Reads the history of `run` on from `after`: up to where, and the answer if it is there.
async fn look(
    core: &Core,
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
        let loaded = core.store.load(&[wanted]).await?.runs.pop().flatten();
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

//! Starting a workflow.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use coord_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Client, Handle};
use crate::flow::encode;
use crate::model::{
    Due, Event, EventKind, Failure, Payload, Priority, Queue, RunId, TypeName, WorkflowId, events,
};
use crate::store::{OnDuplicate, Outcome, Start, Write};

/// A workflow to be started when it is awaited.
#[must_use = "nothing is started unless it is awaited"]
pub struct StartCall<O> {
    client: Client,
    name: TypeName,
    id: WorkflowId,
    input: Result<Payload, Failure>,
    queue: Option<Queue>,
    priority: Priority,
    on_duplicate: OnDuplicate,
    delay: Duration,
    within: Option<Duration>,
    memo: Map<String, Value>,
    output: PhantomData<fn() -> O>,
}

/// A workflow that is there.
pub struct Started<O> {
    /// The way to it.
    pub handle: Handle<O>,
    /// Whether this call created it.
    pub was_created: bool,
}

impl<O> StartCall<O> {
    pub(super) fn new(
        client: Client,
        name: TypeName,
        id: WorkflowId,
        input: &impl Serialize,
    ) -> Self {
        Self {
            client,
            name,
            id,
            input: encode(input),
            queue: None,
            priority: Priority::default(),
            on_duplicate: OnDuplicate::default(),
            delay: Duration::ZERO,
            within: None,
            memo: Map::new(),
            output: PhantomData,
        }
    }

    /// Takes the workflow that is there, open or ended, if the id is in use.
    pub fn or_existing(mut self) -> Self {
        self.on_duplicate = OnDuplicate::ReturnExisting;
        self
    }

    /// Where its tasks wait. Default: the queue of the client.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Which of two due tasks goes first. Default: 5.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long it waits before it begins. Default: not at all.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// How long it may take, with all runs that it continues as. Default: without a bound.
    pub fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self
    }

    /// What describes it to people, in its first event.
    pub fn memo(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.memo.insert(name.into(), value.into());
        self
    }

    async fn send(self) -> Result<Started<O>> {
        let refused = |failure: Failure| Error::invalid(failure.to_string());
        let (core, run) = (&self.client.core, self.client.core.ids.run());
        let now = core.now().await?;
        let queue = self
            .queue
            .clone()
            .unwrap_or_else(|| self.client.queue.clone());
        let started = events::Started {
            name: self.name.clone(),
            workflow: self.id.clone(),
            number: 1,
            queue: queue.clone(),
            priority: self.priority,
            build: None,
            seed: rand::random(),
            parent: None,
            continued_from: None,
            execution_deadline_at: self.within.map(|span| now.plus(span)),
            memo: self.memo,
        };
        let event = Event {
            seq: 1,
            at: now,
            step: None,
            kind: EventKind::Started(started),
            payload: Some(self.input.map_err(refused)?),
        };
        let start = Start {
            namespace: self.client.namespace.clone(),
            workflow: self.id.clone(),
            run: run.clone(),
            number: 1,
            on_duplicate: self.on_duplicate,
            name: self.name,
            queue,
            priority: self.priority,
            build: None,
            parent: None,
            records: vec![event.record()?],
            due: if self.delay.is_zero() {
                Due::Now
            } else {
                Due::After(self.delay)
            },
            lease: None,
        };
        let (run, was_created) =
            commit(&self.client, Write::Start(Box::new(start)), &self.id).await?;
        let handle = Handle::of_run(self.client, self.id, run);
        Ok(Started {
            handle,
            was_created,
        })
    }
}

/// Commits a start. One whose answer was lost is sent again as it is: the same run is created once.
async fn commit(client: &Client, write: Write, id: &WorkflowId) -> Result<(RunId, bool)> {
    let first = client.core.commit(write.clone()).await;
    let outcome = match first {
        Err(error) if error.kind() == ErrorKind::Timeout => client.core.commit(write).await?,
        other => other?,
    };
    match outcome {
        Outcome::Started { run, created } => Ok((run, created)),
        Outcome::Refused { current } => {
            let message = format!("starting {id}: the id is in use, by run {current}");
            Err(Error::invalid(message))
        }
        other => Err(Error::corrupt(format!("starting {id}: answered {other:?}"))),
    }
}

impl<O: 'static> IntoFuture for StartCall<O> {
    type Output = Result<Started<O>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Starts it, durably.
    ///
    /// # Errors
    /// `Invalid` when the id is in use and [`or_existing`](Self::or_existing) was not said, or when
    /// the input is too large or has no JSON form. `Unavailable` or `Timeout` when the database does
    /// not answer; to start it again then is safe with `or_existing`.
    ///
    /// # Cancel safety
    /// Dropped, it may have been started.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

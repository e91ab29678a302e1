//! Starting a workflow.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::trace::{Span, SpanKind};
use coord_core::{Error, Result, TraceContext};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Client, Handle, Uncommitted};
use crate::model::{
    Attributes, BuildId, Due, Event, EventKind, Failure, Fairness, Marks, Payload, Priority, Queue,
    RequestId, Timestamp, TypeName, WorkflowId, events,
};
use crate::store::{CallerTransaction, OnDuplicate, Outcome, Start, Write};
use crate::values::encoded;

/// A workflow to be started when it is awaited.
#[must_use = "nothing is started unless it is awaited"]
pub struct StartCall<O> {
    client: Client,
    name: TypeName,
    id: WorkflowId,
    input: Result<Payload>,
    queue: Option<Queue>,
    priority: Priority,
    fairness: Option<Fairness>,
    on_duplicate: OnDuplicate,
    delay: Duration,
    within: Option<Duration>,
    memo: Map<String, Value>,
    attributes: Attributes,
    request: Option<RequestId>,
    mark: Mark,
    output: PhantomData<fn() -> O>,
}

/// What a run is marked with.
enum Mark {
    /// What its process marks with.
    Own,
    /// This, or nothing.
    Said(Option<BuildId>),
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
        let input = client.core.values.encode(input).map_err(Error::from);
        Self {
            client,
            name,
            id,
            input,
            queue: None,
            priority: Priority::default(),
            fairness: None,
            on_duplicate: OnDuplicate::default(),
            delay: Duration::ZERO,
            within: None,
            memo: Map::new(),
            attributes: Attributes::new(),
            request: None,
            mark: Mark::Own,
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

    /// Whose share of a queue its tasks count against, and those of its children: a tenant's, say.
    /// Default: nobody's, so that they share as one with all others without a key.
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.fairness = Some(fairness);
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

    /// What it is found by, until its code says otherwise.
    pub fn search_attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = attributes;
        self
    }

    /// What describes it to people, until its code says otherwise.
    pub fn memo(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.memo.insert(name.into(), value.into());
        self
    }

    /// Pins it to `build`: only workers that support that go on with it, and with its children.
    /// Default: the promoted build of the namespace, or else the current one of this process.
    pub fn build(mut self, build: BuildId) -> Self {
        self.mark = Mark::Said(Some(build));
        self
    }

    /// Lets any worker go on with it, of whatever build: it follows each deploy at once, so its code
    /// must stay able to follow its history.
    pub fn any_build(mut self) -> Self {
        self.mark = Mark::Said(None);
        self
    }

    /// Starts it once for `request`, however often it is asked for under this id: asked for again,
    /// it is answered as the first time. Default: once for this call.
    pub fn request(mut self, request: RequestId) -> Self {
        self.request = Some(request);
        self
    }

    /// Starts it in a transaction of the caller, a `&mut sqlx::Transaction` on the engine's
    /// database: it is there exactly if the caller commits. Others who start the same id wait until
    /// the transaction ends.
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
    ) -> Result<Uncommitted<Started<O>>> {
        let transaction = transaction.into();
        let core = Arc::clone(&self.client.core);
        let start = self.start(core.now().await?, core.mark(&self.client.namespace).await?)?;
        core.admit(&start).await?;
        let write = Write::Start(Box::new(start));
        let (outcome, told) = core.commit_in(transaction, write).await?;
        Ok(Uncommitted::new(self.started(outcome)?, core, told))
    }

    async fn send(self) -> Result<Started<O>> {
        let core = Arc::clone(&self.client.core);
        let mut start = self.start(core.now().await?, core.mark(&self.client.namespace).await?)?;
        core.admit(&start).await?;
        let Some(eager) = core.lease_start(&mut start) else {
            let outcome = core.commit_known(Write::Start(Box::new(start))).await?;
            return self.started(outcome);
        };
        // Before the commit, so that no end is missed and nobody has to look for it.
        let end = core.wake.expect_end_of(&start.run);
        let mut started = self.started(eager.commit().await?)?;
        if started.handle.run() == Some(&start.run) {
            started.handle.expect(end);
        }
        Ok(started)
    }

    /// The run that is asked for, marked with `own` unless it was said otherwise.
    pub(super) fn start(&self, now: Timestamp, own: Option<BuildId>) -> Result<Start> {
        let build = match &self.mark {
            Mark::Own => own,
            Mark::Said(build) => build.clone(),
        };
        let input = encoded(&self.input)?;
        let values = &self.client.core.values;
        let unfit = |failure: Failure| Error::invalid(format!("starting {}: {failure}", self.id));
        values.check_memo(&self.memo).map_err(unfit)?;
        values.check_attributes(&self.attributes).map_err(unfit)?;
        let queue = self.queue.as_ref().unwrap_or(&self.client.queue).clone();
        let started = events::Started {
            name: self.name.clone(),
            workflow: self.id.clone(),
            number: 1,
            queue: queue.clone(),
            priority: self.priority,
            fairness: self.fairness.clone(),
            build: build.clone(),
            seed: rand::random(),
            parent: None,
            continued_from: None,
            occurrence: None,
            execution_deadline_at: self.within.map(|span| now.plus(span)),
            memo: self.memo.clone(),
            attributes: self.attributes.clone(),
            trace: trace_of(&self.name),
        };
        let marks = Marks::of_start(&self.attributes, &self.memo);
        let event = Event {
            seq: 1,
            at: now,
            step: None,
            kind: EventKind::Started(started),
            payload: Some(input),
        };
        Ok(Start {
            namespace: self.client.namespace.clone(),
            workflow: self.id.clone(),
            run: self.client.core.ids.run(),
            number: 1,
            on_duplicate: self.on_duplicate,
            name: self.name.clone(),
            queue,
            priority: self.priority,
            fairness: self.fairness.clone(),
            build,
            parent: None,
            records: vec![event.record()?],
            due: if self.delay.is_zero() {
                Due::Now
            } else {
                Due::After(self.delay)
            },
            lease: None,
            request: self.request.clone(),
            marks,
        })
    }

    /// What became of it.
    pub(super) fn started(self, outcome: Outcome) -> Result<Started<O>> {
        let id = self.id;
        match outcome {
            Outcome::Started { run, created } => Ok(Started {
                handle: Handle::of_run(self.client, id, run),
                was_created: created,
            }),
            Outcome::Refused { current } => {
                let message = format!("starting {id}: the id is in use, by run {current}");
                Err(Error::invalid(message))
            }
            other => Err(Error::corrupt(format!("starting {id}: answered {other:?}"))),
        }
    }
}

/// The trace of who starts it, or one that begins with it.
fn trace_of(name: &TypeName) -> Option<TraceContext> {
    let begun = || {
        let span = Span::root(SpanKind::Producer, format_args!("start {name}"));
        span.context().cloned()
    };
    TraceContext::current().or_else(begun)
}

impl<O: 'static> IntoFuture for StartCall<O> {
    type Output = Result<Started<O>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Starts it, durably.
    ///
    /// # Errors
    /// `Invalid` when the id is in use and [`or_existing`](Self::or_existing) was not said, or when
    /// the input, the memo or the search attributes are too large, or the input has no JSON form.
    /// `Unavailable` or `Timeout` when the database does not answer, `Unavailable` also when no live
    /// worker of its queue supports its build and that is to be
    /// [refused](crate::compatibility::FleetValidation::Fail); to start it again then is safe with
    /// `or_existing`, or with the same
    /// [`request`](Self::request).
    ///
    /// # Cancel safety
    /// Dropped, it may have been started.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

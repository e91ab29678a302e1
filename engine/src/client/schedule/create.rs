//! Creating a schedule.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use coord_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Client;
use crate::flow::Workflow;
use crate::model::{
    Action, Fairness, Overlap, Priority, Queue, Schedule, ScheduleId, Timestamp, When,
};
use crate::schedule::{unexpected, write};
use crate::store::{Outcome, ScheduleKey};
use crate::transition::schedule::{create, pause};

/// A schedule to be created when it is awaited.
#[must_use = "nothing is created unless it is awaited"]
pub struct CreateSchedule {
    client: Client,
    id: ScheduleId,
    schedule: Result<Schedule>,
    paused: Option<String>,
}

impl CreateSchedule {
    pub(super) fn new<I: Serialize, O>(
        client: Client,
        id: ScheduleId,
        when: When,
        workflow: Workflow<I, O>,
        input: &I,
    ) -> Self {
        let queue = client.queue.clone();
        let input = client.core.values.encode(input).map_err(Error::from);
        let schedule = input.map(|input| {
            let action = Action {
                name: workflow.name(),
                queue,
                priority: Priority::default(),
                fairness: None,
                within: None,
                memo: Map::new(),
                input,
            };
            Schedule::new(when, action)
        });
        Self {
            client,
            id,
            schedule,
            paused: None,
        }
    }

    pub(in super::super) const fn of(client: Client, id: ScheduleId, schedule: Schedule) -> Self {
        Self {
            client,
            id,
            schedule: Ok(schedule),
            paused: None,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Schedule)) -> Self {
        if let Ok(schedule) = &mut self.schedule {
            change(schedule);
        }
        self
    }

    /// What happens when a workflow that it started is still open. Default: the occurrence is
    /// skipped.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.with(|schedule| schedule.overlap = overlap)
    }

    /// How late an occurrence may still fire. Default: an hour.
    pub fn catch_up(self, window: Duration) -> Self {
        self.with(|schedule| schedule.catch_up = window)
    }

    /// Up to how much later than it is due an occurrence fires, so that not all schedules fire at
    /// once. Default: not at all.
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|schedule| schedule.jitter = most)
    }

    /// No occurrence before this instant. Default: none before it was created.
    pub fn from(self, from: Timestamp) -> Self {
        self.with(|schedule| schedule.from = Some(from))
    }

    /// No occurrence at or after this instant. Default: without an end.
    pub fn until(self, until: Timestamp) -> Self {
        self.with(|schedule| schedule.until = Some(until))
    }

    /// How often it fires by itself. Default: without a bound.
    pub fn limit(self, fires: u64) -> Self {
        self.with(|schedule| schedule.limit = Some(fires))
    }

    /// Where the tasks of its workflows wait. Default: the queue of the client.
    pub fn queue(self, queue: Queue) -> Self {
        self.with(|schedule| schedule.action.queue = queue)
    }

    /// Which of two due tasks goes first. Default: 5.
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|schedule| schedule.action.priority = priority)
    }

    /// Whose share of the queue the tasks of its workflows count against. Default: nobody's.
    pub fn fairness(self, fairness: Fairness) -> Self {
        self.with(|schedule| schedule.action.fairness = Some(fairness))
    }

    /// How long a workflow may take, with all runs that it continues as. Default: without a bound.
    pub fn within(self, span: Duration) -> Self {
        self.with(|schedule| schedule.action.within = Some(span))
    }

    /// What describes its workflows to people.
    pub fn memo(self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(|schedule| _ = schedule.action.memo.insert(name.into(), value.into()))
    }

    /// Created so, it fires nothing by itself until it is resumed; `note` says why.
    pub fn paused(mut self, note: impl Into<String>) -> Self {
        self.paused = Some(note.into());
        self
    }

    async fn send(self) -> Result<()> {
        let core = &self.client.core;
        let schedule = self.schedule?;
        let unfit = |failure| Error::invalid(format!("creating {}: {failure}", self.id));
        let memo = &schedule.action.memo;
        core.values.check_memo(memo).map_err(unfit)?;
        let key = ScheduleKey {
            namespace: self.client.namespace.clone(),
            id: self.id,
        };
        let now = core.store.load(&[]).await?.now;
        let (namespace, id) = (key.namespace.clone(), key.id.clone());
        let mut plan = create(namespace, id, schedule.clone(), now)?;
        if let Some(note) = &self.paused {
            plan = pause(plan.record, note, now)?;
        }
        let write = write(core, &plan, now).await?;
        let taken = || Error::invalid(format!("creating {}: the id is in use", key.id));
        match core.commit(write.clone()).await {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Ok(Outcome::Scheduled { .. }) => return Ok(()),
            Ok(Outcome::Stale) => return Err(taken()),
            Ok(other) => return Err(unexpected(&other)),
            Err(error) => return Err(error),
        }
        match core.commit(write).await? {
            Outcome::Scheduled { .. } => Ok(()),
            Outcome::Stale => {
                // Ours, if it is what we have sent.
                let stored = core.store.describe_schedule(&key).await?;
                let is_ours = stored.is_some_and(|it| it.record.schedule == schedule);
                if is_ours { Ok(()) } else { Err(taken()) }
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl IntoFuture for CreateSchedule {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Creates it, durably.
    ///
    /// # Errors
    /// `Invalid` when the id is in use or has more than 200 bytes, when the cron expression cannot
    /// be read or never comes true, when the zone is not known, when the interval is outside of 1 s
    /// to 366 days, when the input or the memo is too large, or when the input has no JSON form. `Unavailable` or `Timeout` when the database
    /// does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have been created.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

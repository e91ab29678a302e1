//! Schedules: workflows that start again and again.

mod create;

use std::time::Duration;

use coord_core::{Backoff, Error, ErrorKind, Result};
use serde::Serialize;

use super::Client;
use crate::flow::Workflow;
use crate::model::{Overlap, Schedule, ScheduleId, ScheduleRecord, Timestamp, When, WorkflowId};
use crate::schedule::{emit, unexpected, write};
use crate::store::{Outcome, ScheduleDescription, ScheduleKey, Write};
use crate::transition::schedule::{Plan, backfill, pause, resume, trigger, update};

pub use create::CreateSchedule;

/// How often a change is tried again that others were faster with.
const TRIES: u32 = 20;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(200));

/// A schedule, whether it exists or not.
///
/// At each of its occurrences a schedule starts a workflow whose id is made of the schedule and the
/// occurrence, in the same transaction that notes that it did. So an occurrence fires once, whoever
/// fires it and whenever that process dies. The instants are those of the database's clock; some
/// process with an [`Engine`](crate::Engine) must live for them to be noticed, at most a second
/// late. What nobody was there to fire is made up within the schedule's catch-up window, and counted
/// as missed beyond it.
///
/// Every change compares the schedule with what was read, and is decided anew when a fire or another
/// caller came in between.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use coord_engine::client::Triggered;
/// use coord_engine::flow::{Context, Workflow};
/// use coord_engine::model::{Failure, Namespace, Overlap, Queue, ScheduleId, When};
/// use coord_engine::{Engine, store::Sqlite};
///
/// const REPORT: Workflow<String, String> = Workflow::new("shop.report");
///
/// async fn report(ctx: Context, shop: String) -> Result<String, Failure> {
///     // The instant that the report is about, also when it is made up later.
///     let day = ctx.occurrence().map(|occurrence| occurrence.at);
///     Ok(format!("{shop} at {day:?}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), coord_core::Error> {
/// let (namespace, queue) = (Namespace::default(), Queue::default());
/// let engine = Engine::start(Sqlite::memory()).await?;
/// let _worker = engine.worker(namespace.clone(), queue.clone()).workflow(REPORT, report).start();
/// let client = engine.client(namespace, queue);
///
/// let nightly = client.schedule(ScheduleId::new("nightly")?);
/// nightly
///     .create(When::cron("0 3 * * *", "Europe/Berlin"), REPORT, &"corner".to_owned())
///     .overlap(Overlap::BufferOne)
///     .jitter(Duration::from_secs(60))
///     .await?;
///
/// let Triggered::Started(workflow) = nightly.trigger().await? else { panic!("none is open") };
/// let report = client.handle(REPORT, workflow).result(Duration::from_secs(60)).await?;
/// assert!(report.is_some_and(|report| report.is_ok()));
///
/// nightly.pause("holidays").await?;
/// let described = nightly.describe().await?.expect("it is there");
/// assert!(described.record.state.paused);
/// assert_eq!(described.fires.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct ScheduleHandle {
    client: Client,
    id: ScheduleId,
}

/// What became of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Triggered {
    /// It started this workflow.
    Started(WorkflowId),
    /// This workflow starts when those that are open have ended.
    Waits(WorkflowId),
    /// A workflow is open, and the schedule's policy lets nothing start or wait.
    Skipped,
}

impl ScheduleHandle {
    pub(super) const fn new(client: Client, id: ScheduleId) -> Self {
        Self { client, id }
    }

    /// The id of the schedule.
    pub const fn id(&self) -> &ScheduleId {
        &self.id
    }

    /// Creates it, once it is awaited: at each occurrence of `when` it starts `workflow` with
    /// `input`. The workflow's id is that of the schedule and the occurrence,
    /// `nightly@2030-03-31T01:00:00Z`.
    pub fn create<I: Serialize, O>(
        &self,
        when: When,
        workflow: Workflow<I, O>,
        input: &I,
    ) -> CreateSchedule {
        CreateSchedule::new(self.client.clone(), self.id.clone(), when, workflow, input)
    }

    /// Where it stands, and what it did last; `None` when there is no such schedule.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when the schedule
    /// does not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn describe(&self) -> Result<Option<ScheduleDescription>> {
        self.client.core.store.describe_schedule(&self.key()).await
    }

    /// Lets nothing fire by itself until it is resumed; `note` says why. What has fired goes on,
    /// what is buffered waits, and triggers and backfills work as always.
    ///
    /// # Errors
    /// `Invalid` when there is no such schedule. `Contended` when it changes all the time;
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have happened; to do it again is safe.
    pub async fn pause(&self, note: &str) -> Result<()> {
        let paused = self.change(|record, now| pause(record, note, now));
        paused.await.map(drop)
    }

    /// Lets it fire by itself again, from its next occurrence on; those of the pause are not made
    /// up. See [`backfill`](Self::backfill) for that.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, note: &str) -> Result<()> {
        let resumed = self.change(|record, now| resume(record, note, now));
        resumed.await.map(drop)
    }

    /// Fires it now, by its policy for open workflows, as an occurrence at this instant.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropped, it may have fired.
    pub async fn trigger(&self) -> Result<Triggered> {
        // Once it may have happened, it is the same occurrence, and so the same workflow.
        let mut chosen = None;
        let plan = self.change(|record, now| {
            let at = *chosen.get_or_insert_with(|| instant(&record, now));
            trigger(record, at, now)
        });
        let plan = plan.await?;
        let at = plan.record.state.triggered;
        let state = &plan.record.state;
        Ok(if state.running.contains(&at) {
            Triggered::Started(plan.record.workflow(at)?)
        } else if state.buffered.iter().any(|it| it.at == at) {
            Triggered::Waits(plan.record.workflow(at)?)
        } else {
            Triggered::Skipped
        })
    }

    /// Fires the occurrences from `from` until before `until`, as far as they are past, by the
    /// policy `overlap`: a hundred at a time, or with [`Overlap::BufferAll`] each after the one
    /// before has ended. Bounds, limit and pause do not matter to it. An occurrence that has fired
    /// before does not fire again.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropped, it may have happened; to do it again is safe.
    pub async fn backfill(
        &self,
        from: Timestamp,
        until: Timestamp,
        overlap: Overlap,
    ) -> Result<()> {
        let filled = self.change(|record, now| backfill(record, (from, until), overlap, now));
        filled.await.map(drop)
    }

    /// Gives it another definition, if it still has the definition number `version`, as
    /// [`describe`](Self::describe) has it. Whether it had.
    ///
    /// What was due by the old definition fires. A new limit counts from here on.
    ///
    /// # Errors
    /// `Invalid` also when the new definition has no occurrences that can be.
    /// Otherwise as [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropped, it may have happened.
    pub async fn update(&self, version: u64, schedule: &Schedule) -> Result<bool> {
        schedule.when.calendar()?;
        let unfit = |failure| Error::invalid(format!("updating {}: {failure}", self.id));
        let memo = &schedule.action.memo;
        self.client.core.values.check_memo(memo).map_err(unfit)?;
        let mut is_unsure = false;
        let mut is_ours = false;
        let changed = self.change(|record, now| {
            if record.state.version != version {
                is_ours = is_unsure
                    && record.state.version == version + 1
                    && record.schedule == *schedule;
                return Err(Error::new(
                    ErrorKind::Lost,
                    "updating a schedule: it has changed",
                ));
            }
            is_unsure = true;
            update(record, schedule.clone(), now)
        });
        match changed.await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Lost => Ok(is_ours),
            Err(error) => Err(error),
        }
    }

    /// Deletes it, with the history of its fires. The workflows that it has started go on. Whether
    /// there was one.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have happened; to do it again is safe.
    pub async fn delete(&self) -> Result<bool> {
        match self
            .client
            .core
            .commit(Write::Unschedule(self.key()))
            .await?
        {
            Outcome::Scheduled { .. } => Ok(true),
            Outcome::NotFound => Ok(false),
            other => Err(unexpected(&other)),
        }
    }

    fn key(&self) -> ScheduleKey {
        ScheduleKey {
            namespace: self.client.namespace.clone(),
            id: self.id.clone(),
        }
    }

    /// Carries out what `decide` makes of the schedule.
    async fn change(
        &self,
        mut decide: impl FnMut(ScheduleRecord, Timestamp) -> Result<Plan>,
    ) -> Result<Plan> {
        let core = &self.client.core;
        let missing = || Error::invalid(format!("there is no schedule {}", self.id));
        for attempt in 0..TRIES {
            let described = self.describe().await?.ok_or_else(missing)?;
            let plan = decide(described.record, described.now)?;
            match core.commit(write(core, &plan, described.now).await?).await {
                Ok(Outcome::Scheduled { .. }) => {
                    emit(&plan);
                    return Ok(plan);
                }
                Ok(Outcome::Stale) => {}
                Ok(Outcome::NotFound) => return Err(missing()),
                Ok(other) => return Err(unexpected(&other)),
                // What is decided twice is what was decided once: see each of the changes.
                Err(error) if error.kind() == ErrorKind::Timeout && attempt == 0 => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(BACKOFF.jittered(attempt)).await;
        }
        let message = format!("changing schedule {}: others were faster", self.id);
        Err(Error::contended(message))
    }
}

/// The instant of a trigger at `now`: in whole milliseconds, and of its own.
fn instant(record: &ScheduleRecord, now: Timestamp) -> Timestamp {
    let whole = Timestamp::from_micros(now.as_micros() / 1000 * 1000);
    whole.max(record.state.triggered.plus(Duration::from_millis(1)))
}

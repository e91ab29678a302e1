//! A batch of writes as one transaction: name, lock, read, decide, write.
//!
//! What a write does to the rows is decided here, on plain values, once for every dialect. A
//! dialect implements [`Tables`]: it locks, reads and writes rows in bulk, and knows nothing else.
//! The number of statements does not grow with the batch.
//!
//! # Order of locks
//! Schedules, then names of new instances, then runs, then tasks, each in ascending order. What tells which runs are
//! meant (the current run of an instance, the children of a run that closes) is read before the
//! locks and again after them; when it has changed in between, the transaction begins again.

#[cfg(any(feature = "sqlite", feature = "mysql"))]
pub(super) mod appends;
mod asked;
mod decide;
mod mend;
#[cfg(feature = "postgres")]
pub(super) mod plain;
mod schedule;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Result};

use super::rows::{
    AttemptRow, AttributeRow, CommandRow, FireRow, InstanceRow, KinRow, MemoRow, RecordRow,
    RevisionRow, RunRow, ScheduleRow, TaskRow, TipRow,
};
use super::{Applied, Write, answers};
use crate::model::Timestamp;
use crate::signals::Signal;
use asked::Asked;
use state::State;

pub(super) use schedule::KEPT_FIRES;

/// A call of a transaction, whose future may move between threads.
macro_rules! async_fn {
    ($(#[$about:meta])* $name:ident($($argument:ident: $Type:ty),*) -> $Reply:ty) => {
        $(#[$about])*
        fn $name(&mut self, $($argument: $Type),*) -> impl Future<Output = Result<$Reply>> + Send;
    };
}
/// One transaction of a dialect. Dropped, it leaves nothing.
///
/// Every list of ids comes in ascending order and without repetitions, and is not empty.
pub(super) trait Tables: Send {
    /// Whether nobody else changes anything from its beginning to its end, so that what was read
    /// once need not be read again.
    const IS_ALONE: bool = false;

    async_fn! {
        /// Locks schedules in their order and reads their revisions.
        lock_schedules(schedules: &[(String, String)]) -> Vec<RevisionRow>
    }
    async_fn! {
        /// Creates the instances that are not there, with `current_run_id` as given.
        name_instances(instances: &[InstanceRow]) -> ()
    }
    async_fn! {
        /// Those of the instances that are there.
        read_instances(instances: &[(String, String)]) -> Vec<InstanceRow>
    }
    async_fn! {
        /// The open children of runs, and their parents.
        read_kin(runs: &[String]) -> Vec<KinRow>
    }
    async_fn! {
        /// Locks runs in their order and reads them.
        lock_runs(runs: &[String]) -> Vec<RunRow>
    }
    async_fn! {
        /// Locks these tasks, and all tasks of these runs, in the order of their ids, and reads them
        /// and the clock after the last lock.
        lock_tasks(tasks: &[String], of_runs: &[String]) -> (i64, Vec<TaskRow>)
    }
    async_fn! {
        /// How far runs are, without locking them.
        read_tips(runs: &[String]) -> Vec<TipRow>
    }
    async_fn! {
        /// Those of the commands that were carried out; `run_id` of the question means nothing.
        read_commands(commands: &[CommandRow]) -> Vec<CommandRow>
    }
    async_fn! {
        /// Writes what was decided.
        write(changes: &Changes) -> ()
    }
    /// Commits.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;
}

/// What a batch does to the tables, in the order in which it is to be written.
#[derive(Default, Debug)]
pub(super) struct Changes {
    /// Instances that were named and not used after all.
    pub(super) unnamed: Vec<InstanceRow>,
    /// Instances that have another current run.
    pub(super) current: Vec<InstanceRow>,
    /// Runs, new or changed.
    pub(super) runs: Vec<RunRow>,
    /// Events. One that is there already is skipped.
    pub(super) history: Vec<RecordRow>,
    /// Messages.
    pub(super) inbox: Vec<RecordRow>,
    /// Messages that go: of a run, those up to a place.
    pub(super) taken: Vec<(String, i64)>,
    /// Messages that stay when a run continues: from a run, to a run.
    pub(super) moved: Vec<(String, String)>,
    /// Tasks, new or changed.
    pub(super) tasks: Vec<TaskRow>,
    /// Tasks that were locked and stay as they are. A claim in the meantime has passed them by.
    pub(super) locked: Vec<TaskRow>,
    /// Tasks that go.
    pub(super) gone: Vec<String>,
    /// Attempts that did not succeed.
    pub(super) attempts: Vec<AttemptRow>,
    /// Search attributes of runs, all that each has: those that are there go first.
    pub(super) attributes: BTreeMap<String, Vec<AttributeRow>>,
    /// What describes runs, new or changed.
    pub(super) memos: BTreeMap<String, MemoRow>,
    /// Commands that were carried out.
    pub(super) commands: Vec<CommandRow>,
    /// Schedules that go, with their fires.
    pub(super) unscheduled: Vec<(String, String)>,
    /// Schedules that are new. One that is there already is a conflict.
    pub(super) new_schedules: Vec<ScheduleRow>,
    /// Schedules that have changed.
    pub(super) schedules: Vec<ScheduleRow>,
    /// Occurrences that fired. One that is there already is skipped.
    pub(super) fires: Vec<FireRow>,
    /// Fires that go: of a schedule, those up to a number.
    pub(super) old_fires: Vec<(String, String, i64)>,
}

impl Changes {
    /// The runs whose search attributes change.
    pub(super) fn attributed(&self) -> Vec<&str> {
        self.attributes.keys().map(String::as_str).collect()
    }

    /// Their rows.
    pub(super) fn attribute_rows(&self) -> Vec<&AttributeRow> {
        self.attributes.values().flatten().collect()
    }

    /// The rows of memos.
    pub(super) fn memo_rows(&self) -> Vec<&MemoRow> {
        self.memos.values().collect()
    }
}

/// How often a transaction that lost a conflict is begun again before the caller hears of it.
const TRIES: u32 = 6;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// How long one try may take. A lock is waited for at most five seconds, and so is a connection;
/// whoever waits longer waits for a server that no longer answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Carries out `call`, again when the database chose it to end a conflict.
///
/// # Errors
/// Those of `call`, and `Timeout` when the database does not answer at all.
pub(super) async fn retry<T, F>(mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut attempt = 0;
    loop {
        let silent = || Error::timeout("calling the database: no answer");
        let answer = tokio::time::timeout(PATIENCE, call()).await;
        match answer.unwrap_or_else(|_| Err(silent())) {
            Err(error) if error.kind() == ErrorKind::Contended && attempt + 1 < TRIES => {
                let error = Detail::error(&error);
                Signal::StoreContended { error }.emit();
                tokio::time::sleep(BACKOFF.jittered(attempt)).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Carries out `writes` in the transaction `tables` and commits it.
///
/// # Errors
/// `Contended` when the runs that are meant changed under it; and those of the dialect.
pub(super) async fn apply<T: Tables>(mut tables: T, writes: &[Write]) -> Result<Applied> {
    let asked = Asked::of(writes);
    let state = prepare(&mut tables, &asked, writes).await?;
    let now = Timestamp::from_micros(state.now);
    let (outcomes, changes) = decide::decide(state, writes)?;
    tables.write(&changes).await?;
    tables.commit().await?;
    Ok(Applied {
        now,
        outcomes,
        ready: answers::ready(changes.tasks.iter().chain(&changes.locked))?,
    })
}

/// Locks and reads all that `writes` are about.
async fn prepare<T: Tables>(tables: &mut T, asked: &Asked, writes: &[Write]) -> Result<State> {
    let schedules = asked.schedules();
    let revisions = match schedules.as_slice() {
        [] => Vec::new(),
        schedules => tables.lock_schedules(schedules).await?,
    };
    let named = asked.instances_to_name();
    if !named.is_empty() {
        tables.name_instances(&named).await?;
    }
    let pairs = asked.instances();
    let instances = instances(tables, &pairs).await?;
    if instances.len() < named.len() {
        // A name that was there when it was given went before it was read.
        return Err(Error::contended(
            "applying writes: an instance has just gone",
        ));
    }
    let closing = asked.closing(&instances);
    let kin = kin(tables, &closing).await?;
    let runs = asked.runs(&instances, &kin);
    let rows = match runs.as_slice() {
        [] => Vec::new(),
        runs => tables.lock_runs(runs).await?,
    };
    if !T::IS_ALONE && (asked.names_current_runs() || !closing.is_empty()) {
        let again = self::instances(tables, &pairs).await?;
        let same = asked.closing(&again) == closing
            && asked.runs(&again, &self::kin(tables, &closing).await?) == runs;
        if !same {
            return Err(Error::contended(
                "applying writes: the runs meant have changed",
            ));
        }
    }
    let tasks = asked.tasks(&rows);
    let whole = asked.whole(&closing, &instances);
    let (now, tasks) = tables.lock_tasks(&tasks, &whole).await?;
    let mut state = State::new(now, instances, rows, tasks);
    state.add_revisions(revisions);
    let tips = state.tips_wanted(writes);
    if !tips.is_empty() {
        state.add_tips(tables.read_tips(&tips).await?);
    }
    let commands = state.commands_wanted(writes);
    if !commands.is_empty() {
        state.add_commands(tables.read_commands(&commands).await?);
    }
    Ok(state)
}

async fn instances(
    tables: &mut impl Tables,
    pairs: &[(String, String)],
) -> Result<Vec<InstanceRow>> {
    match pairs {
        [] => Ok(Vec::new()),
        pairs => tables.read_instances(pairs).await,
    }
}

async fn kin(tables: &mut impl Tables, closing: &[String]) -> Result<Vec<KinRow>> {
    match closing {
        [] => Ok(Vec::new()),
        runs => tables.read_kin(runs).await,
    }
}

//! A batch of writes.

use coord_core::{Error, Result};
use serde::Serialize;
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};
use sqlx::{Connection, FromRow, Sqlite};

use super::super::batch::{Changes, Tables};
use super::super::rows::{CommandRow, InstanceRow, KinRow, RevisionRow, RunRow, TaskRow, TipRow};
use super::error::{at, at_commit};
use super::{schedule, sql};

pub(super) const WHAT: &str = "applying writes";

/// A transaction that has the write lock: nobody else changes anything until it ends.
pub(super) struct Transaction<'c>(sqlx::Transaction<'c, Sqlite>);

/// Changes nothing, and takes the write lock of a transaction that has none yet.
const LOCK: &str = "UPDATE engine_roles SET term = term WHERE false";

impl<'c> Transaction<'c> {
    pub(super) async fn begin(pool: &SqlitePool) -> Result<Transaction<'static>> {
        let begun = super::begin(pool).await;
        begun.map(Transaction).map_err(at(WHAT))
    }

    /// A savepoint in the transaction of a caller: what fails leaves nothing in it.
    pub(super) async fn within(connection: &'c mut SqliteConnection) -> Result<Self> {
        let mut inner = connection.begin().await.map_err(at(WHAT))?;
        let locked = sqlx::query(LOCK).execute(&mut *inner).await;
        locked.map_err(at(WHAT))?;
        Ok(Self(inner))
    }

    pub(super) async fn read<T>(
        &mut self,
        sql: &'static str,
        rows: &(impl Serialize + ?Sized),
    ) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let read = sqlx::query_as(sql).bind(json(rows)?);
        read.fetch_all(&mut *self.0).await.map_err(at(WHAT))
    }

    /// Writes `rows`, if there are any.
    pub(super) async fn put<T: Serialize>(&mut self, sql: &'static str, rows: &[T]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = sqlx::query(sql).bind(json(rows)?).execute(&mut *self.0);
        written.await.map(drop).map_err(at(WHAT))
    }
}

impl Tables for Transaction<'_> {
    const IS_ALONE: bool = true;

    async fn lock_schedules(&mut self, schedules: &[(String, String)]) -> Result<Vec<RevisionRow>> {
        schedule::lock(self, schedules).await
    }

    async fn name_instances(&mut self, instances: &[InstanceRow]) -> Result<()> {
        self.put(sql::NAME_INSTANCES, instances).await
    }

    async fn read_instances(&mut self, instances: &[(String, String)]) -> Result<Vec<InstanceRow>> {
        self.read(sql::READ_INSTANCES, instances).await
    }

    async fn read_kin(&mut self, runs: &[String]) -> Result<Vec<KinRow>> {
        self.read(sql::READ_KIN, runs).await
    }

    async fn lock_runs(&mut self, runs: &[String]) -> Result<Vec<RunRow>> {
        self.read(sql::LOCK_RUNS, runs).await
    }

    async fn lock_tasks(
        &mut self,
        tasks: &[String],
        of_runs: &[String],
    ) -> Result<(i64, Vec<TaskRow>)> {
        let rows = sqlx::query_as(sql::LOCK_TASKS)
            .bind(json(tasks)?)
            .bind(json(of_runs)?)
            .fetch_all(&mut *self.0);
        let rows = rows.await.map_err(at(WHAT))?;
        let now = sqlx::query_scalar(sql::CLOCK).fetch_one(&mut *self.0);
        Ok((now.await.map_err(at(WHAT))?, rows))
    }

    async fn read_tips(&mut self, runs: &[String]) -> Result<Vec<TipRow>> {
        self.read(sql::READ_TIPS, runs).await
    }

    async fn read_commands(&mut self, commands: &[CommandRow]) -> Result<Vec<CommandRow>> {
        self.read(sql::READ_COMMANDS, commands).await
    }

    async fn write(&mut self, changes: &Changes) -> Result<()> {
        self.put(sql::DROP_INSTANCES, &changes.unnamed).await?;
        self.put(sql::PUT_INSTANCES, &changes.current).await?;
        self.put(sql::PUT_RUNS, &changes.runs).await?;
        self.put(sql::ADD_HISTORY, &changes.history).await?;
        self.put(sql::ADD_INBOX, &changes.inbox).await?;
        self.put(sql::TAKE_INBOX, &changes.taken).await?;
        self.put(sql::MOVE_INBOX, &changes.moved).await?;
        self.put(sql::PUT_TASKS, &changes.tasks).await?;
        self.put(sql::DROP_TASKS, &changes.gone).await?;
        self.put(sql::ADD_ATTEMPTS, &changes.attempts).await?;
        self.put(sql::DROP_ATTRIBUTES, &changes.attributed())
            .await?;
        self.put(sql::ADD_ATTRIBUTES, &changes.attribute_rows())
            .await?;
        self.put(sql::PUT_MEMOS, &changes.memo_rows()).await?;
        self.put(sql::ADD_COMMANDS, &changes.commands).await?;
        schedule::write(self, changes).await
    }

    async fn commit(self) -> Result<()> {
        self.0.commit().await.map_err(at_commit(WHAT))
    }
}

/// `rows` as a statement takes them.
pub(super) fn json(rows: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(rows).map_err(|error| Error::invalid("encoding rows").with_source(error))
}

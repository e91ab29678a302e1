//! A batch of writes.

use coord_core::{Error, Result};
use serde::Serialize;
use sqlx::FromRow;
use sqlx::mysql::MySqlRow;

use super::super::batch::{Changes, Tables};
use super::super::begin::begin;
use super::super::rows::{CommandRow, InstanceRow, KinRow, RevisionRow, RunRow, TaskRow, TipRow};
use super::dialect::Dialect;
use super::error::{at, at_commit, is_locked};
use super::{Mysql, schedule, sql};

pub(super) const WHAT: &str = "applying writes";

/// The most bytes of rows in one statement, if it has more than one. The server refuses a packet
/// above `max_allowed_packet`, 16 MiB by default, by closing the connection; the largest value of
/// the default limits takes 4 MiB of this.
pub(super) const LARGEST: usize = 4 * 1024 * 1024;

/// A statement up to this fits into the packets of every server that anybody runs.
const SURELY_FITS: usize = 512 * 1024;
/// What a packet holds beside the rows.
const AROUND: usize = 16 * 1024;

const PACKET: &str = "SELECT CAST(@@SESSION.max_allowed_packet AS SIGNED)";

/// A transaction at `READ COMMITTED`.
pub(super) struct Transaction<'c> {
    pub(super) inner: sqlx::Transaction<'c, sqlx::MySql>,
    pub(super) dialect: Dialect,
}

impl Transaction<'_> {
    pub(super) async fn begin(store: &Mysql, what: &'static str) -> Result<Transaction<'static>> {
        let inner = begin(&store.pool, "BEGIN").await.map_err(at(what))?;
        // Only now, since a first connection has learned it.
        let dialect = store.dialect();
        Ok(Transaction { inner, dialect })
    }

    pub(super) async fn now(&mut self) -> Result<i64> {
        let now = sqlx::query_scalar(sql::CLOCK).fetch_one(&mut *self.inner);
        now.await.map_err(at("reading the clock"))
    }

    pub(super) async fn read<T>(
        &mut self,
        sql: &'static str,
        rows: &(impl Serialize + ?Sized),
    ) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, MySqlRow> + Send + Unpin,
    {
        let read = sqlx::query_as(self.dialect.text(sql)).bind(json(rows)?);
        read.fetch_all(&mut *self.inner).await.map_err(at(WHAT))
    }

    /// Locks those of `tasks` for which `sql` holds at an instant, at most so many of them, and
    /// passes by what somebody has. `sql` takes them, the instant and the number.
    ///
    /// A server that cannot pass by says that one of them is locked, and is asked for each.
    pub(super) async fn lock_free(
        &mut self,
        sql: &'static str,
        tasks: &[&str],
        (now, most): (i64, u32),
    ) -> Result<Vec<TaskRow>> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        match self.lock(sql, tasks, (now, most)).await {
            Err(error) if self.dialect == Dialect::Old && is_locked(&error) => {}
            locked => return locked.map_err(at(WHAT)),
        }
        let mut free = Vec::new();
        for task in tasks {
            if free.len() >= most as usize {
                break;
            }
            match self.lock(sql, &[task], (now, 1)).await {
                Err(error) if is_locked(&error) => {}
                locked => free.extend(locked.map_err(at(WHAT))?),
            }
        }
        Ok(free)
    }

    async fn lock(
        &mut self,
        sql: &'static str,
        tasks: &[&str],
        (now, most): (i64, u32),
    ) -> sqlx::Result<Vec<TaskRow>> {
        let tasks =
            serde_json::to_string(tasks).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let locked = sqlx::query_as(self.dialect.text(sql)).bind(tasks).bind(now);
        locked
            .bind(u64::from(most))
            .fetch_all(&mut *self.inner)
            .await
    }

    /// Writes `rows`, if there are any, in as many statements as the size of a packet asks for.
    pub(super) async fn put<T: Serialize>(&mut self, sql: &'static str, rows: &[T]) -> Result<()> {
        let mut some = String::new();
        for row in rows {
            let row = json(row)?;
            if !some.is_empty() && some.len() + row.len() > self.dialect.most(LARGEST) {
                self.put_some(sql, std::mem::take(&mut some)).await?;
            }
            some.push(if some.is_empty() { '[' } else { ',' });
            some.push_str(&row);
        }
        if some.is_empty() {
            return Ok(());
        }
        self.put_some(sql, some).await
    }

    async fn put_some(&mut self, sql: &'static str, mut rows: String) -> Result<()> {
        rows.push(']');
        self.check_fits(rows.len()).await?;
        let written = sqlx::query(self.dialect.text(sql))
            .bind(rows)
            .execute(&mut *self.inner);
        written.await.map(drop).map_err(at(WHAT))
    }
}

impl Transaction<'_> {
    /// Whether the server takes a statement with so many bytes of rows. One that it does not take
    /// breaks the connection, which looks like an outage, and would be sent again and again.
    async fn check_fits(&mut self, bytes: usize) -> Result<()> {
        if bytes <= SURELY_FITS {
            return Ok(());
        }
        let packet = sqlx::query_scalar(PACKET).fetch_one(&mut *self.inner);
        let packet: i64 = packet.await.map_err(at("reading the size of a packet"))?;
        if usize::try_from(packet).is_ok_and(|packet| bytes + AROUND > packet) {
            return Err(Error::invalid(format!(
                "{WHAT}: a row takes {bytes} bytes, and this server's max_allowed_packet is {packet}: \
                 keep what is so large in a store of its own, or raise max_allowed_packet"
            )));
        }
        Ok(())
    }
}

impl Tables for Transaction<'_> {
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
        let runs = json(runs)?;
        let read = sqlx::query_as(self.dialect.text(sql::READ_KIN));
        let read = read.bind(&runs).bind(&runs);
        read.fetch_all(&mut *self.inner).await.map_err(at(WHAT))
    }

    async fn lock_runs(&mut self, runs: &[String]) -> Result<Vec<RunRow>> {
        self.read(sql::LOCK_RUNS, runs).await
    }

    async fn lock_tasks(
        &mut self,
        tasks: &[String],
        of_runs: &[String],
    ) -> Result<(i64, Vec<TaskRow>)> {
        let mut wanted = tasks.to_vec();
        if !of_runs.is_empty() {
            // Their runs are locked, so that no task is added.
            let of_runs: Vec<(String,)> = self.read(sql::READ_TASKS_OF, of_runs).await?;
            wanted.extend(of_runs.into_iter().map(|(task,)| task));
            wanted.sort();
            wanted.dedup();
        }
        let rows = self.read(sql::LOCK_TASKS, &wanted).await?;
        Ok((self.now().await?, rows))
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
        self.inner.commit().await.map_err(at_commit(WHAT))
    }
}

/// `rows` as a statement takes them.
pub(super) fn json(rows: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(rows).map_err(|error| Error::invalid("encoding rows").with_source(error))
}

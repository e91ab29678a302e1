//! A batch of writes.

use coord_core::Result;
use sqlx::FromRow;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;

use super::super::batch::{Changes, Tables};
use super::super::rows::{
    CommandRow, InstanceRow, KinRow, RecordRow, RevisionRow, RunRow, TaskRow, TipRow,
};
use super::error::{at, at_commit};
use super::{Transaction, schedule, sql};

pub(super) const WHAT: &str = "applying writes";

/// Binds one array for each column of `rows`.
macro_rules! bind {
    ($query:expr, $rows:expr; $($column:tt)+) => {
        $query $(.bind($rows.iter().map(|row| &row.$column).collect::<Vec<_>>()))+
    };
}
pub(super) use bind;

impl Transaction<'_> {
    async fn read<T>(&mut self, sql: &'static str, ids: &[String]) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let read = self.statements.rows(sql).bind(ids);
        read.fetch_all(&mut *self.inner).await.map_err(at(WHAT))
    }

    /// Writes `rows`, if there are any.
    pub(super) async fn put<'q, T>(
        &mut self,
        sql: &'static str,
        rows: &'q [T],
        bind: impl FnOnce(PgQuery<'q>, &'q [T]) -> PgQuery<'q>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = bind(self.statements.done(sql), rows).execute(&mut *self.inner);
        written.await.map(drop).map_err(at(WHAT))
    }
}

pub(super) type PgQuery<'q> = Query<'q, sqlx::Postgres, PgArguments>;

impl Tables for Transaction<'_> {
    async fn lock_schedules(&mut self, schedules: &[(String, String)]) -> Result<Vec<RevisionRow>> {
        schedule::lock(self, schedules).await
    }

    async fn name_instances(&mut self, instances: &[InstanceRow]) -> Result<()> {
        self.put(sql::NAME_INSTANCES, instances, instances_of).await
    }

    async fn read_instances(&mut self, instances: &[(String, String)]) -> Result<Vec<InstanceRow>> {
        let read = bind!(self.statements.rows(sql::READ_INSTANCES), instances; 0 1);
        read.fetch_all(&mut *self.inner).await.map_err(at(WHAT))
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
        let mut wanted = tasks.to_vec();
        if !of_runs.is_empty() {
            // Their runs are locked, so that no task is added.
            let of_runs: Vec<(String,)> = self.read(sql::READ_TASKS_OF, of_runs).await?;
            wanted.extend(of_runs.into_iter().map(|(task,)| task));
        }
        let rows = match wanted.as_slice() {
            [] => Vec::new(),
            wanted => self.read(sql::LOCK_TASKS, wanted).await?,
        };
        let now = self.statements.rows(sql::CLOCK).fetch_one(&mut *self.inner);
        let (now,): (i64,) = now.await.map_err(at(WHAT))?;
        Ok((now, rows))
    }

    async fn read_tips(&mut self, runs: &[String]) -> Result<Vec<TipRow>> {
        self.read(sql::READ_TIPS, runs).await
    }

    async fn read_commands(&mut self, commands: &[CommandRow]) -> Result<Vec<CommandRow>> {
        let query = self.statements.rows(sql::READ_COMMANDS);
        let read = bind!(query, commands; namespace workflow_id kind request_id);
        read.fetch_all(&mut *self.inner).await.map_err(at(WHAT))
    }

    async fn write(&mut self, changes: &Changes) -> Result<()> {
        self.put(sql::DROP_INSTANCES, &changes.unnamed, instances_of)
            .await?;
        self.put(sql::PUT_INSTANCES, &changes.current, instances_of)
            .await?;
        self.put(sql::PUT_RUNS, &changes.runs, runs_of).await?;
        self.put(sql::ADD_HISTORY, &changes.history, records_of)
            .await?;
        self.put(sql::ADD_INBOX, &changes.inbox, records_of).await?;
        self.put(
            sql::TAKE_INBOX,
            &changes.taken,
            |query, rows| bind!(query, rows; 0 1),
        )
        .await?;
        self.put(
            sql::MOVE_INBOX,
            &changes.moved,
            |query, rows| bind!(query, rows; 0 1),
        )
        .await?;
        self.put(sql::PUT_TASKS, &changes.tasks, tasks_of).await?;
        self.put(sql::DROP_TASKS, &changes.gone, |query, rows| {
            query.bind(rows)
        })
        .await?;
        self.put(sql::ADD_ATTEMPTS, &changes.attempts, |query, rows| {
            bind!(query, rows;
                attempt_id task_id run_id attempt lease_owner outcome failure ended_at)
        })
        .await?;
        self.put(sql::DROP_ATTRIBUTES, &changes.attributed(), PgQuery::bind)
            .await?;
        self.put(
            sql::ADD_ATTRIBUTES,
            &changes.attribute_rows(),
            |query, rows| {
                bind!(query, rows;
                    run_id name place namespace kind text_value integer_value float_value)
            },
        )
        .await?;
        self.put(
            sql::PUT_MEMOS,
            &changes.memo_rows(),
            |query, rows| bind!(query, rows; run_id memo),
        )
        .await?;
        self.put(
            sql::ADD_COMMANDS,
            &changes.commands,
            |query, rows| bind!(query, rows; namespace workflow_id kind request_id run_id),
        )
        .await?;
        schedule::write(self, changes).await
    }

    async fn commit(self) -> Result<()> {
        self.inner.commit().await.map_err(at_commit(WHAT))
    }
}

fn instances_of<'q>(query: PgQuery<'q>, rows: &'q [InstanceRow]) -> PgQuery<'q> {
    bind!(query, rows; namespace workflow_id current_run_id)
}

fn records_of<'q>(query: PgQuery<'q>, rows: &'q [RecordRow]) -> PgQuery<'q> {
    bind!(query, rows; run_id seq kind step_seq at details codec payload)
}

fn runs_of<'q>(query: PgQuery<'q>, rows: &'q [RunRow]) -> PgQuery<'q> {
    bind!(query, rows;
        run_id namespace workflow_id run_number workflow_type queue priority compatibility status
        wait_reason closed_reason history_length inbox_seq inbox_drained turn_epoch parent_run_id
        parent_step_seq parent_close continued_to started_at updated_at closed_at output_codec
        output failure buffered_signals fairness_key fairness_weight fingerprint)
}

fn tasks_of<'q>(query: PgQuery<'q>, rows: &'q [TaskRow]) -> PgQuery<'q> {
    bind!(query, rows;
        task_id task_type namespace queue priority status available_at workflow_id run_id step_seq
        name compatibility attempt_count recover_count lease_owner lease_epoch leased_at
        lease_expires_at blocked_reason last_error created_at scheduled_seq attempt_id started_at
        heartbeat_at heartbeat_codec heartbeat_payload schedule_to_start_at schedule_to_close_at
        start_to_close_us heartbeat_us deadline_at fairness_key fairness_weight)
}

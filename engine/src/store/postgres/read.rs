//! What people and owners read, each call in one snapshot.

use coord_core::Result;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;

use super::super::rows::{
    AttemptRow, AttributeRow, MemoRow, OwnerRow, RecordRow, RunRow, TaskRow, owner_columns,
    run_columns, task_columns,
};
use super::super::{Description, Filter, Listing, Load, Loaded, Page, Target};
use super::super::{answers, listing};
use super::claim::now;
use super::error::at;
use super::single::Single;
use super::sql::event_columns;
use super::{Postgres, READ, Statements};
use crate::model::Run;

const LOAD_RUNS: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = ANY ($1)"
);

const LOAD_EVENTS: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM unnest($1::text[], $2::int8[], $3::int8[]) AS w (run_id, after, until)
      JOIN workflow_history h ON h.run_id = w.run_id AND h.seq > w.after AND h.seq <= w.until
      ORDER BY h.run_id, h.seq"
);

const LOAD_INBOX: &str = "
    SELECT h.run_id, h.inbox_seq AS seq, h.type AS kind, h.step_seq, h.at, h.details, h.codec,
        h.payload
    FROM workflow_inbox h WHERE h.run_id = ANY ($1)
    ORDER BY h.run_id, h.inbox_seq";

const RUN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = $1"
);

const CURRENT: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = (SELECT current_run_id FROM workflow_instances
        WHERE namespace = $1 AND workflow_id = $2)"
);

const TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks
      WHERE task_id > $1 || ':' AND task_id < $1 || ';' AND run_id = $1 ORDER BY step_seq"
);

const OWNERS: &str = concat!(
    "SELECT ",
    owner_columns!(),
    " FROM engine_instances WHERE instance_id = ANY ($1)"
);

const ATTEMPTS: &str = "
    SELECT attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at
    FROM activity_attempts WHERE run_id = $1 ORDER BY ended_at DESC, attempt_id DESC LIMIT $2";

const ATTRIBUTES: &str = "
    SELECT run_id, name, place, namespace, kind, text_value, integer_value,
        float_value
    FROM workflow_attributes WHERE run_id = $1 ORDER BY name, place";

const ARCHIVE: &str = "SELECT archived_at, place FROM workflow_archives WHERE run_id = $1";

const MEMO: &str = "SELECT run_id, memo FROM workflow_memos WHERE run_id = $1";

pub(super) async fn load(store: &Postgres, wanted: &[Load]) -> Result<Loaded> {
    const WHAT: &str = "loading runs";
    let rows = answers::wanted(wanted);
    let ids: Vec<_> = rows.iter().map(|row| row.run_id.as_str()).collect();
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let mut runs: Vec<RunRow> = Vec::new();
    if !ids.is_empty() {
        let read = store.statements.rows(LOAD_RUNS).bind(&ids);
        let read = read.fetch_all(&mut *transaction.inner).await;
        runs = read.map_err(at(WHAT))?;
    }
    let mut events: Vec<RecordRow> = Vec::new();
    if rows.iter().any(|row| row.until > row.after) {
        let read = store
            .statements
            .rows(LOAD_EVENTS)
            .bind(&ids)
            .bind(rows.iter().map(|row| row.after).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.until).collect::<Vec<_>>());
        let read = read.fetch_all(&mut *transaction.inner).await;
        events = read.map_err(at(WHAT))?;
    }
    let mut inbox: Vec<RecordRow> = Vec::new();
    if runs.iter().any(|run| run.inbox_seq > run.inbox_drained) {
        let read = store.statements.rows(LOAD_INBOX).bind(&ids);
        let read = read.fetch_all(&mut *transaction.inner).await;
        inbox = read.map_err(at(WHAT))?;
    }
    answers::loaded(now, wanted, runs, events, inbox)
}

fn row(statements: Statements, of: &Target) -> QueryAs<'_, sqlx::Postgres, RunRow, PgArguments> {
    match of {
        Target::Run(run) => statements.rows(RUN).bind(run.as_str()),
        Target::Current(namespace, workflow) => statements
            .rows(CURRENT)
            .bind(namespace.as_str())
            .bind(workflow.as_str()),
    }
}

pub(super) async fn find(store: &Postgres, of: &Target) -> Result<Option<Run>> {
    const WHAT: &str = "looking for a run";
    let mut connection = Single::begin(store, WHAT).await?;
    let run = row(store.statements, of).fetch_optional(&mut *connection);
    let run = run.await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    run.map(RunRow::run).transpose()
}

pub(super) async fn describe(store: &Postgres, of: &Target) -> Result<Option<Description>> {
    const WHAT: &str = "describing a run";
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let run = row(store.statements, of).fetch_optional(&mut *transaction.inner);
    let run = run.await.map_err(at(WHAT))?;
    let Some(run) = run else { return Ok(None) };
    let tasks = store.statements.rows(TASKS).bind(&run.run_id);
    let tasks: Vec<TaskRow> = tasks
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let owners = store.statements.rows(OWNERS).bind(OwnerRow::of(&tasks));
    let owners = owners.fetch_all(&mut *transaction.inner).await;
    let owners: Vec<OwnerRow> = owners.map_err(at(WHAT))?;
    let attempts = store.statements.rows(ATTEMPTS).bind(&run.run_id);
    let attempts = attempts
        .bind(answers::ATTEMPTS)
        .fetch_all(&mut *transaction.inner);
    let attempts: Vec<AttemptRow> = attempts.await.map_err(at(WHAT))?;
    let attributes = store.statements.rows(ATTRIBUTES).bind(&run.run_id);
    let attributes = attributes.fetch_all(&mut *transaction.inner).await;
    let attributes: Vec<AttributeRow> = attributes.map_err(at(WHAT))?;
    let memo = store
        .statements
        .rows(MEMO)
        .bind(&run.run_id)
        .fetch_optional(&mut *transaction.inner);
    let memo: Option<MemoRow> = memo.await.map_err(at(WHAT))?;
    let archived = store.statements.rows(ARCHIVE).bind(&run.run_id);
    let archived = archived.fetch_optional(&mut *transaction.inner).await;
    let marks = (attributes, memo, archived.map_err(at(WHAT))?);
    answers::description(now, run, (tasks, owners, attempts), marks).map(Some)
}

pub(super) async fn list(store: &Postgres, listing: &Listing) -> Result<Page> {
    const WHAT: &str = "listing runs";
    let mut query = listing::page(listing);
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = query.build_query_as().persistent(store.statements.named);
    let rows = rows.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::page(listing, rows)
}

pub(super) async fn count(store: &Postgres, filter: &Filter) -> Result<u64> {
    const WHAT: &str = "counting runs";
    let mut query = listing::count(filter);
    let mut connection = Single::begin(store, WHAT).await?;
    let count = query.build_query_scalar();
    let count = count.persistent(store.statements.named);
    let count: i64 = count.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::count(count)
}

#[cfg(test)]
mod tests;

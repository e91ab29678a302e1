//! What people and owners read, each call in one snapshot.

use coord_core::Result;
use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqlitePool};

use super::super::rows::{
    AttemptRow, AttributeRow, MemoRow, OwnerRow, RecordRow, RunRow, TaskRow, owner_columns,
    run_columns, task_columns,
};
use super::super::{Description, Filter, Listing, Load, Loaded, Page, Target};
use super::super::{answers, listing};
use super::batch::json;
use super::claim::now;
use super::error::at;
use super::sql::event_columns;
use crate::model::Run;

const LOAD_RUNS: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id IN (SELECT value->>'run_id' FROM json_each(?1))"
);

const LOAD_EVENTS: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM json_each(?1) w JOIN workflow_history h ON h.run_id = w.value->>'run_id'
        AND h.seq > w.value->>'after' AND h.seq <= w.value->>'until'
      ORDER BY h.run_id, h.seq"
);

const LOAD_INBOX: &str = "
    SELECT h.run_id, h.inbox_seq AS seq, h.type AS kind, h.step_seq, h.at, h.details, h.codec,
        h.payload
    FROM workflow_inbox h WHERE h.run_id IN (SELECT value->>'run_id' FROM json_each(?1))
    ORDER BY h.run_id, h.inbox_seq";

const RUN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = ?1"
);

const CURRENT: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = (SELECT current_run_id FROM workflow_instances
        WHERE namespace = ?1 AND workflow_id = ?2)"
);

const TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks
      WHERE task_id > ?1 || ':' AND task_id < ?1 || ';' AND run_id = ?1 ORDER BY step_seq"
);

const OWNERS: &str = concat!(
    "SELECT ",
    owner_columns!(),
    " FROM engine_instances WHERE instance_id IN (SELECT value FROM json_each(?1))"
);

const ATTEMPTS: &str = "
    SELECT attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at
    FROM activity_attempts WHERE run_id = ?1 ORDER BY ended_at DESC, attempt_id DESC LIMIT ?2";

const ATTRIBUTES: &str = "
    SELECT run_id, name, place, namespace, kind, text_value, integer_value,
        float_value
    FROM workflow_attributes WHERE run_id = ?1 ORDER BY name, place";

const ARCHIVE: &str = "SELECT archived_at, place FROM workflow_archives WHERE run_id = ?1";

const MEMO: &str = "SELECT run_id, memo FROM workflow_memos WHERE run_id = ?1";

pub(super) async fn load(pool: &SqlitePool, wanted: &[Load]) -> Result<Loaded> {
    const WHAT: &str = "loading runs";
    let mut transaction = pool.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    if wanted.is_empty() {
        return answers::loaded(now, wanted, Vec::new(), Vec::new(), Vec::new());
    }
    let json = json(&answers::wanted(wanted))?;
    let runs = sqlx::query_as(LOAD_RUNS).bind(&json);
    let runs: Vec<RunRow> = runs.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let events = sqlx::query_as(LOAD_EVENTS).bind(&json);
    let events: Vec<RecordRow> = events
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let inbox = sqlx::query_as(LOAD_INBOX).bind(&json);
    let inbox: Vec<RecordRow> = inbox.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    transaction.commit().await.map_err(at(WHAT))?;
    answers::loaded(now, wanted, runs, events, inbox)
}

fn row(of: &Target) -> QueryAs<'_, sqlx::Sqlite, RunRow, SqliteArguments> {
    match of {
        Target::Run(run) => sqlx::query_as(RUN).bind(run.as_str()),
        Target::Current(namespace, workflow) => sqlx::query_as(CURRENT)
            .bind(namespace.as_str())
            .bind(workflow.as_str()),
    }
}

pub(super) async fn find(pool: &SqlitePool, of: &Target) -> Result<Option<Run>> {
    let run = row(of).fetch_optional(pool).await;
    let run = run.map_err(at("looking for a run"))?;
    run.map(RunRow::run).transpose()
}

pub(super) async fn describe(pool: &SqlitePool, of: &Target) -> Result<Option<Description>> {
    const WHAT: &str = "describing a run";
    let mut transaction = pool.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let run = row(of).fetch_optional(&mut *transaction).await;
    let run = run.map_err(at(WHAT))?;
    let Some(run) = run else { return Ok(None) };
    let tasks = sqlx::query_as(TASKS).bind(&run.run_id);
    let tasks: Vec<TaskRow> = tasks.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let owners = sqlx::query_as(OWNERS).bind(json(&OwnerRow::of(&tasks))?);
    let owners = owners.fetch_all(&mut *transaction).await;
    let owners: Vec<OwnerRow> = owners.map_err(at(WHAT))?;
    let attempts = sqlx::query_as(ATTEMPTS).bind(&run.run_id);
    let attempts = attempts
        .bind(answers::ATTEMPTS)
        .fetch_all(&mut *transaction);
    let attempts: Vec<AttemptRow> = attempts.await.map_err(at(WHAT))?;
    let attributes = sqlx::query_as(ATTRIBUTES).bind(&run.run_id);
    let attributes = attributes.fetch_all(&mut *transaction).await;
    let attributes: Vec<AttributeRow> = attributes.map_err(at(WHAT))?;
    let memo = sqlx::query_as(MEMO)
        .bind(&run.run_id)
        .fetch_optional(&mut *transaction);
    let memo: Option<MemoRow> = memo.await.map_err(at(WHAT))?;
    let archived = sqlx::query_as(ARCHIVE).bind(&run.run_id);
    let archived = archived.fetch_optional(&mut *transaction).await;
    let marks = (attributes, memo, archived.map_err(at(WHAT))?);
    transaction.commit().await.map_err(at(WHAT))?;
    answers::description(now, run, (tasks, owners, attempts), marks).map(Some)
}

pub(super) async fn list(pool: &SqlitePool, listing: &Listing) -> Result<Page> {
    let mut query = listing::page(listing);
    let rows = query.build_query_as().fetch_all(pool).await;
    answers::page(listing, rows.map_err(at("listing runs"))?)
}

pub(super) async fn count(pool: &SqlitePool, filter: &Filter) -> Result<u64> {
    let mut query = listing::count(filter);
    let count = query.build_query_scalar().fetch_one(pool).await;
    answers::count(count.map_err(at("counting runs"))?)
}

#[cfg(test)]
mod tests;

//! What people and owners read, each call in one snapshot.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::answers;
use super::super::rows::{AttemptRow, RecordRow, RunRow, TaskRow, run_columns, task_columns};
use super::super::{Description, Listing, Load, Loaded, Page, Target};
use super::batch::json;
use super::claim::now;
use super::error::at;
use super::sql::event_columns;

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

const ATTEMPTS: &str = "
    SELECT attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at
    FROM activity_attempts WHERE run_id = ?1 ORDER BY ended_at DESC, attempt_id DESC LIMIT ?2";

const LIST: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE namespace = ?1 AND (?2 IS NULL OR status = ?2)
        AND (?3 IS NULL OR workflow_type = ?3) AND (started_at, run_id) < (?4, ?5)
      ORDER BY started_at DESC, run_id DESC LIMIT ?6"
);

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

pub(super) async fn describe(pool: &SqlitePool, of: &Target) -> Result<Option<Description>> {
    const WHAT: &str = "describing a run";
    let mut transaction = pool.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let run = match of {
        Target::Run(run) => sqlx::query_as(RUN).bind(run.as_str()),
        Target::Current(namespace, workflow) => sqlx::query_as(CURRENT)
            .bind(namespace.as_str())
            .bind(workflow.as_str()),
    };
    let run: Option<RunRow> = run
        .fetch_optional(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let Some(run) = run else { return Ok(None) };
    let tasks = sqlx::query_as(TASKS).bind(&run.run_id);
    let tasks: Vec<TaskRow> = tasks.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let attempts = sqlx::query_as(ATTEMPTS).bind(&run.run_id);
    let attempts = attempts
        .bind(answers::ATTEMPTS)
        .fetch_all(&mut *transaction);
    let attempts: Vec<AttemptRow> = attempts.await.map_err(at(WHAT))?;
    transaction.commit().await.map_err(at(WHAT))?;
    answers::description(now, run, tasks, attempts).map(Some)
}

pub(super) async fn list(pool: &SqlitePool, listing: &Listing) -> Result<Page> {
    let (instant, run) = match &listing.after {
        Some((instant, run)) => (instant.as_micros(), run.as_str()),
        None => (i64::MAX, ""),
    };
    let rows: Vec<RunRow> = sqlx::query_as(LIST)
        .bind(listing.namespace.as_str())
        .bind(listing.status.map(crate::model::RunStatus::as_str))
        .bind(listing.name.as_ref().map(crate::model::TypeName::as_str))
        .bind(instant)
        .bind(run)
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(pool)
        .await
        .map_err(at("listing runs"))?;
    answers::page(listing, rows)
}

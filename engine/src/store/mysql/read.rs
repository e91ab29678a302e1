//! What people and owners read, each call in one snapshot.

use coord_core::Result;
use sqlx::Transaction;
use sqlx::mysql::{MySql, MySqlArguments, MySqlPool};
use sqlx::query::QueryAs;

use super::super::begin::begin;
use super::super::rows::{
    AttemptRow, AttributeRow, MemoRow, OwnerRow, RecordRow, RunRow, TaskRow, owner_columns,
    run_columns, task_columns,
};
use super::super::{Description, Filter, Listing, Load, Loaded, Page, Target};
use super::super::{answers, listing};
use super::Mysql;
use super::batch::json;
use super::error::at;
use super::sql::{CLOCK, event_columns, ids};
use crate::model::Run;

const LOAD_RUNS: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    run_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id"
);

const LOAD_EVENTS: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    event_columns!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (
        run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.run_id',
        after BIGINT PATH '$.after', until BIGINT PATH '$.until')) w
      JOIN workflow_history h FORCE INDEX (PRIMARY)
        ON h.run_id = w.run_id AND h.seq > w.after AND h.seq <= w.until
      ORDER BY h.run_id, h.seq"
);

const LOAD_INBOX: &str = concat!(
    "SELECT STRAIGHT_JOIN h.run_id, h.inbox_seq AS seq, h.`type` AS kind, h.step_seq, h.at, h.details,
        h.codec, h.payload
     FROM ",
    ids!(),
    " JOIN workflow_inbox h FORCE INDEX (PRIMARY) ON h.run_id = w.id ORDER BY h.run_id, h.inbox_seq"
);

const RUN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = ?"
);

const CURRENT: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = (SELECT current_run_id FROM workflow_instances
        WHERE namespace = ? AND workflow_id = ?)"
);

const TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks
      WHERE task_id > concat(?, ':') AND task_id < concat(?, ';') AND run_id = ? ORDER BY step_seq"
);

const OWNERS: &str = concat!(
    "SELECT ",
    owner_columns!(),
    " FROM ",
    ids!(),
    " JOIN engine_instances i ON i.instance_id = w.id"
);

const ATTEMPTS: &str = "
    SELECT attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at
    FROM activity_attempts WHERE run_id = ? ORDER BY ended_at DESC, attempt_id DESC LIMIT ?";

const ATTRIBUTES: &str = "
    SELECT run_id, name, place, namespace, kind, CONVERT(text_value USING utf8mb4) AS text_value, integer_value,
        float_value
    FROM workflow_attributes WHERE run_id = ? ORDER BY name, place";

const ARCHIVE: &str = "SELECT archived_at, place FROM workflow_archives WHERE run_id = ?";

const MEMO: &str = "SELECT run_id, memo FROM workflow_memos WHERE run_id = ?";

pub(super) async fn load(store: &Mysql, wanted: &[Load]) -> Result<Loaded> {
    const WHAT: &str = "loading runs";
    let mut transaction = snapshot(&store.pool, WHAT).await?;
    let now = sqlx::query_scalar(CLOCK).fetch_one(&mut *transaction);
    let now = now.await.map_err(at(WHAT))?;
    if wanted.is_empty() {
        return answers::loaded(now, wanted, Vec::new(), Vec::new(), Vec::new());
    }
    let rows = answers::wanted(wanted);
    let ids: Vec<_> = rows.iter().map(|row| row.run_id.as_str()).collect();
    let ids = json(&ids)?;
    let runs = sqlx::query_as(store.text(LOAD_RUNS)).bind(&ids);
    let runs: Vec<RunRow> = runs.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let events = sqlx::query_as(store.text(LOAD_EVENTS)).bind(json(&rows)?);
    let events: Vec<RecordRow> = events
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let inbox = sqlx::query_as(store.text(LOAD_INBOX)).bind(&ids);
    let inbox: Vec<RecordRow> = inbox.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    transaction.commit().await.map_err(at(WHAT))?;
    answers::loaded(now, wanted, runs, events, inbox)
}

fn row(of: &Target) -> QueryAs<'_, MySql, RunRow, MySqlArguments> {
    match of {
        Target::Run(run) => sqlx::query_as(RUN).bind(run.as_str()),
        Target::Current(namespace, workflow) => sqlx::query_as(CURRENT)
            .bind(namespace.as_str())
            .bind(workflow.as_str()),
    }
}

pub(super) async fn find(pool: &MySqlPool, of: &Target) -> Result<Option<Run>> {
    let run = row(of).fetch_optional(pool).await;
    let run = run.map_err(at("looking for a run"))?;
    run.map(RunRow::run).transpose()
}

pub(super) async fn describe(pool: &MySqlPool, of: &Target) -> Result<Option<Description>> {
    const WHAT: &str = "describing a run";
    let mut transaction = snapshot(pool, WHAT).await?;
    let now = sqlx::query_scalar(CLOCK).fetch_one(&mut *transaction);
    let now = now.await.map_err(at(WHAT))?;
    let run = row(of).fetch_optional(&mut *transaction).await;
    let run = run.map_err(at(WHAT))?;
    let Some(run) = run else { return Ok(None) };
    let id = &run.run_id;
    let tasks = sqlx::query_as(TASKS).bind(id).bind(id).bind(id);
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

pub(super) async fn list(pool: &MySqlPool, listing: &Listing) -> Result<Page> {
    let mut query = listing::page(listing);
    let rows = query.build_query_as().fetch_all(pool).await;
    answers::page(listing, rows.map_err(at("listing runs"))?)
}

pub(super) async fn count(pool: &MySqlPool, filter: &Filter) -> Result<u64> {
    let mut query = listing::count(filter);
    let count = query.build_query_scalar().fetch_one(pool).await;
    answers::count(count.map_err(at("counting runs"))?)
}

/// A transaction that sees one snapshot.
pub(super) async fn snapshot(
    pool: &MySqlPool,
    what: &'static str,
) -> Result<Transaction<'static, MySql>> {
    const HOW: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
        START TRANSACTION READ ONLY";
    begin(pool, HOW).await.map_err(at(what))
}

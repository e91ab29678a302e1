//! Workers: what each can go on with, and what waits for one that can.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::rows::{BacklogRow, WorkerRow};
use super::super::{Backlogs, Enlistment, WorkerFilter, WorkerRecord};
use super::Sqlite;
use super::batch::json;
use super::error::{at, at_commit};
use super::sql::{self, clock};
use crate::model::{BuildId, Namespace, Queue};

/// What this worker said before, and workers whose process is gone.
const CLEAR: &str = "
    DELETE FROM engine_workers WHERE worker_id = ?1 OR instance_id NOT IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('live', 'draining'))";

const ENLIST: &str = concat!(
    "INSERT INTO engine_workers (worker_id, build_id, instance_id, namespace, queue,
        current_build, host, started_at)
     SELECT ?1, value, ?3, ?4, ?5, ?6, ?7, ",
    clock!(),
    " FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING"
);

const DISMISS: &str = "DELETE FROM engine_workers WHERE worker_id = ?1";

const WORKERS: &str = concat!(
    "SELECT w.worker_id, w.build_id, w.instance_id, w.namespace, w.queue, w.current_build, w.host,
        w.started_at, i.node_name, i.pid, i.status, i.heartbeat_at, i.expires_at
     FROM engine_workers w JOIN engine_instances i ON i.instance_id = w.instance_id
     WHERE i.status IN ('live', 'draining') AND i.expires_at > ",
    clock!(),
    " AND (?1 IS NULL OR w.namespace = ?1) AND (?2 IS NULL OR w.queue = ?2)
     ORDER BY w.worker_id, w.build_id"
);

const BACKLOGS: &str = "
    SELECT namespace, queue, compatibility, count(DISTINCT run_id) AS runs,
        min(available_at) AS since
    FROM workflow_tasks
    WHERE status = 'ready' AND compatibility IS NOT NULL AND available_at <= ?1
      AND (?2 IS NULL OR namespace = ?2)
    GROUP BY namespace, queue, compatibility ORDER BY namespace, queue, compatibility";

pub(super) async fn enlist(pool: &SqlitePool, worker: &Enlistment) -> Result<()> {
    const WHAT: &str = "enlisting a worker";
    let begun = super::begin(pool).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let cleared = sqlx::query(CLEAR).bind(&worker.worker);
    cleared.execute(&mut *transaction).await.map_err(at(WHAT))?;
    sqlx::query(ENLIST)
        .bind(&worker.worker)
        .bind(json(&worker.builds())?)
        .bind(worker.owner.as_str())
        .bind(worker.namespace.as_str())
        .bind(worker.queue.as_str())
        .bind(worker.current.as_ref().map(BuildId::as_str))
        .bind(worker.host.as_deref())
        .execute(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    transaction.commit().await.map_err(at_commit(WHAT))
}

pub(super) async fn dismiss(pool: &SqlitePool, worker: &str) -> Result<()> {
    let gone = sqlx::query(DISMISS).bind(worker).execute(pool).await;
    gone.map(drop).map_err(at_commit("dismissing a worker"))
}

pub(super) async fn list(pool: &SqlitePool, filter: &WorkerFilter) -> Result<Vec<WorkerRecord>> {
    let rows = sqlx::query_as(WORKERS)
        .bind(filter.namespace.as_ref().map(Namespace::as_str))
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .fetch_all(pool)
        .await;
    let rows: Vec<WorkerRow> = rows.map_err(at("listing workers"))?;
    WorkerRow::workers(rows)
}

pub(super) async fn backlogs(store: &Sqlite) -> Result<Backlogs> {
    const WHAT: &str = "counting marked runs";
    let now = sqlx::query_scalar(sql::CLOCK).fetch_one(&store.reader);
    let now: i64 = now.await.map_err(at(WHAT))?;
    let rows = sqlx::query_as(BACKLOGS).bind(now).bind(store.scope());
    let rows: sqlx::Result<Vec<BacklogRow>> = rows.fetch_all(&store.reader).await;
    BacklogRow::backlogs(now, rows.map_err(at(WHAT))?)
}

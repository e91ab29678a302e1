//! Workers: what each can go on with, and what waits for one that can.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::rows::{
    BacklogRows, WorkerRow, backlogs_of_tasks, backlogs_paid, backlogs_under_way,
};
use super::super::{Backlogs, Enlistment, WorkerFilter, WorkerRecord};
use super::Mysql;
use super::batch::{Transaction, json};
use super::error::{at, at_commit};
use super::sql::{self, clock};
use crate::model::{BuildId, Namespace, Queue};

/// What this worker said before, and workers whose process is gone.
const CLEAR: &str = "
    DELETE FROM engine_workers WHERE worker_id = ? OR instance_id NOT IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('live', 'draining'))";

const ENLIST: &str = concat!(
    "INSERT INTO engine_workers (worker_id, build_id, instance_id, namespace, queue,
        current_build, types, host, started_at)
     SELECT ?, w.build_id, ?, ?, ?, ?, ?, ?, ",
    clock!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (build_id VARCHAR(255) PATH '$')) w"
);

const DISMISS: &str = "DELETE FROM engine_workers WHERE worker_id = ?";

const WORKERS: &str = concat!(
    "SELECT w.worker_id, w.build_id, w.instance_id, w.namespace, w.queue, w.current_build, w.types, w.host,
        w.started_at, i.node_name, i.pid, i.status, i.heartbeat_at, i.expires_at
     FROM engine_workers w JOIN engine_instances i ON i.instance_id = w.instance_id
     WHERE i.status IN ('live', 'draining') AND i.expires_at > ",
    clock!(),
    " AND (? IS NULL OR w.namespace = ?) AND (? IS NULL OR w.queue = ?)
     ORDER BY w.worker_id, w.build_id"
);

const BACKLOGS: &str = backlogs_of_tasks!("?", "(? IS NULL OR namespace = ?)");
const UNDER_WAY: &str = backlogs_under_way!("?", "(? IS NULL OR namespace = ?)");
const PAID: &str = backlogs_paid!("(? IS NULL OR namespace = ?)");

pub(super) async fn enlist(store: &Mysql, worker: &Enlistment) -> Result<()> {
    const WHAT: &str = "enlisting a worker";
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let cleared = sqlx::query(CLEAR).bind(&worker.worker);
    cleared
        .execute(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    sqlx::query(store.text(ENLIST))
        .bind(&worker.worker)
        .bind(worker.owner.as_str())
        .bind(worker.namespace.as_str())
        .bind(worker.queue.as_str())
        .bind(worker.current.as_ref().map(BuildId::as_str))
        .bind(worker.types()?)
        .bind(worker.host.as_deref())
        .bind(json(&worker.builds())?)
        .execute(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))
}

pub(super) async fn dismiss(pool: &MySqlPool, worker: &str) -> Result<()> {
    let gone = sqlx::query(DISMISS).bind(worker).execute(pool).await;
    gone.map(drop).map_err(at_commit("dismissing a worker"))
}

pub(super) async fn list(pool: &MySqlPool, filter: &WorkerFilter) -> Result<Vec<WorkerRecord>> {
    let rows = sqlx::query_as(WORKERS)
        .bind(filter.namespace.as_ref().map(Namespace::as_str))
        .bind(filter.namespace.as_ref().map(Namespace::as_str))
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .fetch_all(pool)
        .await;
    let rows: Vec<WorkerRow> = rows.map_err(at("listing workers"))?;
    WorkerRow::workers(rows)
}

pub(super) async fn backlogs(store: &Mysql) -> Result<Backlogs> {
    const WHAT: &str = "counting what waits";
    let (pool, scope) = (&store.pool, store.scope());
    let now = sqlx::query_scalar(sql::CLOCK).fetch_one(pool).await;
    let now: i64 = now.map_err(at(WHAT))?;
    let tasks = sqlx::query_as(BACKLOGS).bind(now).bind(scope).bind(scope);
    let under_way = sqlx::query_as(UNDER_WAY).bind(now).bind(scope).bind(scope);
    let paid = sqlx::query_as(PAID).bind(scope).bind(scope);
    let rows = BacklogRows {
        now,
        tasks: tasks.fetch_all(pool).await.map_err(at(WHAT))?,
        under_way: under_way.fetch_all(pool).await.map_err(at(WHAT))?,
        paid: paid.fetch_all(pool).await.map_err(at(WHAT))?,
    };
    rows.backlogs()
}

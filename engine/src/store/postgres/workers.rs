//! Workers: what each can go on with, and what waits for one that can.

use coord_core::Result;

use super::super::rows::{BacklogRow, WorkerRow};
use super::super::{Backlogs, Enlistment, WorkerFilter, WorkerRecord};
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::{self, clock};
use super::{Postgres, WRITE};
use crate::model::{BuildId, Namespace, Queue};

/// What this worker said before, and workers whose process is gone.
const CLEAR: &str = "
    DELETE FROM engine_workers WHERE worker_id = $1 OR instance_id NOT IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('live', 'draining'))";

const ENLIST: &str = concat!(
    "INSERT INTO engine_workers (worker_id, build_id, instance_id, namespace, queue,
        current_build, host, started_at)
     SELECT $1, build_id, $3, $4, $5, $6, $7, ",
    clock!(),
    " FROM unnest($2::text[]) AS w (build_id) ON CONFLICT DO NOTHING"
);

const DISMISS: &str = "DELETE FROM engine_workers WHERE worker_id = $1";

const WORKERS: &str = concat!(
    "SELECT w.worker_id, w.build_id, w.instance_id, w.namespace, w.queue, w.current_build, w.host,
        w.started_at, i.node_name, i.pid, i.status, i.heartbeat_at, i.expires_at
     FROM engine_workers w JOIN engine_instances i ON i.instance_id = w.instance_id
     WHERE i.status IN ('live', 'draining') AND i.expires_at > ",
    clock!(),
    " AND ($1::text IS NULL OR w.namespace = $1) AND ($2::text IS NULL OR w.queue = $2)
     ORDER BY w.worker_id, w.build_id"
);

const BACKLOGS: &str = "
    SELECT namespace, queue, compatibility, count(DISTINCT run_id) AS runs,
        min(available_at) AS since
    FROM workflow_tasks
    WHERE status = 'ready' AND compatibility IS NOT NULL AND available_at <= $1
      AND ($2::text IS NULL OR namespace = $2)
    GROUP BY namespace, queue, compatibility ORDER BY namespace, queue, compatibility";

pub(super) async fn enlist(store: &Postgres, worker: &Enlistment) -> Result<()> {
    const WHAT: &str = "enlisting a worker";
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let cleared = store.statements.done(CLEAR).bind(&worker.worker);
    let cleared = cleared.execute(&mut *transaction.inner).await;
    cleared.map_err(at(WHAT))?;
    store
        .statements
        .done(ENLIST)
        .bind(&worker.worker)
        .bind(worker.builds())
        .bind(worker.owner.as_str())
        .bind(worker.namespace.as_str())
        .bind(worker.queue.as_str())
        .bind(worker.current.as_ref().map(BuildId::as_str))
        .bind(worker.host.as_deref())
        .execute(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))
}

pub(super) async fn dismiss(store: &Postgres, worker: &str) -> Result<()> {
    const WHAT: &str = "dismissing a worker";
    let mut connection = Single::begin(store, WHAT).await?;
    let gone = store.statements.done(DISMISS).bind(worker);
    let gone = gone.execute(&mut *connection).await;
    gone.map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await
}

pub(super) async fn list(store: &Postgres, filter: &WorkerFilter) -> Result<Vec<WorkerRecord>> {
    const WHAT: &str = "listing workers";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows: Vec<WorkerRow> = store
        .statements
        .rows(WORKERS)
        .bind(filter.namespace.as_ref().map(Namespace::as_str))
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .fetch_all(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    WorkerRow::workers(rows)
}

pub(super) async fn backlogs(store: &Postgres) -> Result<Backlogs> {
    const WHAT: &str = "counting marked runs";
    let mut connection = Single::begin(store, WHAT).await?;
    let now = store.statements.rows(sql::CLOCK);
    let now = now.fetch_one(&mut *connection).await;
    let (now,): (i64,) = now.map_err(at(WHAT))?;
    let rows: Vec<BacklogRow> = store
        .statements
        .rows(BACKLOGS)
        .bind(now)
        .bind(store.scope())
        .fetch_all(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    BacklogRow::backlogs(now, rows)
}

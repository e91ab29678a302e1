//! Workers: what each can go on with, and what waits for one that can.

use coord_core::Result;

use super::super::rows::{
    BacklogRows, WorkerRow, backlogs_of_tasks, backlogs_paid, backlogs_under_way,
};
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
        current_build, types, host, started_at)
     SELECT $1, build_id, $3, $4, $5, $6, $8, $7, ",
    clock!(),
    " FROM unnest($2::text[]) AS w (build_id) ON CONFLICT DO NOTHING"
);

const DISMISS: &str = "DELETE FROM engine_workers WHERE worker_id = $1";

const WORKERS: &str = concat!(
    "SELECT w.worker_id, w.build_id, w.instance_id, w.namespace, w.queue, w.current_build, w.types, w.host,
        w.started_at, i.node_name, i.pid, i.status, i.heartbeat_at, i.expires_at
     FROM engine_workers w JOIN engine_instances i ON i.instance_id = w.instance_id
     WHERE i.status IN ('live', 'draining') AND i.expires_at > ",
    clock!(),
    " AND ($1::text IS NULL OR w.namespace = $1) AND ($2::text IS NULL OR w.queue = $2)
     ORDER BY w.worker_id, w.build_id"
);

const BACKLOGS: &str = backlogs_of_tasks!("$1", "($2::text IS NULL OR namespace = $2)");
const UNDER_WAY: &str = backlogs_under_way!("$1", "($2::text IS NULL OR namespace = $2)");
const PAID: &str = backlogs_paid!("($1::text IS NULL OR namespace = $1)");

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
        .bind(worker.types()?)
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
    const WHAT: &str = "counting what waits";
    let (statements, scope) = (store.statements, store.scope());
    let mut connection = Single::begin(store, WHAT).await?;
    let now = statements.rows(sql::CLOCK).fetch_one(&mut *connection);
    let (now,): (i64,) = now.await.map_err(at(WHAT))?;
    let tasks = statements.rows(BACKLOGS).bind(now).bind(scope);
    let tasks = tasks.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let under_way = statements.rows(UNDER_WAY).bind(now).bind(scope);
    let under_way = under_way.fetch_all(&mut *connection).await;
    let under_way = under_way.map_err(at(WHAT))?;
    let paid = statements.rows(PAID).bind(scope);
    let paid = paid.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    let rows = BacklogRows {
        now,
        tasks,
        under_way,
        paid,
    };
    rows.backlogs()
}

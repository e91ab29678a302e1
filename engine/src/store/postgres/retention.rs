//! What goes.

use coord_core::Result;

use super::super::retention::{Retire, Tenant};
use super::super::rows::{DueRow, TenantRow};
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::clock;
use super::{Postgres, WRITE};
use crate::model::{Namespace, micros};

/// The clock is read once, so that the index is walked no further than to this instant.
const DUE: &str = concat!(
    "SELECT namespace, workflow_id, run_id, history_length FROM workflow_runs
     WHERE namespace = $1 AND closed_at IS NOT NULL AND closed_at <= (SELECT ",
    clock!(),
    " - $2) AND (NOT $4 OR EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = workflow_runs.run_id))
     ORDER BY closed_at, run_id LIMIT $3"
);

const LOCK_INSTANCES: &str = "
    SELECT i.workflow_id FROM workflow_instances i
    WHERE i.namespace = $1 AND i.workflow_id = ANY ($2) ORDER BY i.workflow_id FOR UPDATE";

/// Only those that are still there and closed: another may have taken them.
const LOCK_RUNS: &str = "
    SELECT run_id FROM workflow_runs WHERE run_id = ANY ($1) AND closed_at IS NOT NULL
    ORDER BY run_id FOR UPDATE";

const DROP_COMMANDS: &str = "
    DELETE FROM workflow_commands
    WHERE namespace = $1 AND workflow_id = ANY ($2) AND run_id = ANY ($3)";

const DROP_INSTANCES: &str = "
    DELETE FROM workflow_instances
    WHERE namespace = $1 AND workflow_id = ANY ($2) AND current_run_id = ANY ($3)";

const DROP: [&str; 8] = [
    "DELETE FROM workflow_history WHERE run_id = ANY ($1)",
    "DELETE FROM workflow_inbox WHERE run_id = ANY ($1)",
    "DELETE FROM activity_attempts WHERE run_id = ANY ($1)",
    "DELETE FROM workflow_attributes WHERE run_id = ANY ($1)",
    "DELETE FROM workflow_memos WHERE run_id = ANY ($1)",
    "DELETE FROM workflow_archives WHERE run_id = ANY ($1)",
    "DELETE FROM workflow_tasks t USING unnest($1::text[]) AS w (run_id)
     WHERE t.task_id > w.run_id || ':' AND t.task_id < w.run_id || ';' AND t.run_id = w.run_id",
    "DELETE FROM workflow_runs WHERE run_id = ANY ($1)",
];

/// Each namespace is one look at the index, whatever it holds.
const TENANTS: &str = "
    WITH RECURSIVE n (namespace) AS (
        SELECT min(namespace) FROM workflow_instances
        UNION ALL
        SELECT (SELECT min(i.namespace) FROM workflow_instances i WHERE i.namespace > n.namespace)
        FROM n WHERE n.namespace IS NOT NULL)
    SELECT n.namespace, s.retention_us, (SELECT min(r.closed_at) FROM workflow_runs r
        WHERE r.namespace = n.namespace AND r.closed_at IS NOT NULL) AS oldest_closed
    FROM n LEFT JOIN workflow_namespaces s ON s.namespace = n.namespace
    WHERE n.namespace IS NOT NULL AND ($1::text IS NULL OR n.namespace = $1)";

const KEEP: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, retention_us, created_at) VALUES ($1, $2, ",
    clock!(),
    ") ON CONFLICT (namespace) DO UPDATE SET retention_us = excluded.retention_us"
);

pub(super) async fn retire(store: &Postgres, retire: &Retire) -> Result<u64> {
    const WHAT: &str = "removing closed runs";
    let namespace = retire.namespace.as_str();
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let statements = store.statements;
    let due = statements
        .rows(DUE)
        .bind(namespace)
        .bind(micros(retire.closed_for))
        .bind(i64::from(retire.runs))
        .bind(retire.archived)
        .fetch_all(&mut *transaction.inner);
    let going = DueRow::portion(due.await.map_err(at(WHAT))?, retire)?;
    let workflows: Vec<_> = going.iter().map(|row| row.workflow_id.as_str()).collect();
    let locked = statements.done(LOCK_INSTANCES).bind(namespace);
    let locked = locked.bind(&workflows).execute(&mut *transaction.inner);
    locked.await.map_err(at(WHAT))?;
    let runs = statements.rows(LOCK_RUNS).bind(DueRow::runs(&going));
    let runs: Vec<(String,)> = runs
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let runs: Vec<_> = runs.into_iter().map(|(run,)| run).collect();
    for statement in [DROP_COMMANDS, DROP_INSTANCES] {
        let gone = statements.done(statement).bind(namespace);
        let gone = gone.bind(&workflows).bind(&runs);
        let gone = gone.execute(&mut *transaction.inner).await;
        gone.map_err(at(WHAT))?;
    }
    for statement in DROP {
        let gone = statements.done(statement).bind(&runs);
        let gone = gone.execute(&mut *transaction.inner).await;
        gone.map_err(at(WHAT))?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(runs.len() as u64)
}

pub(super) async fn tenants(store: &Postgres) -> Result<Vec<Tenant>> {
    const WHAT: &str = "reading the namespaces";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = store.statements.rows(TENANTS).bind(store.scope());
    let rows = rows.fetch_all(&mut *connection);
    let rows: Vec<TenantRow> = rows.await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    TenantRow::tenants(rows)
}

pub(super) async fn keep(store: &Postgres, namespace: &Namespace, micros: i64) -> Result<()> {
    const WHAT: &str = "setting a retention";
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let kept = store.statements.done(KEEP).bind(namespace.as_str());
    let kept = kept.bind(micros).execute(&mut *transaction.inner).await;
    kept.map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))
}

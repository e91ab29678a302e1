//! What goes.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::retention::{Retire, Tenant};
use super::super::rows::{DueRow, TenantRow};
use super::Sqlite;
use super::batch::json;
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::{Namespace, micros};

const DUE: &str = concat!(
    "SELECT namespace, workflow_id, run_id, history_length FROM workflow_runs
     WHERE namespace = ?1 AND closed_at IS NOT NULL AND closed_at <= ",
    clock!(),
    " - ?2 AND (NOT ?4 OR EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = workflow_runs.run_id))
     ORDER BY closed_at, run_id LIMIT ?3"
);

const DROP_COMMANDS: &str = "
    DELETE FROM workflow_commands
    WHERE namespace = ?1 AND workflow_id IN (SELECT value FROM json_each(?2))
        AND run_id IN (SELECT value FROM json_each(?3))";

const DROP_INSTANCES: &str = "
    DELETE FROM workflow_instances
    WHERE namespace = ?1 AND workflow_id IN (SELECT value FROM json_each(?2))
        AND current_run_id IN (SELECT value FROM json_each(?3))";

const DROP: [&str; 8] = [
    "DELETE FROM workflow_history WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM workflow_inbox WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM activity_attempts WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM workflow_attributes WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM workflow_memos WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM workflow_archives WHERE run_id IN (SELECT value FROM json_each(?1))",
    "DELETE FROM workflow_tasks WHERE task_id IN (
        SELECT t.task_id FROM json_each(?1) w JOIN workflow_tasks t
        ON t.task_id > w.value || ':' AND t.task_id < w.value || ';' AND t.run_id = w.value)",
    "DELETE FROM workflow_runs WHERE run_id IN (SELECT value FROM json_each(?1))",
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
    WHERE n.namespace IS NOT NULL AND (?1 IS NULL OR n.namespace = ?1)";

const KEEP: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, retention_us, created_at) VALUES (?1, ?2, ",
    clock!(),
    ") ON CONFLICT (namespace) DO UPDATE SET retention_us = excluded.retention_us"
);

pub(super) async fn retire(pool: &SqlitePool, retire: &Retire) -> Result<u64> {
    const WHAT: &str = "removing closed runs";
    let namespace = retire.namespace.as_str();
    let begun = super::begin(pool).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let due = sqlx::query_as(DUE)
        .bind(namespace)
        .bind(micros(retire.closed_for))
        .bind(i64::from(retire.runs))
        .bind(retire.archived)
        .fetch_all(&mut *transaction);
    let going = DueRow::portion(due.await.map_err(at(WHAT))?, retire)?;
    let workflows: Vec<_> = going.iter().map(|row| row.workflow_id.as_str()).collect();
    let (workflows, runs) = (json(&workflows)?, json(&DueRow::runs(&going))?);
    for statement in [DROP_COMMANDS, DROP_INSTANCES] {
        let gone = sqlx::query(statement).bind(namespace).bind(&workflows);
        let gone = gone.bind(&runs).execute(&mut *transaction).await;
        gone.map_err(at(WHAT))?;
    }
    for statement in DROP {
        let gone = sqlx::query(statement).bind(&runs);
        gone.execute(&mut *transaction).await.map_err(at(WHAT))?;
    }
    transaction.commit().await.map_err(at_commit(WHAT))?;
    Ok(going.len() as u64)
}

pub(super) async fn tenants(store: &Sqlite) -> Result<Vec<Tenant>> {
    let rows = sqlx::query_as(TENANTS).bind(store.scope());
    let rows: sqlx::Result<Vec<TenantRow>> = rows.fetch_all(&store.reader).await;
    TenantRow::tenants(rows.map_err(at("reading the namespaces"))?)
}

pub(super) async fn keep(pool: &SqlitePool, namespace: &Namespace, micros: i64) -> Result<()> {
    let kept = sqlx::query(KEEP).bind(namespace.as_str()).bind(micros);
    let kept = kept.execute(pool).await;
    kept.map(drop).map_err(at_commit("setting a retention"))
}

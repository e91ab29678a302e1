//! What goes.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::retention::{Retire, Tenant};
use super::super::rows::{DueRow, TenantRow};
use super::Mysql;
use super::batch::Transaction;
use super::error::{at, at_commit};
use super::sql::{clock, ids};
use crate::model::{Namespace, micros};

const DUE: &str = concat!(
    "SELECT namespace, workflow_id, run_id, history_length
     FROM workflow_runs FORCE INDEX (workflow_runs_closed)
     WHERE namespace = ? AND closed_at IS NOT NULL AND closed_at <= ",
    clock!(),
    " - ? AND (NOT ? OR EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = workflow_runs.run_id))
     ORDER BY closed_at, run_id LIMIT ?"
);

/// The instances of a portion.
macro_rules! instances {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (
            namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
            workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.workflow_id',
            run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.run_id')) w"
    };
}

const LOCK_INSTANCES: &str = concat!(
    "SELECT STRAIGHT_JOIN i.workflow_id FROM ",
    instances!(),
    " JOIN workflow_instances i FORCE INDEX (PRIMARY)
        ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id FOR UPDATE /*!80000 OF i */"
);

/// Only those that are still there and closed: another may have taken them.
const LOCK_RUNS: &str = concat!(
    "SELECT STRAIGHT_JOIN r.run_id FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id
      WHERE r.closed_at IS NOT NULL FOR UPDATE /*!80000 OF r */"
);

const DROP_OF_INSTANCES: [&str; 2] = [
    concat!(
        "DELETE c FROM ",
        instances!(),
        " STRAIGHT_JOIN workflow_commands c FORCE INDEX (PRIMARY)
            ON c.namespace = w.namespace AND c.workflow_id = w.workflow_id
            AND c.run_id = w.run_id"
    ),
    concat!(
        "DELETE i FROM ",
        instances!(),
        " STRAIGHT_JOIN workflow_instances i FORCE INDEX (PRIMARY)
            ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id
            AND i.current_run_id = w.run_id"
    ),
];

macro_rules! drop_of {
    ($table:literal) => {
        concat!(
            "DELETE t FROM ",
            ids!(),
            " STRAIGHT_JOIN ",
            $table,
            " t ON t.run_id = w.id"
        )
    };
}

const DROP: [&str; 8] = [
    drop_of!("workflow_history"),
    drop_of!("workflow_inbox"),
    drop_of!("activity_attempts"),
    drop_of!("workflow_attributes"),
    drop_of!("workflow_memos"),
    drop_of!("workflow_archives"),
    concat!(
        "DELETE t FROM ",
        ids!(),
        " STRAIGHT_JOIN workflow_tasks t FORCE INDEX (PRIMARY)
            ON t.task_id > concat(w.id, ':') AND t.task_id < concat(w.id, ';') AND t.run_id = w.id"
    ),
    drop_of!("workflow_runs"),
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
    WHERE n.namespace IS NOT NULL AND (? IS NULL OR n.namespace = ?)";

const KEEP: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, retention_us, created_at) VALUES (?, ?, ",
    clock!(),
    ") ON DUPLICATE KEY UPDATE retention_us = VALUES(retention_us)"
);

pub(super) async fn retire(store: &Mysql, retire: &Retire) -> Result<u64> {
    const WHAT: &str = "removing closed runs";
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let due = sqlx::query_as(DUE)
        .bind(retire.namespace.as_str())
        .bind(micros(retire.closed_for))
        .bind(retire.archived)
        .bind(i64::from(retire.runs))
        .fetch_all(&mut *transaction.inner);
    let mut going = DueRow::portion(due.await.map_err(at(WHAT))?, retire)?;
    let _: Vec<(String,)> = transaction.read(LOCK_INSTANCES, &going).await?;
    let runs: Vec<(String,)> = transaction.read(LOCK_RUNS, &DueRow::runs(&going)).await?;
    let runs: Vec<_> = runs.into_iter().map(|(run,)| run).collect();
    going.retain(|row| runs.contains(&row.run_id));
    for statement in DROP_OF_INSTANCES {
        transaction.put(statement, &going).await?;
    }
    for statement in DROP {
        transaction.put(statement, &runs).await?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(runs.len() as u64)
}

pub(super) async fn tenants(store: &Mysql) -> Result<Vec<Tenant>> {
    let rows = sqlx::query_as(TENANTS)
        .bind(store.scope())
        .bind(store.scope());
    let rows: sqlx::Result<Vec<TenantRow>> = rows.fetch_all(&store.pool).await;
    TenantRow::tenants(rows.map_err(at("reading the namespaces"))?)
}

pub(super) async fn keep(pool: &MySqlPool, namespace: &Namespace, micros: i64) -> Result<()> {
    let kept = sqlx::query(KEEP).bind(namespace.as_str()).bind(micros);
    let kept = kept.execute(pool).await;
    kept.map(drop).map_err(at_commit("setting a retention"))
}

//! What leaves before its retention ends.

use coord_core::Result;

use super::super::archive::{Archival, ClosedRuns, Unarchived};
use super::super::rows::{ClosedRow, is_whole};
use super::Mysql;
use super::batch::Transaction;
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::micros;

const CLOSED: &str = concat!(
    "SELECT workflow_id, run_id, closed_at, CASE WHEN EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = r.run_id) THEN 1 ELSE 0 END
        AS is_archived
     FROM workflow_runs r FORCE INDEX (workflow_runs_closed)
     WHERE namespace = ? AND closed_at IS NOT NULL AND closed_at <= ",
    clock!(),
    " - ? AND closed_at >= ? AND (closed_at > ? OR run_id > ?)
     ORDER BY closed_at, run_id LIMIT ?"
);

/// Only one that is still there and closed.
const LOCK_RUN: &str = "
    SELECT namespace FROM workflow_runs WHERE run_id = ? AND closed_at IS NOT NULL FOR UPDATE";

/// Whoever archives a run has its lock, so that what is not there does not come meanwhile.
const NOTED: &str = "SELECT COUNT(*) FROM workflow_archives WHERE run_id = ?";

const EVENTS: &str = "SELECT COUNT(*) FROM workflow_history WHERE run_id = ?";

const NOTE: &str = concat!(
    "INSERT INTO workflow_archives (run_id, namespace, archived_at, place)
     VALUES (?, ?, ",
    clock!(),
    ", ?)"
);

const DROP: [&str; 3] = [
    "DELETE FROM workflow_history WHERE run_id = ?",
    "DELETE FROM workflow_inbox WHERE run_id = ?",
    "DELETE FROM activity_attempts WHERE run_id = ?",
];

pub(super) async fn unarchived(store: &Mysql, page: &ClosedRuns) -> Result<Unarchived> {
    let (at_us, run) = match &page.after {
        Some((at, run)) => (at.as_micros(), run.as_str()),
        None => (-1, ""),
    };
    let rows = sqlx::query_as(CLOSED)
        .bind(page.namespace.as_str())
        .bind(micros(page.closed_for))
        .bind(at_us)
        .bind(at_us)
        .bind(run)
        .bind(u64::from(page.limit))
        .fetch_all(&store.pool)
        .await;
    ClosedRow::unarchived(rows.map_err(at("looking for closed runs"))?, page)
}

pub(super) async fn archive(store: &Mysql, archival: &Archival) -> Result<bool> {
    const WHAT: &str = "removing a history that is kept elsewhere";
    let run = archival.run.as_str();
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let locked = sqlx::query_scalar(LOCK_RUN).bind(run);
    let locked = locked.fetch_optional(&mut *transaction.inner).await;
    let namespace: Option<String> = locked.map_err(at(WHAT))?;
    let Some(namespace) = namespace else {
        return Ok(false);
    };
    let noted = sqlx::query_scalar(NOTED).bind(run);
    let noted: sqlx::Result<i64> = noted.fetch_one(&mut *transaction.inner).await;
    if noted.map_err(at(WHAT))? > 0 {
        return Ok(false);
    }
    let events = sqlx::query_scalar(EVENTS).bind(run);
    let events: sqlx::Result<i64> = events.fetch_one(&mut *transaction.inner).await;
    if !is_whole(events.map_err(at(WHAT))?, archival.events)? {
        return Ok(false);
    }
    let noted = sqlx::query(NOTE).bind(run).bind(namespace);
    let noted = noted.bind(&archival.place).execute(&mut *transaction.inner);
    noted.await.map_err(at(WHAT))?;
    for statement in DROP {
        let gone = sqlx::query(statement).bind(run);
        let gone = gone.execute(&mut *transaction.inner).await;
        gone.map_err(at(WHAT))?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(true)
}

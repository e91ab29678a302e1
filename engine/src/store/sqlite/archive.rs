//! What leaves before its retention ends.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::archive::{Archival, ClosedRuns, Unarchived};
use super::super::rows::{ClosedRow, is_whole};
use super::Sqlite;
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::micros;

const CLOSED: &str = concat!(
    "SELECT workflow_id, run_id, closed_at, CASE WHEN EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = r.run_id) THEN 1 ELSE 0 END
        AS is_archived
     FROM workflow_runs r
     WHERE namespace = ?1 AND closed_at IS NOT NULL AND closed_at <= ",
    clock!(),
    " - ?2 AND (closed_at, run_id) > (?3, ?4) ORDER BY closed_at, run_id LIMIT ?5"
);

const RUN: &str = "SELECT namespace FROM workflow_runs WHERE run_id = ?1 AND closed_at IS NOT NULL";

const EVENTS: &str = "SELECT COUNT(*) FROM workflow_history WHERE run_id = ?1";

const NOTE: &str = concat!(
    "INSERT INTO workflow_archives (run_id, namespace, archived_at, place)
     SELECT ?1, ?2, ",
    clock!(),
    ", ?3 WHERE true ON CONFLICT (run_id) DO NOTHING"
);

const DROP: [&str; 3] = [
    "DELETE FROM workflow_history WHERE run_id = ?1",
    "DELETE FROM workflow_inbox WHERE run_id = ?1",
    "DELETE FROM activity_attempts WHERE run_id = ?1",
];

pub(super) async fn unarchived(store: &Sqlite, page: &ClosedRuns) -> Result<Unarchived> {
    let after = page.after.as_ref();
    let rows = sqlx::query_as(CLOSED)
        .bind(page.namespace.as_str())
        .bind(micros(page.closed_for))
        .bind(after.map_or(-1, |(at, _)| at.as_micros()))
        .bind(after.map_or("", |(_, run)| run.as_str()))
        .bind(i64::from(page.limit))
        .fetch_all(&store.reader)
        .await;
    ClosedRow::unarchived(rows.map_err(at("looking for closed runs"))?, page)
}

pub(super) async fn archive(pool: &SqlitePool, archival: &Archival) -> Result<bool> {
    const WHAT: &str = "removing a history that is kept elsewhere";
    let run = archival.run.as_str();
    let begun = super::begin(pool).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let namespace = sqlx::query_scalar(RUN).bind(run);
    let namespace = namespace.fetch_optional(&mut *transaction).await;
    let namespace: Option<String> = namespace.map_err(at(WHAT))?;
    let Some(namespace) = namespace else {
        return Ok(false);
    };
    let events = sqlx::query_scalar(EVENTS).bind(run);
    let events: sqlx::Result<i64> = events.fetch_one(&mut *transaction).await;
    if !is_whole(events.map_err(at(WHAT))?, archival.events)? {
        return Ok(false);
    }
    let noted = sqlx::query(NOTE).bind(run).bind(namespace);
    let noted = noted.bind(&archival.place).execute(&mut *transaction).await;
    if noted.map_err(at(WHAT))?.rows_affected() == 0 {
        return Ok(false);
    }
    for statement in DROP {
        let gone = sqlx::query(statement).bind(run).execute(&mut *transaction);
        gone.await.map_err(at(WHAT))?;
    }
    transaction.commit().await.map_err(at_commit(WHAT))?;
    Ok(true)
}

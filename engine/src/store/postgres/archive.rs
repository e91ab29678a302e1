//! What leaves before its retention ends.

use coord_core::Result;

use super::super::archive::{Archival, ClosedRuns, Unarchived};
use super::super::rows::{ClosedRow, is_whole};
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::clock;
use super::{Postgres, WRITE};
use crate::model::micros;

const CLOSED: &str = concat!(
    "SELECT workflow_id, run_id, closed_at, CASE WHEN EXISTS (
        SELECT 1 FROM workflow_archives a WHERE a.run_id = r.run_id) THEN 1::bigint ELSE 0 END
        AS is_archived
     FROM workflow_runs r
     WHERE namespace = $1 AND closed_at IS NOT NULL AND closed_at <= (SELECT ",
    clock!(),
    " - $2) AND (closed_at, run_id) > ($3, $4) ORDER BY closed_at, run_id LIMIT $5"
);

/// Only one that is still there and closed.
const LOCK_RUN: &str = "
    SELECT namespace FROM workflow_runs WHERE run_id = $1 AND closed_at IS NOT NULL FOR UPDATE";

const EVENTS: &str = "SELECT COUNT(*) FROM workflow_history WHERE run_id = $1";

const NOTE: &str = concat!(
    "INSERT INTO workflow_archives (run_id, namespace, archived_at, place)
     SELECT $1, $2, ",
    clock!(),
    ", $3 ON CONFLICT (run_id) DO NOTHING"
);

const DROP: [&str; 3] = [
    "DELETE FROM workflow_history WHERE run_id = $1",
    "DELETE FROM workflow_inbox WHERE run_id = $1",
    "DELETE FROM activity_attempts WHERE run_id = $1",
];

pub(super) async fn unarchived(store: &Postgres, page: &ClosedRuns) -> Result<Unarchived> {
    const WHAT: &str = "looking for closed runs";
    let after = page.after.as_ref();
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = store
        .statements
        .rows(CLOSED)
        .bind(page.namespace.as_str())
        .bind(micros(page.closed_for))
        .bind(after.map_or(-1, |(at, _)| at.as_micros()))
        .bind(after.map_or("", |(_, run)| run.as_str()))
        .bind(i64::from(page.limit));
    let rows = rows.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    ClosedRow::unarchived(rows, page)
}

pub(super) async fn archive(store: &Postgres, archival: &Archival) -> Result<bool> {
    const WHAT: &str = "removing a history that is kept elsewhere";
    let (statements, run) = (store.statements, archival.run.as_str());
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let connection = &mut *transaction.inner;
    let locked = statements.rows(LOCK_RUN).bind(run);
    let locked: Option<(String,)> = locked
        .fetch_optional(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    let Some((namespace,)) = locked else {
        return Ok(false);
    };
    let events = statements.rows(EVENTS).bind(run);
    let (events,): (i64,) = events.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    if !is_whole(events, archival.events)? {
        return Ok(false);
    }
    let noted = statements.done(NOTE).bind(run).bind(namespace);
    let noted = noted.bind(&archival.place).execute(&mut *connection).await;
    if noted.map_err(at(WHAT))?.rows_affected() == 0 {
        return Ok(false);
    }
    for statement in DROP {
        let gone = statements.done(statement).bind(run);
        gone.execute(&mut *connection).await.map_err(at(WHAT))?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(true)
}

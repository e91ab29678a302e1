//! Plain writes: a batch is one statement, and that its own transaction. Here these are events of
//! turns that go on; others are carried out row by row.

use super::super::Write;
use super::super::batch::appends::{self, Appended, InboxRow};
use super::Mysql;
use super::batch::{LARGEST, WHAT, json};
use super::error::{at, at_commit};
use super::sql::{clock, ids};
use coord_core::Result;

/// Each task is locked before its fence is judged, in the order of the rows, which is that of the
/// ids.
const APPENDS: &str = concat!(
    "INSERT INTO workflow_history (run_id, seq, `type`, step_seq, at, details, codec, payload)
     SELECT STRAIGHT_JOIN w.`run_id`, w.`seq`, w.`kind`, w.`step_seq`, w.`at`, w.`details`,
        w.`codec`, unhex(w.`payload`)
     FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `task_id` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.task_id',
            `epoch` BIGINT PATH '$.epoch',
            `lease_owner` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
                PATH '$.lease_owner',
            `run_id` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.run_id',
            `seq` BIGINT PATH '$.seq',
            `kind` LONGTEXT CHARACTER SET utf8mb4 PATH '$.kind',
            `step_seq` BIGINT PATH '$.step_seq',
            `at` BIGINT PATH '$.at',
            `details` LONGTEXT CHARACTER SET utf8mb4 PATH '$.details',
            `codec` LONGTEXT CHARACTER SET utf8mb4 PATH '$.codec',
            `payload` LONGTEXT CHARACTER SET utf8mb4 PATH '$.payload')) w
     JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.task_id
     WHERE t.status = 'leased' AND t.lease_owner = w.lease_owner AND t.lease_epoch = w.epoch
        AND t.run_id = w.run_id AND t.lease_expires_at > ",
    clock!(),
    " FOR UPDATE /*!80000 OF t */
     ON DUPLICATE KEY UPDATE at = workflow_history.at"
);

const INBOXES: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    clock!(),
    " AS now, r.run_id, r.inbox_seq FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id"
);

pub(super) async fn append(store: &Mysql, writes: &[Write]) -> Result<Appended> {
    let Some(rows) = appends::rows(writes) else {
        return Ok(Appended::Other);
    };
    let json_rows = json(&rows)?;
    if json_rows.len() > store.dialect().most(LARGEST) {
        return Ok(Appended::Other);
    }
    let added = sqlx::query(store.text(APPENDS)).bind(json_rows);
    let added = added.execute(&store.pool).await;
    // One that was there counts as well, as a row that was found.
    if added.map_err(at_commit(WHAT))?.rows_affected() != rows.len() as u64 {
        return Ok(Appended::Some);
    }
    let inboxes = sqlx::query_as(store.text(INBOXES)).bind(json(&appends::runs(writes))?);
    let inboxes: Result<Vec<InboxRow>> = inboxes.fetch_all(&store.pool).await.map_err(at(WHAT));
    Ok(appends::all(writes, &inboxes.map_err(appends::begun)?))
}

#[cfg(test)]
mod tests;

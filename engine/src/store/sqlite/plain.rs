//! Plain writes: a batch is one statement, and that its own transaction. Here these are events of
//! turns that go on; others are carried out row by row.

use coord_core::Result;

use super::super::Write;
use super::super::batch::appends::{self, Appended, InboxRow};
use super::Sqlite;
use super::batch::{WHAT, json};
use super::error::at_commit;
use super::sql::clock;

/// The statement has the write lock before it reads the clock.
const APPENDS: &str = concat!(
    "INSERT INTO workflow_history (run_id, seq, type, step_seq, at, details, codec, payload)
     SELECT w.value->>'run_id', w.value->>'seq', w.value->>'kind', w.value->>'step_seq',
        w.value->>'at', w.value->>'details', w.value->>'codec', unhex(w.value->>'payload')
     FROM json_each(?1) w CROSS JOIN workflow_tasks t ON t.task_id = w.value->>'task_id'
     WHERE t.status = 'leased' AND t.lease_owner = w.value->>'lease_owner'
        AND t.lease_epoch = w.value->>'epoch' AND t.run_id = w.value->>'run_id'
        AND t.lease_expires_at > ",
    clock!(),
    " ON CONFLICT DO NOTHING
     RETURNING ",
    clock!(),
    " AS now, run_id, (SELECT r.inbox_seq FROM workflow_runs r
        WHERE r.run_id = workflow_history.run_id) AS inbox_seq"
);

pub(super) async fn append(store: &Sqlite, writes: &[Write]) -> Result<Appended> {
    let Some(rows) = appends::rows(writes) else {
        return Ok(Appended::Other);
    };
    let added = sqlx::query_as(APPENDS).bind(json(&rows)?);
    let added: Vec<InboxRow> = added
        .fetch_all(&store.writer)
        .await
        .map_err(at_commit(WHAT))?;
    if added.len() != rows.len() {
        return Ok(Appended::Some);
    }
    Ok(appends::all(writes, &added))
}

#[cfg(test)]
mod tests;

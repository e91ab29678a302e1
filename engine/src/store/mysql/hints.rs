//! Hints that processes leave for each other. Each call is a single statement.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::hints::{Hints, PAGE, to_drop};
use super::error::{at, at_commit};

const LEAVE: &str = "INSERT INTO workflow_wakes (message) VALUES (?)";

const READ: &str = "
    SELECT hint_id, message FROM workflow_wakes
    WHERE hint_id > coalesce(?, (SELECT max(hint_id) FROM workflow_wakes) - 200)
    ORDER BY hint_id LIMIT ?";

const DROP: &str = "DELETE FROM workflow_wakes WHERE hint_id <= ?";

pub(super) async fn hint(pool: &MySqlPool, message: &str) -> Result<()> {
    const WHAT: &str = "leaving a hint";
    let left = sqlx::query(LEAVE).bind(message).execute(pool).await;
    let number = left.map_err(at_commit(WHAT))?.last_insert_id();
    if let Some(number) = to_drop(number.cast_signed()) {
        let dropped = sqlx::query(DROP).bind(number).execute(pool).await;
        dropped.map_err(at_commit(WHAT))?;
    }
    Ok(())
}

pub(super) async fn hints(pool: &MySqlPool, after: Option<i64>) -> Result<Hints> {
    let read = sqlx::query_as(READ).bind(after);
    let read = read.bind(PAGE).fetch_all(pool).await;
    let read: Vec<(i64, String)> = read.map_err(at("reading hints"))?;
    Ok(Hints::read(after, read))
}

//! Hints that processes leave for each other. Each call is a single statement.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::hints::{Hints, PAGE, to_drop};
use super::error::{at, at_commit};

const LEAVE: &str = "INSERT INTO workflow_wakes (message) VALUES (?1) RETURNING hint_id";

const READ: &str = "
    SELECT hint_id, message FROM workflow_wakes
    WHERE hint_id > coalesce(?1, (SELECT max(hint_id) FROM workflow_wakes) - 200)
    ORDER BY hint_id LIMIT ?2";

const DROP: &str = "DELETE FROM workflow_wakes WHERE hint_id <= ?1";

pub(super) async fn hint(pool: &SqlitePool, message: &str) -> Result<()> {
    const WHAT: &str = "leaving a hint";
    let left = sqlx::query_scalar(LEAVE)
        .bind(message)
        .fetch_one(pool)
        .await;
    let number: i64 = left.map_err(at_commit(WHAT))?;
    if let Some(number) = to_drop(number) {
        let dropped = sqlx::query(DROP).bind(number).execute(pool).await;
        dropped.map_err(at_commit(WHAT))?;
    }
    Ok(())
}

pub(super) async fn hints(pool: &SqlitePool, after: Option<i64>) -> Result<Hints> {
    let read = sqlx::query_as(READ).bind(after);
    let read = read.bind(PAGE).fetch_all(pool).await;
    let read: Vec<(i64, String)> = read.map_err(at("reading hints"))?;
    Ok(Hints::read(after, read))
}

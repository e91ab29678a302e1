//! Hints that processes leave for each other. Each call is a single statement.

use coord_core::Result;

use super::super::hints::{Hints, PAGE, to_drop};
use super::Postgres;
use super::error::{at, at_commit};
use super::single::Single;

const LEAVE: &str = "INSERT INTO workflow_wakes (message) VALUES ($1) RETURNING hint_id";

const READ: &str = "
    SELECT hint_id, message FROM workflow_wakes
    WHERE hint_id > coalesce($1::int8, (SELECT max(hint_id) FROM workflow_wakes) - 200)
    ORDER BY hint_id LIMIT $2";

const DROP: &str = "DELETE FROM workflow_wakes WHERE hint_id <= $1";

pub(super) async fn hint(store: &Postgres, message: &str) -> Result<()> {
    const WHAT: &str = "leaving a hint";
    let mut connection = Single::begin(store, WHAT).await?;
    let left = store.statements.rows(LEAVE).bind(message);
    let left = left.fetch_one(&mut *connection).await;
    let (number,): (i64,) = left.map_err(at_commit(WHAT))?;
    if let Some(number) = to_drop(number) {
        let dropped = store.statements.done(DROP).bind(number);
        let dropped = dropped.execute(&mut *connection).await;
        dropped.map_err(at_commit(WHAT))?;
    }
    connection.end(store, WHAT).await
}

pub(super) async fn hints(store: &Postgres, after: Option<i64>) -> Result<Hints> {
    const WHAT: &str = "reading hints";
    let mut connection = Single::begin(store, WHAT).await?;
    let read = store.statements.rows(READ).bind(after);
    let read = read.bind(PAGE).fetch_all(&mut *connection).await;
    let read: Vec<(i64, String)> = read.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(Hints::read(after, read))
}

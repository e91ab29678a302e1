//! What the engine asks of a session.

use coord_core::{Error, Result};
use sqlx::MySqlConnection;

use super::error::at;

/// What every session begins with. A transaction that waits five seconds for a lock is in a
/// conflict that it should leave.
pub(super) const SETUP: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION innodb_lock_wait_timeout = 5;
    SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')";

/// The level has one name or the other, by product and version.
const VARIABLES: &str = "SHOW SESSION VARIABLES WHERE Variable_name
    IN ('tx_isolation', 'transaction_isolation', 'time_zone')";

/// Whether the engine can work in a session that it did not set up.
///
/// # Errors
/// `Invalid` when its transactions are not at `READ COMMITTED`: another level reads what is past,
/// and locks what nobody asked for; or when its clock is not in UTC.
pub(super) async fn check(connection: &mut MySqlConnection) -> Result<()> {
    const WHAT: &str = "looking at a session";
    let rows = sqlx::query_as(VARIABLES).fetch_all(connection).await;
    let rows: Vec<(String, String)> = rows.map_err(at(WHAT))?;
    for (name, value) in rows {
        let needed = match name.as_str() {
            "time_zone" => "+00:00",
            _ => "READ-COMMITTED",
        };
        if value != needed {
            let message = format!("a session has {name} {value}, and the engine needs {needed}");
            return Err(Error::invalid(message));
        }
    }
    Ok(())
}

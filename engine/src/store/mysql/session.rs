//! What the engine asks of a session.

use coord_core::{Error, Result};
use sqlx::MySqlConnection;

use super::dialect::Dialect;
use super::error::at;

/// What every session begins with. A transaction that waits five seconds for a lock is in a
/// conflict that it should leave. One in which nothing comes for ten seconds is of a process that
/// stands still, and would hold its locks until that one goes on: MariaDB ends it. MySQL has no such
/// setting, and keeps the locks for as long as the connection lives. The answer is the server's
/// version.
pub(super) const SETUP: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION innodb_lock_wait_timeout = 5 /*M!, SESSION idle_transaction_timeout = 10 */;
    SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES');
    SELECT VERSION()";

/// The level has one name or the other, by product and version.
const VARIABLES: &str = "SHOW SESSION VARIABLES WHERE Variable_name
    IN ('tx_isolation', 'transaction_isolation', 'time_zone', 'version')";

/// Whether the engine can work in a session that it did not set up, and in which dialect.
///
/// # Errors
/// `Invalid` when its transactions are not at `READ COMMITTED`: another level reads what is past,
/// and locks what nobody asked for; or when its clock is not in UTC.
pub(super) async fn check(connection: &mut MySqlConnection) -> Result<Dialect> {
    const WHAT: &str = "looking at a session";
    let rows = sqlx::query_as(VARIABLES).fetch_all(connection).await;
    let rows: Vec<(String, String)> = rows.map_err(at(WHAT))?;
    let mut dialect = Dialect::default();
    for (name, value) in rows {
        let needed = match name.as_str() {
            "version" => {
                dialect = Dialect::of(&value);
                continue;
            }
            "time_zone" => "+00:00",
            _ => "READ-COMMITTED",
        };
        if value != needed {
            let message = format!("a session has {name} {value}, and the engine needs {needed}");
            return Err(Error::invalid(message));
        }
    }
    Ok(dialect)
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, Executor};

    use super::*;
    use crate::store::test_server as server;

    #[tokio::test]
    async fn a_process_that_stands_still_amid_a_transaction_keeps_its_locks_for_seconds() {
        let url = server::url(&server::MYSQL);
        let connected = MySqlConnection::connect(&url).await;
        let Some(mut still) = server::needed(&server::MYSQL, connected) else {
            return;
        };
        let (version,): (String,) = sqlx::query_as("SELECT VERSION()")
            .fetch_one(&mut still)
            .await
            .expect("a version");
        if !version.contains("MariaDB") {
            return;
        }
        let mut other = MySqlConnection::connect(&url).await.expect("another");
        let name = format!("coord_test_{}", crate::model::Ids::random().stem());
        let made = format!(
            "CREATE DATABASE {name}; USE {name}; CREATE TABLE t (n INT PRIMARY KEY);
             INSERT INTO t VALUES (1)"
        );
        let locked = format!("{SETUP}; USE {name}; BEGIN; SELECT n FROM t FOR UPDATE");
        for sql in [made, locked] {
            let done = still.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await;
            done.expect("a row that is locked");
        }

        let update =
            format!("USE {name}; SET SESSION innodb_lock_wait_timeout = 3600; UPDATE t SET n = 2");
        let updated = other
            .execute(sqlx::raw_sql(sqlx::AssertSqlSafe(update)))
            .await;
        let late = still.execute(sqlx::raw_sql("COMMIT")).await;
        let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"));
        let dropped = other.execute(sqlx::raw_sql(drop)).await;

        updated.expect("when the server has ended the other");
        late.expect_err("it was ended");
        dropped.expect("dropped");
    }
}

//! The connections of a store.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{Executor, Row};

use super::super::begin::read_rest;
use super::dialect::Dialect;
use super::session;

/// How long a call waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// At most `connections` connections, each a session as this store needs it. The first one learns
/// the server's dialect.
pub(super) fn pool(
    connections: u32,
    options: MySqlConnectOptions,
    dialect: &Arc<OnceLock<Dialect>>,
) -> MySqlPool {
    let dialect = Arc::clone(dialect);
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        .after_connect(move |connection, _| {
            let dialect = Arc::clone(&dialect);
            Box::pin(async move {
                let said = connection.fetch_one(sqlx::raw_sql(session::SETUP)).await?;
                let said: String = said.try_get(0)?;
                dialect.get_or_init(|| Dialect::of(&said));
                Ok(())
            })
        })
        .after_release(|connection, _| Box::pin(read_rest(connection)))
        .connect_lazy_with(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_server as server;

    #[tokio::test]
    async fn a_call_that_was_dropped_before_a_late_answer_does_not_keep_its_connection() {
        let options = server::url(&server::MYSQL).parse().expect("a url");
        let pool = pool(1, options, &Arc::default());
        let first = pool.acquire().await;
        if server::needed(&server::MYSQL, first).is_none() {
            return;
        }
        let late = sqlx::query("SELECT SLEEP(60)").fetch_all(&pool);
        let dropped = tokio::time::timeout(Duration::from_millis(500), late).await;
        dropped.expect_err("it takes a minute");

        let next = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await;

        let one: i32 = next.expect("another connection, within the patience of the pool");
        assert_eq!(one, 1);
    }
}

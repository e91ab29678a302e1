//! The connections of a store.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{Connection, Executor};

use super::session;

/// How long a call waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);
/// How long the rest of an answer may take that nobody waits for any more.
const REST: Duration = Duration::from_secs(2);

/// At most `connections` connections, each a session as this store needs it.
///
/// A call that is dropped amid its answer leaves the rest of it to be read before anything else,
/// and its connection may wait for rows that never come: the driver has lost count of them. Such a
/// connection would never come back to the pool, nor make room for another, so it is closed.
pub(super) fn pool(connections: u32, options: MySqlConnectOptions) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(sqlx::raw_sql(session::SETUP)).await?;
                Ok(())
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move {
                match tokio::time::timeout(REST, connection.flush()).await {
                    Ok(Ok(())) => Ok(true),
                    Ok(Err(error)) => Err(error),
                    Err(_) => {
                        let reason = "a dropped call's answer has no end";
                        Err(sqlx::Error::Protocol(reason.to_owned()))
                    }
                }
            })
        })
        .connect_lazy_with(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_server as server;

    #[tokio::test]
    async fn calls_that_are_dropped_amid_their_answers_cost_the_pool_no_connection() {
        const MANY_ROWS: &str = "SELECT REPEAT('x', 1000) FROM information_schema.columns
            LIMIT 300";
        let options = server::url(&server::MYSQL).parse().expect("a url");
        let pool = pool(2, options);
        let first = pool.acquire().await;
        if server::needed(&server::MYSQL, first).is_none() {
            return;
        }
        for micros in (0..3000).step_by(15) {
            let read = sqlx::query(MANY_ROWS).fetch_all(&pool);
            _ = tokio::time::timeout(Duration::from_micros(micros), read).await;
        }

        let mut held = Vec::new();
        for n in 0..2 {
            let mut connection = pool.acquire().await.expect("a connection");
            let read = sqlx::query_as("SELECT CAST(? AS SIGNED)").bind(n);
            let (answer,): (i64,) = read.fetch_one(&mut *connection).await.expect("an answer");
            assert_eq!(answer, n);
            held.push(connection);
        }
    }
}

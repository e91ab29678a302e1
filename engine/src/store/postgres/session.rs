//! The connections of a store, and what every session is set to.

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{Connection, Executor, Transaction};

use super::super::begin::{begin, read_rest, reason};
use super::{ACQUIRE, Statements, kept};
use crate::operator::Connections;

/// What every session is set to. Each statement sees what was committed before it; one that waits
/// five seconds for a lock is in a conflict that it should leave. A transaction in which nothing
/// comes for ten seconds is of a process that stands still, and would hold its locks until that one
/// goes on: the server ends it.
///
/// Statements are planned once. Each has an index that serves it, and a plan that was made while a
/// table was small must not walk over it when it has grown; what that rules out costs the planner
/// so much that it would compile the rest.
pub(super) const SETUP: &str = "SET default_transaction_isolation = 'read committed'; \
    SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '10s'; \
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

/// Connections, to be had one at a time for a transaction or a named statement.
///
/// A statement without a name is prepared in one round trip and carried out in another, and a
/// pooler that gives each transaction another connection gives one to each of the two. So nothing
/// here carries out a statement: whoever needs one begins a transaction, or asks
/// [`Single`](super::single::Single), which knows when it has to.
#[derive(Clone, Debug)]
pub(super) struct Sessions(PgPool);

impl Sessions {
    /// A connection that was given back a moment ago is not asked again whether it lives: the pool
    /// has asked it then.
    pub(super) fn open(most: u32, options: PgConnectOptions, statements: Statements) -> Self {
        let options = on_this_machine(options);
        let pool = PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(ACQUIRE)
            .test_before_acquire(false)
            .before_acquire(|connection, rest| {
                Box::pin(async move {
                    if rest.idle_for > kept::FRESH {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_release(|connection, _| Box::pin(read_rest(connection)))
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if statements.named {
                        connection.execute(SETUP).await?;
                    }
                    Ok(())
                })
            });
        Self(pool.connect_lazy_with(options))
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::clone(&self.0.connect_options())
    }

    pub(super) fn connections(&self) -> Connections {
        Connections {
            open: self.0.size(),
            idle: u32::try_from(self.0.num_idle()).unwrap_or(u32::MAX),
            most: self.0.options().get_max_connections(),
        }
    }

    pub(super) async fn begin(
        &self,
        how: &'static str,
    ) -> sqlx::Result<Transaction<'static, sqlx::Postgres>> {
        begin(&self.0, how).await
    }

    /// A connection for statements that have names.
    pub(super) async fn bare(&self) -> sqlx::Result<PoolConnection<sqlx::Postgres>> {
        match self.0.acquire().await {
            Err(error) => Err(reason(&self.0, error).await),
            connection => connection,
        }
    }
}

/// Without TLS to a server on this machine, unless it is asked for: `prefer`, the default, protects
/// from nobody there. And it costs: the driver leaves Nagle's algorithm on and writes each record of
/// TLS by itself, so a batch of more than one record waits 40 ms for the server's acknowledgement.
fn on_this_machine(options: PgConnectOptions) -> PgConnectOptions {
    let host = options.get_host();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    if is_here && matches!(options.get_ssl_mode(), PgSslMode::Prefer) {
        options.ssl_mode(PgSslMode::Disable)
    } else {
        options
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::test_server as server;

    #[tokio::test]
    async fn a_process_that_stands_still_amid_a_transaction_keeps_its_locks_for_seconds() {
        const LOCK: &str = "SELECT pg_advisory_xact_lock(7302164, 1)";
        let url = format!("{}/postgres", server::url(&server::POSTGRES));
        let connected = sqlx::PgConnection::connect(&url).await;
        let Some(mut still) = server::needed(&server::POSTGRES, connected) else {
            return;
        };
        let mut other = sqlx::PgConnection::connect(&url).await.expect("another");
        let still_session = format!("{SETUP}; BEGIN; {LOCK}");
        let locked = sqlx::raw_sql(sqlx::AssertSqlSafe(still_session))
            .execute(&mut still)
            .await;
        locked.expect("the lock");

        let got = sqlx::raw_sql(LOCK).execute(&mut other).await;

        got.expect("the lock, when the server has ended the other");
        let late = sqlx::raw_sql("COMMIT").execute(&mut still).await;
        late.expect_err("it was ended");
    }

    #[test]
    fn only_a_server_on_this_machine_is_talked_to_without_tls_and_only_if_nobody_asks_for_it() {
        let mode = |url: &str| {
            let options = on_this_machine(url.parse().expect("a url"));
            format!("{:?}", options.get_ssl_mode())
        };

        for here in ["localhost", "127.0.0.1:5433", "[::1]"] {
            assert_eq!(
                mode(&format!("postgres://u@{here}/d?sslmode=prefer")),
                "Disable"
            );
            assert_eq!(
                mode(&format!("postgres://u@{here}/d?sslmode=require")),
                "Require"
            );
        }
        assert_eq!(mode("postgres://u@db.example/d?sslmode=prefer"), "Prefer");
    }

    #[tokio::test]
    async fn a_call_that_was_dropped_before_a_late_answer_does_not_keep_its_connection() {
        let url = format!(
            "{}/postgres?sslmode=disable",
            server::url(&server::POSTGRES)
        );
        let options = url.parse().expect("a url");
        let sessions = Sessions::open(1, options, Statements { named: true });
        if server::needed(&server::POSTGRES, sessions.bare().await).is_none() {
            return;
        }
        let late = async {
            let mut connection = sessions.bare().await.expect("a connection");
            let late = sqlx::query("SELECT pg_sleep(60)");
            late.execute(&mut *connection).await
        };
        let dropped = tokio::time::timeout(Duration::from_millis(500), late).await;
        dropped.expect_err("it takes a minute");

        let mut next = sessions.bare().await.expect("another connection");

        let one = sqlx::query_scalar("SELECT 1").fetch_one(&mut *next).await;
        let one: i32 = one.expect("an answer");
        assert_eq!(one, 1);
    }
}

//! How a transaction begins on a server, and how a connection comes back.

use std::io;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Database, Pool, SqlSafeStr, Transaction};

/// How long the server may take to say why nobody connects.
const ANSWER: Duration = Duration::from_secs(1);
/// How long the rest of an answer may take that nobody waits for any more.
const REST: Duration = Duration::from_secs(2);

/// Begins a transaction with `how` on a connection of `pool`.
///
/// The driver counts a transaction only when it has the server's answer. A beginning that is
/// dropped before would leave its connection to the next caller inside of a transaction that nobody
/// commits, so it runs in a task of its own, which is never dropped.
#[allow(
    clippy::disallowed_methods,
    reason = "whoever owned the task would end it as well; the pool bounds it, as its own tasks"
)]
pub(super) async fn begin<D: Database>(
    pool: &Pool<D>,
    how: impl SqlSafeStr + Send + 'static,
) -> sqlx::Result<Transaction<'static, D>> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move {
        match pool.begin_with(how).await {
            Err(error) => Err(reason(&pool, error).await),
            begun => begun,
        }
    });
    // It ends early only with the runtime.
    begun.await.unwrap_or(Err(sqlx::Error::PoolClosed))
}

/// Reads what is left of the answer to a call that was dropped, before the connection goes to
/// another one. Where it takes long, or for ever as from a server that is cut off, the connection
/// would keep its place in the pool for as long, so it is given up. Over TLS the driver then still
/// waits for the server to say goodbye.
pub(super) async fn read_rest(connection: &mut impl Connection) -> sqlx::Result<bool> {
    let silent = |_| {
        let reason = "the answer to a call that was dropped does not come";
        Err(sqlx::Error::Protocol(reason.to_owned()))
    };
    let read = tokio::time::timeout(REST, connection.flush()).await;
    read.unwrap_or_else(silent).map(|()| true)
}

/// What is behind `error`: a pool that is refused tries again until its patience ends, and says
/// then only that it did.
pub(super) async fn reason<D: Database>(pool: &Pool<D>, error: sqlx::Error) -> sqlx::Error {
    let nobody_connected = pool.size() == 0;
    if !(nobody_connected && matches!(error, sqlx::Error::PoolTimedOut)) {
        return error;
    }
    let options = pool.connect_options();
    let connected = D::Connection::connect_with(&options);
    match tokio::time::timeout(ANSWER, connected).await {
        Ok(Err(sqlx::Error::Io(cause))) => {
            let said = format!("{}: {cause}", place(&*options));
            sqlx::Error::Io(io::Error::new(cause.kind(), said))
        }
        Ok(Err(cause)) => cause,
        // It connects by now, or does not answer at all.
        _ => error,
    }
}

/// Where a server is, for whoever has to go there.
pub(super) fn place(options: &impl ConnectOptions) -> String {
    let url = options.to_url_lossy();
    let host = url.host_str().unwrap_or("its socket");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

//! How a transaction begins on a server.

use sqlx::{Database, Pool, SqlSafeStr, Transaction};

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
    let begun = tokio::spawn(async move { pool.begin_with(how).await });
    // It ends early only with the runtime.
    begun.await.unwrap_or(Err(sqlx::Error::PoolClosed))
}

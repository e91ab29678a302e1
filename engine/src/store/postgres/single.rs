//! Statements that are transactions of their own.

use std::ops::{Deref, DerefMut};

use coord_core::Result;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnection;

use super::Postgres;
use super::error::{at, at_commit};

/// A connection for one such statement, and for reads after it.
///
/// A statement without a name is prepared and carried out in two round trips. A pooler may give
/// each of them another session, unless a transaction holds them together.
pub(super) enum Single {
    Bare(PoolConnection<sqlx::Postgres>),
    Held(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Single {
    pub(super) async fn begin(store: &Postgres, what: &'static str) -> Result<Self> {
        if store.statements.named {
            return store.kept.take(&store.sessions).await.map(Self::Bare);
        }
        let begun = store.sessions.begin("BEGIN").await;
        begun.map(Self::Held).map_err(at(what))
    }

    /// Ends it, after its statements succeeded.
    pub(super) async fn end(self, store: &Postgres, what: &'static str) -> Result<()> {
        match self {
            Self::Bare(connection) => {
                store.kept.keep(connection);
                Ok(())
            }
            Self::Held(transaction) => transaction.commit().await.map_err(at_commit(what)),
        }
    }
}

impl Deref for Single {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Bare(connection) => connection,
            Self::Held(transaction) => transaction,
        }
    }
}

impl DerefMut for Single {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Bare(connection) => connection,
            Self::Held(transaction) => transaction,
        }
    }
}

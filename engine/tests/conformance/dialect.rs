//! Databases for tests: each test has one of its own.

use std::sync::Arc;

use coord_engine::store::{Sqlite, Store};
use sqlx::Connection;

/// A database that goes with its test.
pub(crate) enum Database {
    SqliteFile(tempfile::TempDir),
    SqliteMemory(Sqlite),
}

/// A transaction that holds locks until it is let go.
pub(crate) enum Holding {
    Sqlite(sqlx::SqliteConnection),
}

impl Database {
    pub(crate) fn sqlite_file() -> Self {
        Self::SqliteFile(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn sqlite_memory() -> Self {
        Self::SqliteMemory(Sqlite::memory())
    }

    /// A store as another process would open it.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::SqliteFile(folder) => Arc::new(Sqlite::file(folder.path().join("engine.db"))),
            Self::SqliteMemory(store) => Arc::new(store.clone()),
        }
    }

    /// An empty one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        match self {
            Self::SqliteFile(_) => Self::sqlite_file(),
            Self::SqliteMemory(_) => Self::sqlite_memory(),
        }
    }

    /// Changes the schema behind the store's back, where there is a back door.
    pub(crate) async fn execute(&self, sql: &'static str) -> bool {
        let Some(holding) = self.hold(sql).await else {
            return false;
        };
        holding.let_go().await;
        true
    }

    /// Holds the rows that `update` changes, without changing them for others. `None` where nobody
    /// else can hold anything.
    pub(crate) async fn hold(&self, update: &'static str) -> Option<Holding> {
        match self {
            Self::SqliteFile(folder) => {
                let url = format!("sqlite:{}", folder.path().join("engine.db").display());
                let connection = sqlx::SqliteConnection::connect(&url).await;
                let mut connection = connection.expect("a connection");
                for statement in ["BEGIN IMMEDIATE", update] {
                    let done = sqlx::raw_sql(statement).execute(&mut connection).await;
                    done.expect("a lock");
                }
                Some(Holding::Sqlite(connection))
            }
            Self::SqliteMemory(_) => None,
        }
    }
}

impl Holding {
    /// Lets go, and says when that was on the database's clock.
    pub(crate) async fn let_go(self) -> i64 {
        match self {
            Self::Sqlite(mut connection) => {
                let clock = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000";
                let now = sqlx::query_scalar(clock).fetch_one(&mut connection).await;
                let done = sqlx::raw_sql("COMMIT").execute(&mut connection).await;
                done.expect("released");
                now.expect("the clock")
            }
        }
    }
}

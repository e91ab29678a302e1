//! The transaction of a caller, into which writes of the engine go along with the caller's own.

use coord_core::Error;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use coord_core::Result;
use std::convert::Infallible;

/// A transaction that the caller has begun and will end, of any dialect that is compiled in. Made
/// from a `&mut sqlx::Transaction`.
#[derive(Debug)]
pub enum CallerTransaction<'a> {
    /// Of none: what a build without any dialect has.
    Nobody(&'a Infallible),
    /// Of PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'a mut sqlx::PgConnection),
    /// Of `MySQL` or `MariaDB`.
    #[cfg(feature = "mysql")]
    Mysql(&'a mut sqlx::MySqlConnection),
    /// Of SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite(&'a mut sqlx::SqliteConnection),
}

macro_rules! dialects {
    ($($feature:literal $Kind:ident $take:ident $Database:ident $Connection:ident;)+) => {$(
        #[cfg(feature = $feature)]
        impl<'a> From<&'a mut sqlx::Transaction<'_, sqlx::$Database>> for CallerTransaction<'a> {
            fn from(transaction: &'a mut sqlx::Transaction<'_, sqlx::$Database>) -> Self {
                Self::$Kind(&mut *transaction)
            }
        }

        #[cfg(feature = $feature)]
        impl<'a> CallerTransaction<'a> {
            pub(super) fn $take(self) -> Result<&'a mut sqlx::$Connection> {
                match self {
                    Self::$Kind(connection) => Ok(connection),
                    _ => Err(foreign()),
                }
            }
        }
    )+};
}

dialects! {
    "postgres" Postgres postgres Postgres PgConnection;
    "mysql" Mysql mysql MySql MySqlConnection;
    "sqlite" Sqlite sqlite Sqlite SqliteConnection;
}

/// The transaction is not one of the engine's database.
pub(super) fn foreign() -> Error {
    Error::invalid("writing in the caller's transaction: the engine has another kind of database")
}

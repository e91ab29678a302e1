//! What an error of `MySQL` or `MariaDB` means for the caller. The only reader of their codes.

use coord_core::{Error, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

/// An error of a statement: the transaction around it is rolled back.
pub(super) fn at(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| Error::new(kind(&error), what).with_source(error)
}

/// An error of a commit, or of a statement that is its own transaction.
pub(super) fn at_commit(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let kind = match kind(&error) {
            ErrorKind::Unavailable if was_sent(&error) => ErrorKind::Timeout,
            kind => kind,
        };
        Error::new(kind, what).with_source(error)
    }
}

/// An error of a statement that makes the tables, or looks whether they are there: what is missing,
/// and what to do about it.
pub(super) fn at_schema(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| match number(&error) {
        Some(NO_SUCH_TABLE) => Error::invalid(
            "the tables of the engine are not in this database: run `coord migrate` as a user who \
             may create them",
        )
        .with_source(error),
        Some(number) if DENIED.contains(&number) => Error::invalid(
            "this user may not do that with the tables of the engine: GRANT it SELECT, INSERT, \
             UPDATE, DELETE on all tables of the database, and to migrate CREATE, ALTER, INDEX, \
             DROP and REFERENCES too",
        )
        .with_source(error),
        _ => at(what)(error),
    }
}

const NO_SUCH_TABLE: u16 = 1146;
/// Denied for a database, a table and a column.
const DENIED: [u16; 3] = [1044, 1142, 1143];

/// A server that is going down, and a session that was killed.
const GOING: [u16; 4] = [1053, 1317, 1927, 3024];

/// Whether the server may have carried out what broke off.
fn was_sent(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Configuration(_) => {
            false
        }
        sqlx::Error::Database(_) => number(error).is_none_or(|number| GOING.contains(&number)),
        _ => true,
    }
}

const DUPLICATE_KEY: u16 = 1062;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;
/// `MariaDB`: the row was changed since the snapshot.
const CHECK_READ: u16 = 1020;
/// The session's packets are too small for the statement.
const PACKET_TOO_LARGE: u16 = 1153;
/// Text that the column's character set does not have.
const TEXT: [u16; 2] = [1267, 1366];

fn kind(error: &sqlx::Error) -> ErrorKind {
    match number(error) {
        Some(DUPLICATE_KEY | LOCK_WAIT_TIMEOUT | DEADLOCK | CHECK_READ) => {
            return ErrorKind::Contended;
        }
        Some(PACKET_TOO_LARGE) => return ErrorKind::Invalid,
        Some(number) if TEXT.contains(&number) => return ErrorKind::Invalid,
        _ => {}
    }
    match (class(error).as_deref(), error) {
        // Data exceptions and constraints.
        (Some("22" | "23"), _) | (_, sqlx::Error::Encode(_)) => ErrorKind::Invalid,
        (
            _,
            sqlx::Error::Decode(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_),
        ) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

/// Whether a row is locked that was not to be waited for.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    number(error) == Some(LOCK_WAIT_TIMEOUT)
}

/// The number of the error, which is finer than its SQLSTATE.
fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    Some(error.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// The first two characters of the SQLSTATE.
fn class(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    Some(code.get(..2)?.to_owned())
}

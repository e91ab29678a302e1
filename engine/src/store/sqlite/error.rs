//! What an error of SQLite means for the caller. The only reader of its codes.

use coord_core::{Error, ErrorKind};

/// An error of a statement: the transaction around it is rolled back.
pub(super) fn at(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| Error::new(kind(&error), what).with_source(error)
}

/// An error of a commit, or of a statement that is its own transaction.
pub(super) fn at_commit(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let kind = match primary(&error) {
            // Whether the commit reached the disk is not known.
            Some(IO) | None if kind(&error) == ErrorKind::Unavailable => ErrorKind::Timeout,
            _ => kind(&error),
        };
        Error::new(kind, what).with_source(error)
    }
}

const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const IO: u32 = 10;
const CORRUPT: u32 = 11;
const TOO_BIG: u32 = 18;
const CONSTRAINT: u32 = 19;
const MISMATCH: u32 = 20;
const NOT_A_DATABASE: u32 = 26;

fn kind(error: &sqlx::Error) -> ErrorKind {
    match (primary(error), error) {
        (Some(BUSY | LOCKED), _) => ErrorKind::Contended,
        // Another transaction was faster with the same key: the next try finds its row.
        (Some(CONSTRAINT), sqlx::Error::Database(error)) if error.is_unique_violation() => {
            ErrorKind::Contended
        }
        (Some(CONSTRAINT | TOO_BIG | MISMATCH), _) | (_, sqlx::Error::Encode(_)) => {
            ErrorKind::Invalid
        }
        (Some(CORRUPT | NOT_A_DATABASE), _)
        | (
            _,
            sqlx::Error::Decode(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_),
        ) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

/// The primary result code: the low byte of the extended one.
fn primary(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?.parse::<u32>().ok()?;
    Some(code & 0xff)
}

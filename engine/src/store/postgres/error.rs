//! What an error of PostgreSQL means for the caller. The only reader of its codes.

use coord_core::{Error, ErrorKind};

/// An error of a statement: the transaction around it is rolled back.
pub(super) fn at(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| Error::new(kind(&error), meant(what, &error)).with_source(error)
}

/// An error of a commit, or of a statement that is its own transaction.
pub(super) fn at_commit(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let kind = match kind(&error) {
            ErrorKind::Unavailable if was_sent(&error) => ErrorKind::Timeout,
            kind => kind,
        };
        Error::new(kind, meant(what, &error)).with_source(error)
    }
}

/// An error of a statement that makes the tables.
pub(super) fn at_migration(what: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| match code(&error).as_deref() {
        Some(DENIED) => Error::invalid(
            "migrating the schema: this user may not; migrate as the owner of the tables, or GRANT \
             it CREATE on the schema",
        )
        .with_source(error),
        _ => at(what)(error),
    }
}

const DENIED: &str = "42501";

/// A named statement that its session does not know, or knows already: there is a pooler that
/// gives each transaction another session, and carries no statements along.
const NAMED: [&str; 2] = ["26000", "42P05"];

/// What was done when `error` came, or what has to be done about it.
fn meant(what: &'static str, error: &sqlx::Error) -> &'static str {
    if code(error).is_some_and(|code| NAMED.contains(&code.as_str())) {
        "naming statements behind a pooler that loses them; call Postgres::without_named_statements"
    } else {
        what
    }
}

/// Whether the server may have carried out what broke off.
fn was_sent(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Configuration(_) => {
            false
        }
        // It answered, and did not; unless it was going down, or does not know either.
        sqlx::Error::Database(_) => {
            matches!(class(error).as_deref(), Some("08" | "57" | "58" | "XX"))
        }
        _ => true,
    }
}

fn kind(error: &sqlx::Error) -> ErrorKind {
    let code = code(error);
    match (code.as_deref(), class(error).as_deref()) {
        // Serialization failure, deadlock, a lock that was not to be had; or another transaction
        // was faster with the same key, and the next try finds its row.
        (Some("40001" | "40P01" | "55P03" | "23505"), _) => return ErrorKind::Contended,
        (Some(code), _) if NAMED.contains(&code) => return ErrorKind::Invalid,
        // Data exceptions, constraints, limits of the program.
        (_, Some("22" | "23" | "54")) => return ErrorKind::Invalid,
        _ => {}
    }
    match error {
        sqlx::Error::Encode(_) => ErrorKind::Invalid,
        sqlx::Error::Decode(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

/// The SQLSTATE.
fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// The first two characters of the SQLSTATE.
fn class(error: &sqlx::Error) -> Option<String> {
    Some(code(error)?.get(..2)?.to_owned())
}

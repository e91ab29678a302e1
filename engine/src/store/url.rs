//! The store of a place.

use std::sync::Arc;

use coord_core::{Error, Result};

use super::{Product, Server, Store};

/// The store at `url`, of the dialect that its scheme names. Nothing is opened yet.
///
/// # Errors
/// `Invalid` when the scheme is none of ours, when this build lacks its dialect, or when the rest
/// does not read. The url itself is not in the message: it may hold a password.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "postgres" | "postgresql" => postgres(url),
        "mysql" | "mariadb" => mysql(url),
        "sqlite" => sqlite(url),
        other => Err(Error::invalid(format!(
            "opening the database: its url begins with {other:?}, and is to begin with postgres:, \
             mysql:, mariadb: or sqlite:"
        ))),
    }
}

/// The store at `server`. Nothing is opened yet.
///
/// # Errors
/// `Invalid` when this build lacks its dialect.
pub(crate) fn open_at(server: &Server) -> Result<Arc<dyn Store>> {
    match server.product {
        Product::Postgres => postgres_at(server),
        Product::Mysql => mysql_at(server),
    }
}

/// The store in `file`, or in memory for `:memory:`. Nothing is opened yet.
///
/// # Errors
/// `Invalid` when this build lacks its dialect.
pub(crate) fn open_file(file: &str) -> Result<Arc<dyn Store>> {
    if file == ":memory:" {
        return sqlite("sqlite::memory:");
    }
    sqlite_file(file)
}

/// The store at `url` of PostgreSQL, with statements that have no names. Nothing is opened yet.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_behind_pooler(url: &str) -> Result<Arc<dyn Store>> {
    pooled(url)
}

/// The store at `server` of PostgreSQL, with statements that have no names. Nothing is opened yet.
///
/// # Errors
/// As [`open_at`].
pub(crate) fn open_behind_pooler_at(server: &Server) -> Result<Arc<dyn Store>> {
    pooled_at(server)
}

macro_rules! dialect {
    ($feature:literal $name:ident($place:ident: $Place:ty) $open:expr) => {
        fn $name($place: &$Place) -> Result<Arc<dyn Store>> {
            #[cfg(feature = $feature)]
            return Ok(Arc::new($open));
            #[cfg(not(feature = $feature))]
            {
                _ = $place;
                Err(Error::invalid(concat!(
                    "opening the database: this program was built without the feature `",
                    $feature,
                    "` of coord-engine"
                )))
            }
        }
    };
}

dialect! { "postgres" postgres(url: str) super::Postgres::connect(url)? }
dialect! { "postgres" postgres_at(server: Server) super::Postgres::at(server) }
dialect! { "postgres" pooled(url: str) super::Postgres::connect(url)?.without_named_statements() }
dialect! {
    "postgres" pooled_at(server: Server) super::Postgres::at(server).without_named_statements()
}
dialect! { "mysql" mysql(url: str) super::Mysql::connect(url)? }
dialect! { "mysql" mysql_at(server: Server) super::Mysql::at(server) }
dialect! { "sqlite" sqlite(url: str) super::Sqlite::connect(url)? }
dialect! { "sqlite" sqlite_file(file: str) super::Sqlite::file(file) }

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let error = open(url).err().expect("refused");
        assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
        error.to_string()
    }

    #[test]
    fn a_scheme_that_nobody_knows_is_named_and_the_password_is_not() {
        let message = refused("oracle://root:secret@db/engine");

        assert!(
            message.contains("oracle") && message.contains("sqlite:"),
            "{message}"
        );
        assert!(!message.contains("secret"), "{message}");
        assert!(refused("engine.db").contains("begins with"));
    }

    #[cfg(not(feature = "mysql"))]
    #[test]
    fn a_dialect_that_was_not_built_in_is_named() {
        assert!(refused("mariadb://db/engine").contains("feature `mysql`"));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_url_that_does_not_read_is_invalid() {
        assert!(refused("sqlite:a.db?mode=nonsense").contains("reading the url"));
    }
}

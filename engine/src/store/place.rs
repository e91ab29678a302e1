//! Where a database is: by its URL, by the parts of one, or in a file.

use std::fmt;
use std::sync::Arc;

use coord_core::Result;

use super::{Store, url};

/// Where a database is. Its password is not shown.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Of one of the forms of [`Engine::connect`](crate::Engine::connect).
    Url(Secret),
    /// At a server.
    Server(Server),
    /// A file of SQLite, or `:memory:`.
    File(String),
}

/// A database at a server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) product: Product,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) password: Option<Secret>,
}

/// What a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Product {
    Postgres,
    /// `MySQL` or `MariaDB`.
    Mysql,
}

/// A text that is not shown.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(hidden)")
    }
}

impl fmt::Debug for Server {
    /// As the URL that it stands for.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            product,
            host,
            port,
            database,
            user,
            password,
        } = self;
        write!(formatter, "{product:?}://{user}")?;
        if let Some(password) = password {
            write!(formatter, ":{password:?}")?;
        }
        write!(formatter, "@{host}:{port}/{database}")
    }
}

impl Place {
    /// The store there. Nothing is opened yet.
    ///
    /// # Errors
    /// `Invalid` when a URL does not read, or this build lacks the dialect.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Url(url) => url::open(&url.0),
            Self::Server(server) => url::open_at(server),
            Self::File(file) => url::open_file(file),
        }
    }

    /// The store there, for a pooler that follows no named statements; only PostgreSQL has such.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn open_behind_pooler(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Url(url) if self.is_postgres() => url::open_behind_pooler(&url.0),
            Self::Server(server) if self.is_postgres() => url::open_behind_pooler_at(server),
            _ => self.open(),
        }
    }

    /// Whether `LISTEN` and `NOTIFY` are to be had there.
    pub(crate) fn is_postgres(&self) -> bool {
        match self {
            Self::Url(url) => url.0.starts_with("postgres"),
            Self::Server(server) => server.product == Product::Postgres,
            Self::File(_) => false,
        }
    }
}

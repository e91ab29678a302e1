//! PostgreSQL, 13 and later.
//!
//! Transactions run at `READ COMMITTED`, which this store sets itself. A claim passes by what others
//! have locked, and serves each priority in the order of its index. Migrations take a lock that
//! ends with their transaction; no call needs a session of its own.

mod batch;
mod claim;
mod error;
mod fleet;
mod migrate;
mod read;
mod sql;

use std::time::Duration;

use coord_core::{Error, Result};
use sqlx::FromRow;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::{Query, QueryAs};

use super::batch::{self as batches, retry};
use super::{
    Applied, Claim, Claimed, Description, Heartbeat, Listing, Load, Loaded, Overdue, Page,
    Registration, Renewal, Renewed, Reply, Role, Store, Sweep, Swept, Target, Term, Write,
};
use crate::model::{OwnerId, Timestamp};
use error::at;

/// Connections of a process. Few are enough: writes share transactions, and claims are short.
const CONNECTIONS: u32 = 8;
/// How long a call waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// The store. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Postgres {
    pool: PgPool,
    statements: Statements,
}

/// How statements are prepared: the one place that knows.
#[derive(Clone, Copy, Debug)]
struct Statements {
    /// Whether a connection keeps them under a name.
    named: bool,
}

impl Postgres {
    /// The store in the database at `url`, `postgres://user:password@host:port/database`. Nothing
    /// is opened before the first call.
    ///
    /// # Errors
    /// `Invalid` when `url` is none of PostgreSQL.
    pub fn connect(url: &str) -> Result<Self> {
        let options: PgConnectOptions = url
            .parse()
            .map_err(|error: sqlx::Error| Error::invalid("reading the url").with_source(error))?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE)
            .connect_lazy_with(options.application_name("coord-engine"));
        Ok(Self {
            pool,
            statements: Statements { named: true },
        })
    }

    /// The same store, for a pooler that hands each transaction to another connection and does not
    /// follow prepared statements: `PgBouncer` before 1.21, or with `max_prepared_statements` at 0.
    /// Each statement is then prepared anew, which costs a round trip.
    #[must_use]
    pub fn without_named_statements(mut self) -> Self {
        self.statements.named = false;
        self
    }

    async fn begin(&self, how: &'static str, what: &'static str) -> Result<Transaction> {
        let begun = self.pool.begin_with(how).await;
        Ok(Transaction {
            inner: begun.map_err(at(what))?,
            statements: self.statements,
        })
    }
}

impl Statements {
    fn rows<'q, T>(self, sql: &'static str) -> QueryAs<'q, sqlx::Postgres, T, PgArguments>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_as(sql).persistent(self.named)
    }

    fn done<'q>(self, sql: &'static str) -> Query<'q, sqlx::Postgres, PgArguments> {
        sqlx::query(sql).persistent(self.named)
    }
}

/// For writes: each statement sees what was committed before it. A transaction that waits five
/// seconds for a lock is in a conflict that it should leave.
const WRITE: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '5s'";
/// For reads of several statements: all see the same.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A transaction under way.
struct Transaction {
    inner: sqlx::Transaction<'static, sqlx::Postgres>,
    statements: Statements,
}

impl Store for Postgres {
    fn migrate(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| migrate::migrate(self)))
    }

    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        Box::pin(retry(async || {
            let transaction = self.begin(WRITE, batch::WHAT).await?;
            batches::apply(transaction, writes).await
        }))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        Box::pin(retry(|| claim::claim(self, claim)))
    }

    fn load<'a>(&'a self, wanted: &'a [Load]) -> Reply<'a, Loaded> {
        Box::pin(retry(|| read::load(self, wanted)))
    }

    fn renew<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Renewed> {
        Box::pin(retry(|| claim::renew(self, renewal)))
    }

    fn overdue(&self, limit: u32) -> Reply<'_, Vec<Overdue>> {
        Box::pin(retry(move || claim::overdue(self, limit)))
    }

    fn sweep<'a>(&'a self, sweep: &'a Sweep) -> Reply<'a, Swept> {
        Box::pin(retry(|| claim::sweep(self, sweep)))
    }

    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>> {
        Box::pin(retry(|| read::describe(self, of)))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page> {
        Box::pin(retry(|| read::list(self, listing)))
    }

    fn register<'a>(&'a self, registration: &'a Registration) -> Reply<'a, Timestamp> {
        Box::pin(retry(|| fleet::register(self, registration)))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Reply<'a, Option<Timestamp>> {
        Box::pin(retry(|| fleet::heartbeat(self, heartbeat)))
    }

    fn bury<'a>(&'a self, term: &'a Term) -> Reply<'a, Vec<OwnerId>> {
        Box::pin(retry(|| fleet::bury(self, term)))
    }

    fn elect<'a>(
        &'a self,
        role: Role,
        holder: &'a OwnerId,
        ttl: Duration,
    ) -> Reply<'a, Option<Term>> {
        Box::pin(retry(move || fleet::elect(self, role, holder, ttl)))
    }

    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()> {
        Box::pin(retry(|| fleet::resign(self, term)))
    }
}

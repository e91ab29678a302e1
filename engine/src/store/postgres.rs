//! PostgreSQL, 13 and later.
//!
//! Transactions run at `READ COMMITTED`, which this store sets itself. A claim passes by what others
//! have locked, and serves each priority in the order of its index. Migrations take a lock that
//! ends with their transaction; no call needs a session of its own.

mod archive;
mod batch;
mod builds;
mod census;
mod claim;
mod declarations;
mod error;
mod examine;
mod fleet;
mod handed;
mod hints;
mod kept;
mod look;
mod migrate;
mod namespaces;
mod notify;
mod plain;
mod quotas;
mod read;
mod retention;
mod schedule;
mod session;
mod shares;
mod single;
mod sql;
mod survey;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, Result};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgRow};
use sqlx::query::{Query, QueryAs};
use sqlx::{Connection, FromRow};

use super::batch::{self as batches, retry};
use super::fairness::Tours;
use super::{
    Applied, Archival, Backlogs, BuildChange, Builds, Buried, CallerTransaction, Census, Claim,
    Claimed, ClosedRuns, Declaration, Declarations, Description, DuePage, DueSchedules, Enlistment,
    Examination, Filter, Heartbeat, Hints, Lacking, Listing, Load, Loaded, NamespaceChange,
    NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace, Overdue, Page, Registered,
    Registration, Renewal, Renewed, Reply, Retire, Role, Roles, ScheduleDescription, ScheduleKey,
    ScheduleListing, SchedulePage, Server, Store, Survey, Sweep, Swept, Target, Tenant, Term,
    Unarchived, Unattended, WorkerFilter, WorkerRecord, Write,
};
use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp, micros};
use crate::operator::Connections;
use crate::wake::Backend;
use error::at;
use kept::Kept;
use session::Sessions;
use shares::Shared;

pub use notify::Notify;

/// Connections of a process. Few are enough: writes share transactions, and claims are short.
const CONNECTIONS: u32 = 8;
/// Connections beside them: a heartbeat, and a renewal that waits for a lock.
const APART: u32 = 2;
/// How long a call waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// The store. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Postgres {
    sessions: Sessions,
    kept: Arc<Kept>,
    tours: Arc<Tours>,
    shared: Arc<Shared>,
    statements: Statements,
    /// Where calls for all stay.
    scope: Option<Namespace>,
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
        Ok(Self::open(options))
    }

    /// The store in the database of a pool that the service has, with its options, over connections
    /// of its own: it sets up its sessions for its statements, which would not suit others.
    #[must_use]
    pub fn beside(pool: &PgPool) -> Self {
        Self::open(PgConnectOptions::clone(&pool.connect_options()))
    }

    /// The store at `server`.
    pub(crate) fn at(server: &Server) -> Self {
        let options = PgConnectOptions::new_without_pgpass()
            .host(&server.host)
            .port(server.port)
            .database(&server.database)
            .username(&server.user);
        Self::open(match &server.password {
            Some(password) => options.password(&password.0),
            None => options,
        })
    }

    fn open(options: PgConnectOptions) -> Self {
        let statements = Statements { named: true };
        let options = options.application_name("coord-engine");
        Self {
            sessions: Sessions::open(CONNECTIONS, options, statements),
            kept: Arc::default(),
            tours: Arc::default(),
            shared: Arc::default(),
            statements,
            scope: None,
        }
    }

    /// Where calls for all stay, as a statement takes it.
    fn scope(&self) -> Option<&str> {
        self.scope.as_ref().map(Namespace::as_str)
    }

    /// The same store, for a pooler that hands each transaction to another connection and does not
    /// follow prepared statements: `PgBouncer` before 1.21, or with `max_prepared_statements` at 0.
    /// Each statement is then prepared anew and held in a transaction, which costs round trips, and
    /// sessions, which others use as well, are left as they are.
    ///
    /// `PgBouncer` needs `ignore_startup_parameters = extra_float_digits`, as for every client of
    /// `sqlx`.
    #[must_use]
    pub fn without_named_statements(self) -> Self {
        let statements = Statements { named: false };
        let options = self.sessions.options();
        Self {
            sessions: Sessions::open(CONNECTIONS, options, statements),
            kept: self.kept,
            tours: self.tours,
            shared: self.shared,
            statements,
            scope: self.scope,
        }
    }

    async fn begin(&self, how: &'static str, what: &'static str) -> Result<Transaction<'static>> {
        let begun = self.sessions.begin(how).await;
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

/// For writes: what [`session::SETUP`] says, also behind a pooler, whose sessions are left as they
/// are.
const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '10s'";
/// For reads of several statements: all see the same.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A transaction under way.
struct Transaction<'c> {
    inner: sqlx::Transaction<'c, sqlx::Postgres>,
    statements: Statements,
}

impl Store for Postgres {
    fn migrate(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| migrate::migrate(self)))
    }

    fn look(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| look::look(self)))
    }

    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        Box::pin(retry(async || {
            if let Some(applied) = plain::apply(self, writes).await? {
                return Ok(applied);
            }
            let transaction = self.begin(WRITE, batch::WHAT).await?;
            batches::apply(transaction, writes).await
        }))
    }

    fn apply_in<'a>(
        &'a self,
        transaction: CallerTransaction<'a>,
        writes: &'a [Write],
    ) -> Reply<'a, Applied> {
        Box::pin(async move {
            // A savepoint: what fails leaves nothing in a transaction that the caller commits.
            let inner = transaction.postgres()?.begin().await;
            let transaction = Transaction {
                inner: inner.map_err(at(batch::WHAT))?,
                statements: self.statements,
            };
            batches::apply(transaction, writes).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        Box::pin(retry(|| quotas::claim(self, claim)))
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

    fn find<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Run>> {
        Box::pin(retry(|| read::find(self, of)))
    }

    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>> {
        Box::pin(retry(|| read::describe(self, of)))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page> {
        Box::pin(retry(|| read::list(self, listing)))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        Box::pin(retry(|| read::count(self, filter)))
    }

    fn retire<'a>(&'a self, retire: &'a Retire) -> Reply<'a, u64> {
        Box::pin(retry(|| retention::retire(self, retire)))
    }

    fn tenants(&self) -> Reply<'_, Vec<Tenant>> {
        Box::pin(retry(|| retention::tenants(self)))
    }

    fn keep<'a>(&'a self, namespace: &'a Namespace, retention: Duration) -> Reply<'a, ()> {
        let micros = micros(retention);
        Box::pin(retry(move || retention::keep(self, namespace, micros)))
    }

    fn create_namespace<'a>(&'a self, new: &'a NewNamespace) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::create(self, new)))
    }

    fn describe_namespace<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Reply<'a, Option<NamespaceRecord>> {
        Box::pin(retry(|| namespaces::describe(self, namespace)))
    }

    fn change_namespace<'a>(&'a self, change: &'a NamespaceChange) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::change(self, change)))
    }

    fn list_namespaces<'a>(&'a self, listing: &'a NamespaceListing) -> Reply<'a, NamespacePage> {
        Box::pin(retry(|| namespaces::list(self, listing)))
    }

    fn declare_attribute<'a>(&'a self, new: &'a Declaration) -> Reply<'a, bool> {
        Box::pin(retry(|| declarations::declare(self, new)))
    }

    fn withdraw_attribute<'a>(
        &'a self,
        namespace: &'a Namespace,
        name: &'a str,
    ) -> Reply<'a, bool> {
        Box::pin(retry(|| declarations::withdraw(self, namespace, name)))
    }

    fn declared_attributes<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Declarations> {
        Box::pin(retry(|| declarations::list(self, namespace)))
    }

    fn due_schedules<'a>(&'a self, due: &'a DueSchedules) -> Reply<'a, DuePage> {
        Box::pin(retry(|| schedule::due(self, due)))
    }

    fn describe_schedule<'a>(
        &'a self,
        of: &'a ScheduleKey,
    ) -> Reply<'a, Option<ScheduleDescription>> {
        Box::pin(retry(|| schedule::describe(self, of)))
    }

    fn list_schedules<'a>(&'a self, listing: &'a ScheduleListing) -> Reply<'a, SchedulePage> {
        Box::pin(retry(|| schedule::list(self, listing)))
    }

    fn census(&self) -> Reply<'_, Census> {
        Box::pin(retry(|| census::census(self)))
    }

    fn survey(&self) -> Reply<'_, Survey> {
        Box::pin(retry(|| survey::survey(self)))
    }

    fn unarchived<'a>(&'a self, page: &'a ClosedRuns) -> Reply<'a, Unarchived> {
        Box::pin(retry(|| archive::unarchived(self, page)))
    }

    fn archive<'a>(&'a self, archival: &'a Archival) -> Reply<'a, bool> {
        Box::pin(retry(|| archive::archive(self, archival)))
    }

    fn examine(&self, long: Duration) -> Reply<'_, Examination> {
        Box::pin(retry(move || examine::examine(self, long)))
    }

    fn register<'a>(&'a self, registration: &'a Registration) -> Reply<'a, Registered> {
        Box::pin(retry(|| fleet::register(self, registration)))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Reply<'a, Option<Timestamp>> {
        Box::pin(retry(|| fleet::heartbeat(self, heartbeat)))
    }

    fn bury<'a>(&'a self, term: &'a Term) -> Reply<'a, Vec<Buried>> {
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

    fn roles(&self) -> Reply<'_, Roles> {
        Box::pin(retry(|| fleet::roles(self)))
    }

    fn forget(&self, idle: Duration, limit: u32) -> Reply<'_, u64> {
        Box::pin(retry(move || fleet::forget(self, idle, limit)))
    }

    fn unattended<'a>(&'a self, page: &'a Unattended) -> Reply<'a, Lacking> {
        Box::pin(retry(|| claim::unattended(self, page)))
    }

    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()> {
        Box::pin(retry(|| fleet::resign(self, term)))
    }

    fn enlist<'a>(&'a self, worker: &'a Enlistment) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::enlist(self, worker)))
    }

    fn dismiss<'a>(&'a self, worker: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::dismiss(self, worker)))
    }

    fn workers<'a>(&'a self, filter: &'a WorkerFilter) -> Reply<'a, Vec<WorkerRecord>> {
        Box::pin(retry(|| workers::list(self, filter)))
    }

    fn backlogs(&self) -> Reply<'_, Backlogs> {
        Box::pin(retry(|| workers::backlogs(self)))
    }

    fn change_build<'a>(&'a self, change: &'a BuildChange) -> Reply<'a, bool> {
        Box::pin(retry(|| builds::change(self, change)))
    }

    fn promoted<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Option<BuildId>> {
        Box::pin(retry(|| builds::promoted(self, namespace)))
    }

    fn builds<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Builds> {
        Box::pin(retry(|| builds::read(self, namespace)))
    }

    fn hint<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| hints::hint(self, message)))
    }

    fn hints(&self, after: Option<i64>) -> Reply<'_, Hints> {
        Box::pin(retry(move || hints::hints(self, after)))
    }

    fn connections(&self) -> Option<Connections> {
        Some(self.sessions.connections())
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        Arc::new(Self {
            scope: Some(namespace.clone()),
            ..self.clone()
        })
    }

    fn notify(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Notify::new(self)))
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        let options = self.sessions.options();
        Some(Arc::new(Self {
            sessions: Sessions::open(APART, options, self.statements),
            kept: Arc::default(),
            ..self.clone()
        }))
    }
}

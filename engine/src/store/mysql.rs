//! `MySQL` 8.0.19 and later, `MariaDB` 10.5 and later.
//!
//! Sessions run at `READ COMMITTED` and in strict mode, which this store sets itself. Rows are
//! locked by their primary key only, in ascending order: a range lock of `InnoDB` would reach rows
//! that nobody asked for. A claim looks for due tasks without locks, then locks those that nobody
//! else has, and looks at each again. (A locking read in the order of the queue deadlocked in most
//! attempts, and one that has to sort locks every candidate.)

mod archive;
mod batch;
mod builds;
mod census;
mod claim;
mod declarations;
mod dialect;
mod error;
mod examine;
mod fleet;
mod handed;
mod hints;
mod look;
mod migrate;
mod namespaces;
mod plain;
mod pool;
mod quotas;
mod read;
mod retention;
mod schedule;
mod server;
mod session;
mod shares;
mod sql;
mod survey;
mod workers;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coord_core::{Error, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool};
use sqlx::{Connection, SqlStr};

use super::batch::appends::{self, Appended};
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
use dialect::Dialect;
use error::at;
use pool::pool;

/// Connections of a process. Few are enough: writes share transactions, and claims are short.
const CONNECTIONS: u32 = 8;
/// Connections beside them: a heartbeat, and a renewal that waits for a lock.
const APART: u32 = 2;

/// The store. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Mysql {
    pool: MySqlPool,
    /// Known from the first connection on.
    dialect: Arc<OnceLock<Dialect>>,
    tours: Arc<Tours>,
    /// Where calls for all stay.
    scope: Option<Namespace>,
}

impl Mysql {
    /// The store in the database at `url`, `mysql://user:password@host:port/database`. Nothing is
    /// opened before the first call.
    ///
    /// # Errors
    /// `Invalid` when `url` is none of `MySQL`.
    pub fn connect(url: &str) -> Result<Self> {
        let options: MySqlConnectOptions = url
            .parse()
            .map_err(|error: sqlx::Error| Error::invalid("reading the url").with_source(error))?;
        Ok(Self::open(options))
    }

    /// The store in the database of a pool that the service has, with its options, over connections
    /// of its own: it sets up its sessions for its statements, which would not suit others.
    #[must_use]
    pub fn beside(pool: &MySqlPool) -> Self {
        Self::open(MySqlConnectOptions::clone(&pool.connect_options()))
    }

    /// The store at `server`.
    pub(crate) fn at(server: &Server) -> Self {
        let options = MySqlConnectOptions::new()
            .host(&server.host)
            .port(server.port)
            .database(&server.database)
            .username(&server.user);
        Self::open(match &server.password {
            Some(password) => options.password(&password.0),
            None => options,
        })
    }

    fn open(options: MySqlConnectOptions) -> Self {
        let options = options.timezone("+00:00".to_owned());
        let dialect = Arc::default();
        Self {
            pool: pool(CONNECTIONS, options, &dialect),
            dialect,
            tours: Arc::default(),
            scope: None,
        }
    }

    /// What the server takes. The first call of an engine looks at the schema, and connects.
    fn dialect(&self) -> Dialect {
        self.dialect.get().copied().unwrap_or_default()
    }

    /// `sql` as the server takes it.
    fn text(&self, sql: &'static str) -> SqlStr {
        self.dialect().text(sql)
    }

    /// Where calls for all stay, as a statement takes it.
    fn scope(&self) -> Option<&str> {
        self.scope.as_ref().map(Namespace::as_str)
    }
}

impl Store for Mysql {
    fn migrate(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| migrate::migrate(&self.pool)))
    }

    fn look(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| look::look(&self.pool)))
    }

    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        let row_by_row = async || {
            let tables = batch::Transaction::begin(self, batch::WHAT).await?;
            batches::apply(tables, writes).await
        };
        Box::pin(async move {
            match retry(|| plain::append(self, writes)).await? {
                Appended::All(applied) => Ok(applied),
                Appended::Other => retry(row_by_row).await,
                Appended::Some => retry(row_by_row).await.map_err(appends::begun),
            }
        })
    }

    fn apply_in<'a>(
        &'a self,
        transaction: CallerTransaction<'a>,
        writes: &'a [Write],
    ) -> Reply<'a, Applied> {
        Box::pin(async move {
            let connection = transaction.mysql()?;
            let dialect = session::check(connection).await?;
            // A savepoint: what fails leaves nothing in a transaction that the caller commits.
            let inner = connection.begin().await.map_err(at(batch::WHAT))?;
            batches::apply(batch::Transaction { inner, dialect }, writes).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        Box::pin(retry(|| handed::claim(self, claim)))
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
        Box::pin(retry(|| read::find(&self.pool, of)))
    }

    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>> {
        Box::pin(retry(|| read::describe(&self.pool, of)))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page> {
        Box::pin(retry(|| read::list(&self.pool, listing)))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        Box::pin(retry(|| read::count(&self.pool, filter)))
    }

    fn retire<'a>(&'a self, retire: &'a Retire) -> Reply<'a, u64> {
        Box::pin(retry(|| retention::retire(self, retire)))
    }

    fn tenants(&self) -> Reply<'_, Vec<Tenant>> {
        Box::pin(retry(|| retention::tenants(self)))
    }

    fn keep<'a>(&'a self, namespace: &'a Namespace, retention: Duration) -> Reply<'a, ()> {
        let micros = micros(retention);
        Box::pin(retry(move || {
            retention::keep(&self.pool, namespace, micros)
        }))
    }

    fn create_namespace<'a>(&'a self, new: &'a NewNamespace) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::create(&self.pool, new)))
    }

    fn describe_namespace<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Reply<'a, Option<NamespaceRecord>> {
        Box::pin(retry(|| namespaces::describe(&self.pool, namespace)))
    }

    fn change_namespace<'a>(&'a self, change: &'a NamespaceChange) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::change(&self.pool, change)))
    }

    fn list_namespaces<'a>(&'a self, listing: &'a NamespaceListing) -> Reply<'a, NamespacePage> {
        Box::pin(retry(|| namespaces::list(&self.pool, listing)))
    }

    fn declare_attribute<'a>(&'a self, new: &'a Declaration) -> Reply<'a, bool> {
        Box::pin(retry(|| declarations::declare(&self.pool, new)))
    }

    fn withdraw_attribute<'a>(
        &'a self,
        namespace: &'a Namespace,
        name: &'a str,
    ) -> Reply<'a, bool> {
        Box::pin(retry(|| {
            declarations::withdraw(&self.pool, namespace, name)
        }))
    }

    fn declared_attributes<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Declarations> {
        Box::pin(retry(|| declarations::list(&self.pool, namespace)))
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
        Box::pin(retry(|| schedule::list(&self.pool, listing)))
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
        Box::pin(retry(|| claim::unattended(&self.pool, page)))
    }

    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()> {
        Box::pin(retry(|| fleet::resign(self, term)))
    }

    fn enlist<'a>(&'a self, worker: &'a Enlistment) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::enlist(self, worker)))
    }

    fn dismiss<'a>(&'a self, worker: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::dismiss(&self.pool, worker)))
    }

    fn workers<'a>(&'a self, filter: &'a WorkerFilter) -> Reply<'a, Vec<WorkerRecord>> {
        Box::pin(retry(|| workers::list(&self.pool, filter)))
    }

    fn backlogs(&self) -> Reply<'_, Backlogs> {
        Box::pin(retry(|| workers::backlogs(self)))
    }

    fn change_build<'a>(&'a self, change: &'a BuildChange) -> Reply<'a, bool> {
        Box::pin(retry(|| builds::change(self, change)))
    }

    fn promoted<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Option<BuildId>> {
        Box::pin(retry(|| builds::promoted(&self.pool, namespace)))
    }

    fn builds<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Builds> {
        Box::pin(retry(|| builds::read(&self.pool, namespace)))
    }

    fn hint<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| hints::hint(&self.pool, message)))
    }

    fn hints(&self, after: Option<i64>) -> Reply<'_, Hints> {
        Box::pin(retry(move || hints::hints(&self.pool, after)))
    }

    fn connections(&self) -> Option<Connections> {
        Some(Connections {
            open: self.pool.size(),
            idle: u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX),
            most: self.pool.options().get_max_connections(),
        })
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        Arc::new(Self {
            pool: self.pool.clone(),
            dialect: Arc::clone(&self.dialect),
            tours: Arc::clone(&self.tours),
            scope: Some(namespace.clone()),
        })
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        let options = self.pool.connect_options().as_ref().clone();
        Some(Arc::new(Self {
            pool: pool(APART, options, &self.dialect),
            dialect: Arc::clone(&self.dialect),
            tours: Arc::default(),
            scope: self.scope.clone(),
        }))
    }
}

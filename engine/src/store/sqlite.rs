//! SQLite: a file, shared by any number of processes of one machine, or memory.
//!
//! SQLite has one writer at a time. So does this store: one connection writes, in transactions that
//! take the write lock before they read anything, and others read beside it. `synchronous` is
//! `FULL`: what was committed survives the loss of power.
//!
//! The clock is the machine's, in milliseconds.

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
mod look;
mod migrate;
mod namespaces;
mod plain;
mod presence;
mod quotas;
mod read;
mod retention;
mod schedule;
mod shares;
mod sql;
mod survey;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, Result};
use sqlx::Transaction;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::batch::appends::{self, Appended};
use super::batch::{self as batches, retry};
use super::fairness::Tours;
use super::{
    Applied, Archival, Backlogs, BuildChange, Builds, Buried, CallerTransaction, Census, Claim,
    Claimed, ClosedRuns, Declaration, Declarations, Description, DuePage, DueSchedules, Enlistment,
    Examination, Filter, Heartbeat, Hints, Lacking, Listing, Load, Loaded, NamespaceChange,
    NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace, Overdue, Page, Registered,
    Registration, Renewal, Renewed, Reply, Retire, Role, Roles, ScheduleDescription, ScheduleKey,
    ScheduleListing, SchedulePage, Store, Survey, Sweep, Swept, Target, Tenant, Term, Unarchived,
    Unattended, WorkerFilter, WorkerRecord, Write,
};
use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp, micros};
use crate::operator::Connections;
use presence::Presence;

/// How long SQLite itself waits for the write lock of another process. Transactions are short;
/// whoever waits longer stands behind a copy or a repair of the whole file.
const BUSY: Duration = Duration::from_secs(5);
/// Connections that read. They wait for the disk, hardly for each other.
const READERS: u32 = 4;

/// The store. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Sqlite {
    writer: SqlitePool,
    reader: SqlitePool,
    presence: Option<Arc<Presence>>,
    tours: Arc<Tours>,
    /// Where calls for all stay.
    scope: Option<Namespace>,
}

impl Sqlite {
    /// The store in the file at `path`, which is made if there is none. The database is not opened
    /// before the first call; two empty files beside it, `-gate` and `-alive`, show other processes
    /// that this one uses it. The first registration of a process that is alone on the file frees
    /// what its predecessors left.
    ///
    /// The file must lie on a disk of this machine: locks do not hold on network file systems.
    #[must_use]
    pub fn file(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::open(SqliteConnectOptions::new().filename(path), path)
    }

    /// The store at `url`, `sqlite:file` or `sqlite::memory:`.
    ///
    /// # Errors
    /// `Invalid` when `url` is none of SQLite.
    pub fn connect(url: &str) -> Result<Self> {
        let options: SqliteConnectOptions = url
            .parse()
            .map_err(|error: sqlx::Error| Error::invalid("reading the url").with_source(error))?;
        Ok(match in_file(&options) {
            Some(path) => Self::open(options, &path),
            None => Self::memory(),
        })
    }

    /// The store in the file of a pool that the service has, with its options, over connections of
    /// its own: one writes, and others read.
    ///
    /// # Errors
    /// `Invalid` when the pool is one in memory, which nobody else can reach.
    pub fn beside(pool: &SqlitePool) -> Result<Self> {
        let options = SqliteConnectOptions::clone(&pool.connect_options());
        let memory = || Error::invalid("sharing a database in memory: only its pool reaches it");
        let path = in_file(&options).ok_or_else(memory)?;
        Ok(Self::open(options, &path))
    }

    fn open(options: SqliteConnectOptions, path: &Path) -> Self {
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY);
        Self {
            writer: pool(1, options.clone()),
            reader: pool(READERS, options),
            presence: Presence::enter(path).map(Arc::new),
            tours: Arc::default(),
            scope: None,
        }
    }

    /// Where calls for all stay, as a statement takes it.
    fn scope(&self) -> Option<&str> {
        self.scope.as_ref().map(Namespace::as_str)
    }

    /// An empty store in memory, gone with its last clone.
    #[must_use]
    pub fn memory() -> Self {
        let options = SqliteConnectOptions::new().in_memory(true);
        // Each connection would have a memory of its own.
        let only = pool(1, options);
        Self {
            writer: only.clone(),
            reader: only,
            presence: None,
            tours: Arc::default(),
            scope: None,
        }
    }
}

/// The file of a database; `None` for one in memory, which the driver calls so.
fn in_file(options: &SqliteConnectOptions) -> Option<PathBuf> {
    let path = options.get_filename();
    let text = path.to_string_lossy();
    let is_memory = text == ":memory:" || text.starts_with("file:sqlx-in-memory");
    (!is_memory).then(|| path.to_path_buf())
}

fn pool(connections: u32, options: SqliteConnectOptions) -> SqlitePool {
    // A connection costs nothing while it is idle, and one to memory must not be replaced.
    SqlitePoolOptions::new()
        .max_connections(connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

/// Begins to write.
///
/// SQLite ends a transaction by itself when the disk is full or fails. The driver goes on to count
/// it, and would begin none on that connection ever after: it is replaced.
async fn begin(writer: &SqlitePool) -> sqlx::Result<Transaction<'static, sqlx::Sqlite>> {
    const IMMEDIATE: &str = "BEGIN IMMEDIATE";
    match writer.begin_with(IMMEDIATE).await {
        Err(sqlx::Error::InvalidSavePointStatement) => {
            writer.acquire().await?.close().await?;
            writer.begin_with(IMMEDIATE).await
        }
        begun => begun,
    }
}

impl Store for Sqlite {
    fn migrate(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| migrate::migrate(&self.writer)))
    }

    fn look(&self) -> Reply<'_, ()> {
        Box::pin(retry(|| look::look(&self.reader)))
    }

    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        let row_by_row = async || {
            let tables = batch::Transaction::begin(&self.writer).await?;
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
            let tables = batch::Transaction::within(transaction.sqlite()?).await?;
            batches::apply(tables, writes).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        Box::pin(retry(|| claim::claim(self, claim)))
    }

    fn load<'a>(&'a self, wanted: &'a [Load]) -> Reply<'a, Loaded> {
        Box::pin(retry(|| read::load(&self.reader, wanted)))
    }

    fn renew<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Renewed> {
        Box::pin(retry(|| claim::renew(&self.writer, renewal)))
    }

    fn overdue(&self, limit: u32) -> Reply<'_, Vec<Overdue>> {
        Box::pin(retry(move || claim::overdue(self, limit)))
    }

    fn sweep<'a>(&'a self, sweep: &'a Sweep) -> Reply<'a, Swept> {
        Box::pin(retry(|| claim::sweep(self, sweep)))
    }

    fn find<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Run>> {
        Box::pin(retry(|| read::find(&self.reader, of)))
    }

    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>> {
        Box::pin(retry(|| read::describe(&self.reader, of)))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page> {
        Box::pin(retry(|| read::list(&self.reader, listing)))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        Box::pin(retry(|| read::count(&self.reader, filter)))
    }

    fn retire<'a>(&'a self, retire: &'a Retire) -> Reply<'a, u64> {
        Box::pin(retry(|| retention::retire(&self.writer, retire)))
    }

    fn tenants(&self) -> Reply<'_, Vec<Tenant>> {
        Box::pin(retry(|| retention::tenants(self)))
    }

    fn keep<'a>(&'a self, namespace: &'a Namespace, retention: Duration) -> Reply<'a, ()> {
        let micros = micros(retention);
        Box::pin(retry(move || {
            retention::keep(&self.writer, namespace, micros)
        }))
    }

    fn create_namespace<'a>(&'a self, new: &'a NewNamespace) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::create(&self.writer, new)))
    }

    fn describe_namespace<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Reply<'a, Option<NamespaceRecord>> {
        Box::pin(retry(|| namespaces::describe(&self.reader, namespace)))
    }

    fn change_namespace<'a>(&'a self, change: &'a NamespaceChange) -> Reply<'a, bool> {
        Box::pin(retry(|| namespaces::change(&self.writer, change)))
    }

    fn list_namespaces<'a>(&'a self, listing: &'a NamespaceListing) -> Reply<'a, NamespacePage> {
        Box::pin(retry(|| namespaces::list(&self.reader, listing)))
    }

    fn declare_attribute<'a>(&'a self, new: &'a Declaration) -> Reply<'a, bool> {
        Box::pin(retry(|| declarations::declare(&self.writer, new)))
    }

    fn withdraw_attribute<'a>(
        &'a self,
        namespace: &'a Namespace,
        name: &'a str,
    ) -> Reply<'a, bool> {
        Box::pin(retry(|| {
            declarations::withdraw(&self.writer, namespace, name)
        }))
    }

    fn declared_attributes<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Declarations> {
        Box::pin(retry(|| declarations::list(&self.reader, namespace)))
    }

    fn due_schedules<'a>(&'a self, due: &'a DueSchedules) -> Reply<'a, DuePage> {
        Box::pin(retry(|| schedule::due(self, due)))
    }

    fn describe_schedule<'a>(
        &'a self,
        of: &'a ScheduleKey,
    ) -> Reply<'a, Option<ScheduleDescription>> {
        Box::pin(retry(|| schedule::describe(&self.reader, of)))
    }

    fn list_schedules<'a>(&'a self, listing: &'a ScheduleListing) -> Reply<'a, SchedulePage> {
        Box::pin(retry(|| schedule::list(&self.reader, listing)))
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
        Box::pin(retry(|| archive::archive(&self.writer, archival)))
    }

    fn examine(&self, _: Duration) -> Reply<'_, Examination> {
        Box::pin(retry(|| examine::examine(self)))
    }

    fn register<'a>(&'a self, registration: &'a Registration) -> Reply<'a, Registered> {
        Box::pin(async {
            let proof = self.presence.as_ref().and_then(|it| it.prove());
            let alone = registration.alone || proof.is_some();
            retry(|| fleet::register(self, registration, alone)).await
        })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Reply<'a, Option<Timestamp>> {
        Box::pin(retry(|| fleet::heartbeat(&self.writer, heartbeat)))
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
        Box::pin(retry(|| claim::unattended(&self.reader, page)))
    }

    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()> {
        Box::pin(retry(|| fleet::resign(self, term)))
    }

    fn enlist<'a>(&'a self, worker: &'a Enlistment) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::enlist(&self.writer, worker)))
    }

    fn dismiss<'a>(&'a self, worker: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| workers::dismiss(&self.writer, worker)))
    }

    fn workers<'a>(&'a self, filter: &'a WorkerFilter) -> Reply<'a, Vec<WorkerRecord>> {
        Box::pin(retry(|| workers::list(&self.reader, filter)))
    }

    fn backlogs(&self) -> Reply<'_, Backlogs> {
        Box::pin(retry(|| workers::backlogs(self)))
    }

    fn change_build<'a>(&'a self, change: &'a BuildChange) -> Reply<'a, bool> {
        Box::pin(retry(|| builds::change(&self.writer, change)))
    }

    fn promoted<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Option<BuildId>> {
        Box::pin(retry(|| builds::promoted(&self.reader, namespace)))
    }

    fn builds<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Builds> {
        Box::pin(retry(|| builds::read(&self.reader, namespace)))
    }

    fn hint<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(retry(|| hints::hint(&self.writer, message)))
    }

    fn hints(&self, after: Option<i64>) -> Reply<'_, Hints> {
        Box::pin(retry(move || hints::hints(&self.reader, after)))
    }

    fn connections(&self) -> Option<Connections> {
        let of = |pool: &SqlitePool| Connections {
            open: pool.size(),
            idle: u32::try_from(pool.num_idle()).unwrap_or(u32::MAX),
            most: pool.options().get_max_connections(),
        };
        let (writer, reader) = (of(&self.writer), of(&self.reader));
        Some(writer.and(reader))
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        Arc::new(Self {
            scope: Some(namespace.clone()),
            ..self.clone()
        })
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        let writer = self.writer.connect_options().as_ref().clone();
        // One to memory would be another database.
        self.presence.as_ref()?;
        Some(Arc::new(Self {
            writer: pool(1, writer),
            ..self.clone()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_that_sqlite_ended_by_itself_is_not_the_last_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Sqlite::file(folder.path().join("work.db"));
        let begun = begin(&store.writer).await;
        let mut transaction = begun.expect("begun");
        let rollback = sqlx::raw_sql("ROLLBACK");
        // What SQLite does when the disk is full.
        rollback.execute(&mut *transaction).await.expect("ended");
        drop(transaction);
        let counted = store.writer.begin_with("BEGIN IMMEDIATE").await;
        assert!(counted.is_err(), "the driver no longer needs this");

        let again = begin(&store.writer).await;

        assert!(again.is_ok(), "{again:?}");
    }
}

//! One process of the engine: its database, its committer and its reader, and who it is.

mod builder;
mod process;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use coord_core::Result;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::archive::{Archive, Handed};
use crate::aside::Aside;
use crate::builds::Promoted;
use crate::client::Client;
use crate::clock::Clock;
use crate::committer::Committer;
use crate::compatibility::Compatibility;
use crate::fleet::Fleet;
use crate::health::{self, Alone, Report};
use crate::meter::Meter;
use crate::model::{Ids, Namespace, Queue, Timestamp};
use crate::news::Newsroom;
use crate::node::Node;
use crate::quotas::Quotas;
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::retention::{self, Right};
use crate::stall::StallWatch;
use crate::store::{Census, Store};
use crate::values::Values;
use crate::wake::{Health, Wake};
use crate::worker::{Defaults, Shop, WorkerBuilder};

pub use builder::EngineBuilder;
pub(crate) use process::Told;

/// For how long a look at what stands where is used again.
const FRESH: Duration = Duration::from_secs(1);

/// The engine of this process. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// What client and workers share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) wake: Arc<Wake>,
    /// What was named to carry hints, and reaches no other node.
    alone: Option<Alone>,
    pub(crate) values: Arc<Values>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) newsroom: Arc<Newsroom>,
    /// What this process does beside its calls.
    watching: Mutex<JoinSet<()>>,
    committer: Committer,
    pub(crate) reader: Reader,
    fleet: Fleet,
    pub(crate) recovery: Recovery,
    pub(crate) node: Node,
    /// Where leases are renewed.
    pub(crate) aside: Aside,
    /// What workers begin with.
    pub(crate) workers_begin_with: Defaults,
    pub(crate) retention: Duration,
    /// Where histories of closed runs go, and after how long.
    pub(crate) archive: Option<(Arc<dyn Archive>, Duration)>,
    stall: StallWatch,
    /// The last look at what stands where, and when that was.
    last_look: tokio::sync::Mutex<Option<(Instant, Result<health::Seen>)>>,
    pub(crate) compatibility: Compatibility,
    pub(crate) quotas: Quotas,
    pub(crate) promoted: Promoted,
    /// A worker has begun or ended.
    pub(crate) roster: Arc<Notify>,
    /// The workers of this process, for questions.
    workers: Mutex<Vec<Weak<Shop>>>,
}

impl Engine {
    /// An engine on `store` with the defaults of [`Engine::builder`].
    ///
    /// # Errors
    /// Those of [`EngineBuilder::start`].
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn start(store: impl Store) -> Result<Self> {
        Self::builder(store).start().await
    }

    /// An engine on the database at `url` with the defaults of [`Engine::builder`]:
    /// `postgres://user:password@host/database`, `mysql://…`, `mariadb://…`, `sqlite:file` or
    /// `sqlite::memory:`, as far as this crate's features were built in.
    ///
    /// # Errors
    /// `Invalid` when the scheme is another one, or its feature was not built in. Otherwise as
    /// [`start`](Self::start).
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder_at(url)?.start().await
    }

    /// An engine on `store`, to be told how it differs from the defaults and then started.
    pub fn builder(store: impl Store) -> EngineBuilder {
        EngineBuilder::on(Arc::new(store))
    }

    /// An engine on the database at `url`, of the forms of [`connect`](Self::connect), to be told
    /// how it differs from the defaults and then started. Nothing is opened yet.
    ///
    /// # Errors
    /// `Invalid` when the scheme is another one, its feature was not built in, or the rest of the
    /// url does not read.
    pub fn builder_at(url: &str) -> Result<EngineBuilder> {
        Ok(EngineBuilder::on(crate::store::url::open(url)?))
    }

    /// A client for the workflows of `namespace`, whose tasks wait in `queue`.
    pub fn client(&self, namespace: Namespace, queue: Queue) -> Client {
        Client::new(Arc::clone(&self.core), namespace, queue)
    }

    /// A worker for `queue` of `namespace`, to be told what it can do and then started.
    pub fn worker(&self, namespace: Namespace, queue: Queue) -> WorkerBuilder {
        WorkerBuilder::new(Arc::clone(&self.core), namespace, queue)
    }

    /// Removes now what is past its retention, in every namespace, and says how many runs. One
    /// process of all does so by itself once a minute. `heard` is told after each portion how many
    /// went so far.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; what was removed until then is.
    ///
    /// # Cancel safety
    /// Safe: runs are removed in portions, each whole or not at all.
    pub async fn retire_closed_runs(&self, heard: impl FnMut(u64) + Send) -> Result<u64> {
        retention::pass(&self.core, Right::Hand, heard).await
    }

    /// How soon the others notice that this process is gone.
    pub fn recovery(&self) -> Recovery {
        self.core.recovery
    }

    /// For how long closed runs are kept where their namespace does not say.
    pub fn retention(&self) -> Duration {
        self.core.retention
    }

    /// Hands over to `archive` now the histories of all runs that closed at least `closed_for` ago,
    /// in every namespace, and removes them here; with [`EngineBuilder::archive`] one process of all
    /// does so by itself. The runs with their results stay until their retention ends.
    ///
    /// # Errors
    /// Those of the archive, but for histories that it never takes, which are counted;
    /// `Unavailable` or `Timeout` when the database does not answer. What was handed over until then
    /// is.
    ///
    /// # Cancel safety
    /// Safe: runs are handed over one by one. One that was taken and not yet removed here is handed
    /// over once more by the next pass.
    pub async fn archive_closed_runs(
        &self,
        archive: &dyn Archive,
        closed_for: Duration,
    ) -> Result<Handed> {
        let mut places = retention::Places::new();
        let span = (closed_for, &mut places);
        retention::hand_over(&self.core, archive, span, Right::Hand).await
    }

    /// What stands where, with the age of the oldest of each: one look at the database, of at most
    /// [`MOST_COUNTED`](crate::store::MOST_COUNTED) open tasks.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn census(&self) -> Result<Census> {
        self.core.store.census().await
    }

    /// What the database's clock shows, as far as this process knows it between two answers: it is
    /// asked only when it has not answered anything yet.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn now(&self) -> Result<Timestamp> {
        self.core.now().await
    }

    /// How this engine and what it stands on are: never an error, since that is what it tells of.
    ///
    /// A look that is younger than a second is used again, so that any number of callers cost the
    /// database one look a second.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn health(&self) -> Report {
        let mut last = self.core.last_look.lock().await;
        let is_fresh = |(at, _): &(Instant, Result<health::Seen>)| at.elapsed() < FRESH;
        if !last.as_ref().is_some_and(is_fresh) {
            *last = None;
        }
        let (_, seen) = match &mut *last {
            Some(last) => last,
            none => none.insert((Instant::now(), self.core.look().await)),
        };
        let kept = health::Kept {
            compatibility: self.core.compatibility(),
            retention: self.core.retention,
        };
        let passing = self.core.wake.passing();
        let dispatch = self.core.wake.dispatch();
        let hints = (&passing, self.core.alone.as_ref());
        health::report(seen.as_ref(), &kept, hints, &dispatch)
    }

    /// Says that this process has ended, and gives its roles up, so that nobody waits to find out.
    /// To be called after the [`shutdown`](crate::worker::Worker::shutdown) of its workers, as the
    /// last use of this engine and its clients. An engine that is dropped instead is found dead.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer: others find it dead then.
    ///
    /// # Cancel safety
    /// Safe to drop: others find this process dead then.
    pub async fn shutdown(self) -> Result<()> {
        self.core.leave().await
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn values(&self) -> &Values {
        &self.core.values
    }

    /// Whether hints pass between this process and others: without them, what others do is seen
    /// up to a second later.
    pub fn wake_health(&self) -> Health {
        self.core.wake.health()
    }
}

#[cfg(test)]
impl Engine {
    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

//! An engine before it is started.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::{Error, ErrorKind, Result};
use tokio::task::JoinSet;

use super::{Core, Engine};
use crate::archive::Archive;
use crate::aside::Aside;
use crate::builds::Promoted;
use crate::clock::Clock;
use crate::committer::Committer;
use crate::compatibility::Compatibility;
use crate::fleet::Fleet;
use crate::health::Alone;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::model::{Ids, Namespace, NodeName};
use crate::news::Newsroom;
use crate::node::Node;
use crate::quotas::Quotas;
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::retention::RETENTION;
use crate::signals::SIGNALS;
use crate::stall::StallWatch;
use crate::store::{Measured, Store};
use crate::values::{Codec, Values};
use crate::wake::{self, Backend, Handover, Wake};
use crate::worker::Defaults;

/// An engine to be.
#[must_use = "it is no engine before it is started"]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    wake: Vec<Arc<dyn Backend>>,
    handover: Option<Arc<dyn Handover>>,
    alone: Option<Alone>,
    limits: Limits,
    codec: Option<Arc<dyn Codec>>,
    recovery: Recovery,
    namespace: Option<Namespace>,
    retention: Duration,
    archive: Option<(Arc<dyn Archive>, Duration)>,
    workers: Defaults,
    node: Node,
    compatibility: Compatibility,
    quotas: Quotas,
}

impl EngineBuilder {
    pub(crate) fn on(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            wake: Vec::new(),
            handover: None,
            alone: None,
            limits: Limits::default(),
            codec: None,
            recovery: Recovery::default(),
            namespace: None,
            retention: RETENTION,
            archive: None,
            workers: Defaults::default(),
            node: Node::default(),
            compatibility: Compatibility::default(),
            quotas: Quotas::default(),
        }
    }

    /// What carries hints to other processes, so that they need not look once a second. Said twice,
    /// hints go both ways, so that a deployment moves from one to the other without a cutover.
    /// Default: nothing.
    pub fn wake(self, backend: impl Backend) -> Self {
        self.wake_by(Arc::new(backend))
    }

    pub(crate) fn wake_by(mut self, backend: Arc<dyn Backend>) -> Self {
        self.wake.push(backend);
        self
    }

    /// Goes on with runs whatever [definition](WorkerBuilder::definition) of their workflow they
    /// began with. What differs then is found when a history is replayed.
    pub const fn without_pins(mut self) -> Self {
        self.node.pins = false;
        self
    }

    /// Hands tasks that may be claimed to one of those who wait for them, in place of a hint that has
    /// all of them look. Default: nothing, everybody looks.
    pub fn handover(mut self, handover: impl Handover) -> Self {
        self.handover = Some(Arc::new(handover));
        self
    }

    /// What the environment names instead of a backend.
    pub(crate) fn alone(mut self, alone: Alone) -> Self {
        self.alone = Some(alone);
        self
    }

    /// How much a run may have open, and how large values may be. Default: [`Limits::default`],
    /// which does not read the environment: [`Limits::from_env`] does.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What is done to values on their way into the database and back. Default: nothing, they are
    /// stored as JSON.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codec = Some(Arc::new(codec));
        self
    }

    /// How soon the others notice that this process is gone. Default: [`Recovery::default`].
    pub const fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Keeps what this process does for all in `namespace`: it takes back, ends, fires and removes
    /// what is there, in roles of that namespace, and touches nothing of another one. Its clients
    /// and workers are for whatever namespace they name; a task of another one that it leased and
    /// left is taken back there when its lease ends. Default: all namespaces.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// For how long closed runs are kept where their namespace does not say. Default: 30 days.
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Hands the history of each run over to `archive` once it has been closed for `after`, a minute
    /// at least, and removes it here; the run with its result stays until its retention ends. A run
    /// whose history is still here is then not removed, however old it is. The same in every process
    /// on one database: one of them does it for all. Default: histories stay as long as their runs.
    pub fn archive(mut self, archive: impl Archive, after: Duration) -> Self {
        self.archive = Some((Arc::new(archive), after));
        self
    }

    /// What this process is called where processes are listed. Default: a name of its own at each
    /// start.
    pub fn node(mut self, name: NodeName) -> Self {
        self.node.name = Some(name);
        self
    }

    /// How long workers lease a task that are not told otherwise. Default: 60 s.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.workers.lease = lease;
        self
    }

    /// How many runs workers keep in memory that are not told otherwise. Default: 1000.
    pub const fn cached_runs(mut self, runs: usize) -> Self {
        self.workers.cached_runs = runs;
        self
    }

    /// As [`node`](Self::node), for a name that something outside gives to one process at a time,
    /// such as a service of systemd or the pod of a stateful set: whoever had it before is declared
    /// dead at once, and what it had goes on here without waiting to find out. It loses its leases
    /// if it lives after all.
    pub fn exclusive(mut self, name: NodeName) -> Self {
        self.node.exclusive = true;
        self.node(name)
    }

    /// Keeps this process from looking after the others: it declares none dead, and takes back
    /// nothing. Some process has to; `engine.role_vacant` reports that none does.
    pub const fn without_recovery(mut self) -> Self {
        self.node.recovers = false;
        self
    }

    /// How long the lease of a local step is at most, at least a second; it is renewed for as long
    /// as the step runs. What a worker claims along with workflow tasks has it as well. Default: that
    /// of its worker's tasks, see [`lease`](WorkerBuilder::lease).
    pub const fn local_lease(mut self, bound: Duration) -> Self {
        self.node.local_lease = Some(bound);
        self
    }

    /// What runs that it starts are marked with, and which marks its workers support. Default:
    /// [`Compatibility::default`], no marks, which does not read the environment:
    /// [`Compatibility::from_env`] does.
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.compatibility = compatibility;
        self
    }

    /// How much of a queue or a namespace may be under way, in all processes together: the same in
    /// each of them. Default: any number.
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Starts it, and brings the schema of its database to this version.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when its schema is
    /// of another application or a later version; `Invalid` when the times of
    /// [`recovery`](Self::recovery) would take the living for dead, or a name is none.
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn start(self) -> Result<Engine> {
        self.build(Part::Member).await
    }

    /// Brings the schema of its database to this version, and does nothing else: for deployments
    /// that do so before they start processes of this version.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn migrate(self) -> Result<()> {
        self.store.migrate().await
    }

    /// Starts one that takes no part in what processes do for all: for tools that look at a cluster
    /// and command it, and end again. Its schema stays as it is, nobody sees this process among the
    /// others, and it takes nothing back, fires and removes nothing by itself. Its clients are like
    /// any others. What its workers had is found only when their leases end.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Invalid` when it answers and
    /// the schema of this version cannot be read there.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn visit(self) -> Result<Engine> {
        self.build(Part::Visitor).await
    }

    async fn build(self, part: Part) -> Result<Engine> {
        coord_core::signals::register(SIGNALS);
        self.recovery.check()?;
        self.node.check()?;
        let store = match &self.namespace {
            Some(namespace) => self.store.within(namespace),
            None => self.store,
        };
        let meter = Arc::new(Meter::default());
        let store: Arc<dyn Store> = Arc::new(Measured::new(store, Arc::clone(&meter)));
        match part {
            Part::Member => store.migrate().await?,
            Part::Visitor => look(&*store).await?,
        }
        let recovery = self.recovery;
        let values = Arc::new(Values::new(self.codec, self.limits));
        let (ids, clock) = (Arc::new(Ids::random()), Arc::new(Clock::default()));
        let aside = Aside::start(&store)?;
        let (fleet, has_succeeded) = match part {
            Part::Member => {
                let node = (recovery, &self.node);
                let what = (self.compatibility.current(), &meter);
                Fleet::join(&store, &aside, &ids, node, what).await?
            }
            Part::Visitor => (Fleet::visit(&store, &ids, recovery), false),
        };
        let wake = Arc::new(Wake::new(self.wake, self.handover));
        let newsroom = Arc::<Newsroom>::default();
        let hearers = (Arc::clone(&wake), Arc::clone(&meter), Arc::clone(&newsroom));
        let committer = Committer::new(Arc::clone(&store), Arc::clone(&clock), hearers);
        let reader = Reader::new(Arc::clone(&store), Arc::clone(&clock));
        let mut watching = JoinSet::new();
        watching.spawn(wake::watch_ends(Arc::clone(&store), Arc::clone(&wake)));
        let core = Arc::new(Core {
            store,
            ids,
            clock,
            wake,
            alone: self.alone,
            values,
            meter,
            newsroom,
            watching: Mutex::new(watching),
            committer,
            reader,
            fleet,
            recovery,
            node: self.node,
            stall: StallWatch::begin(&aside),
            aside,
            workers_begin_with: self.workers,
            retention: self.retention,
            archive: self.archive,
            last_look: tokio::sync::Mutex::default(),
            compatibility: self.compatibility,
            quotas: self.quotas,
            promoted: Promoted::default(),
            roster: Arc::default(),
            workers: Mutex::default(),
        });
        if part == Part::Member {
            core.watch(has_succeeded);
        }
        Ok(Engine { core })
    }
}

/// Whether a process is one of those that do something for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Member,
    Visitor,
}

/// Whether there is something to visit.
async fn look(store: &dyn Store) -> Result<()> {
    // The clock, which needs no table: what fails here is the way to the database.
    let reached = store.load(&[]).await;
    reached
        .map_err(|error| Error::new(error.kind(), "reaching the database").with_source(error))?;
    store.look().await.map_err(|error| {
        if error.kind() == ErrorKind::Invalid {
            return error;
        }
        let message = "the database answers, and the schema of this version cannot be read there";
        Error::invalid(message).with_source(error)
    })
}

//! One process of the engine: its database, its committer, and who it is.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::archive::{Archive, Handed};
use crate::aside::Aside;
use crate::builds::{Blocked, Promoted};
use crate::client::Client;
use crate::clock::Clock;
use crate::committer::{Committer, Patience, locked, unanswered};
use crate::compatibility::Compatibility;
use crate::fleet::Fleet;
use crate::health::{self, Alone, Report};
use crate::limits::Limits;
use crate::meter::Meter;
use crate::model::{Ids, Namespace, NodeName, OwnerId, Queue, Record, RunId, Timestamp};
use crate::news::{News, Newsroom};
use crate::node::Node;
use crate::quotas::Quotas;
use crate::recovery::Recovery;
use crate::retention::{self, RETENTION, Right};
use crate::roles;
use crate::roster;
use crate::schedule;
use crate::signals::SIGNALS;
use crate::stall::StallWatch;
use crate::store::{
    CallerTransaction, Census, Measured, Outcome, Ready, Role, Start, Store, Target, Term,
    WorkerFilter, Write,
};
use crate::upkeep;
use crate::values::{Codec, Values};
use crate::wake::{self, Backend, Channel, Handover, Health, Wake};
use crate::worker::{Defaults, Eager, Shop, WorkerBuilder};

/// How often a write whose answer was lost is sent again: through a failover of some seconds, and no
/// longer than a caller waits for a call.
const RESENDS: u32 = 6;
const RESEND: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

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

    async fn build(builder: EngineBuilder, part: Part) -> Result<Self> {
        coord_core::signals::register(SIGNALS);
        builder.recovery.check()?;
        builder.node.check()?;
        let store = match &builder.namespace {
            Some(namespace) => builder.store.within(namespace),
            None => builder.store,
        };
        let meter = Arc::new(Meter::default());
        let store: Arc<dyn Store> = Arc::new(Measured::new(store, Arc::clone(&meter)));
        match part {
            Part::Member => store.migrate().await?,
            Part::Visitor => look(&*store).await?,
        }
        let recovery = builder.recovery;
        let values = Arc::new(Values::new(builder.codec, builder.limits));
        let (ids, clock) = (Arc::new(Ids::random()), Arc::new(Clock::default()));
        let aside = Aside::start(&store)?;
        let (fleet, has_succeeded) = match part {
            Part::Member => {
                let node = (recovery, &builder.node);
                let what = (builder.compatibility.current(), &meter);
                Fleet::join(&store, &aside, &ids, node, what).await?
            }
            Part::Visitor => (Fleet::visit(&store, &ids, recovery), false),
        };
        let wake = Arc::new(Wake::new(builder.wake, builder.handover));
        let newsroom = Arc::<Newsroom>::default();
        let hearers = (Arc::clone(&wake), Arc::clone(&meter), Arc::clone(&newsroom));
        let committer = Committer::new(Arc::clone(&store), Arc::clone(&clock), hearers);
        let mut watching = JoinSet::new();
        watching.spawn(wake::watch_ends(Arc::clone(&store), Arc::clone(&wake)));
        let core = Arc::new(Core {
            store,
            ids,
            clock,
            wake,
            alone: builder.alone,
            values,
            meter,
            newsroom,
            watching: Mutex::new(watching),
            committer,
            fleet,
            recovery,
            node: builder.node,
            stall: StallWatch::begin(&aside),
            aside,
            workers_begin_with: builder.workers,
            retention: builder.retention,
            archive: builder.archive,
            last_look: tokio::sync::Mutex::default(),
            compatibility: builder.compatibility,
            quotas: builder.quotas,
            promoted: Promoted::default(),
            roster: Arc::default(),
            workers: Mutex::default(),
        });
        if part == Part::Member {
            core.watch(has_succeeded);
        }
        Ok(Self { core })
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
        Engine::build(self, Part::Member).await
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
        Engine::build(self, Part::Visitor).await
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

#[cfg(test)]
impl Engine {
    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Core {
    /// Commits `write`, and tells this process of what there is to do by it.
    pub(crate) async fn commit(&self, write: Write) -> Result<Outcome> {
        self.commit_with(write, Patience::None).await
    }

    /// As [`commit`](Self::commit), through outages of the database, for as long as it is awaited.
    pub(crate) async fn commit_patiently(&self, write: Write) -> Result<Outcome> {
        self.commit_with(write, Patience::WhileAwaited).await
    }

    async fn commit_with(&self, write: Write, patience: Patience) -> Result<Outcome> {
        let answered = answered(&write);
        let is_message = matches!(write, Write::Deliver(_) | Write::Settle(_));
        let outcome = self.committer.commit(write, patience).await?;
        if let (Some(run), Outcome::Done { .. } | Outcome::Taken { .. }) = (answered, &outcome) {
            self.wake.signal(&[Channel::run(&run)]);
        }
        // It may be news for a run whose local step is under way here.
        if let (true, Outcome::Done { run, inbox_seq }) = (is_message, &outcome) {
            for worker in self.workers() {
                worker.tell_news(run, *inbox_seq);
            }
        }
        Ok(outcome)
    }

    /// Commits a write that may be sent again as it is: one whose answer was lost is, until what
    /// became of it is known, or the database stays away.
    pub(crate) async fn commit_known(&self, write: Write) -> Result<Outcome> {
        known(|| self.commit(write.clone())).await
    }

    /// Commits `writes` in one transaction of their own. They may be sent again as they are, and
    /// are when their answer was lost.
    pub(crate) async fn commit_together(&self, writes: &[Write]) -> Result<Vec<Outcome>> {
        known(|| self.committer.commit_together(writes)).await
    }

    /// Writes in a transaction of the caller, and gives what is to be told once it is committed.
    pub(crate) async fn commit_in(
        &self,
        transaction: CallerTransaction<'_>,
        write: Write,
    ) -> Result<(Outcome, Told)> {
        let writes = [write];
        let mut applied = self.store.apply_in(transaction, &writes).await?;
        let news = self.newsroom.of(&writes, &applied);
        let outcome = applied.outcomes.pop().ok_or_else(unanswered)?;
        Ok((outcome, Told(applied.ready, news)))
    }

    /// Tells of what there is to do.
    pub(crate) fn tell(&self, told: &Told) {
        self.wake.tasks(&told.0, self.clock.now());
        self.newsroom.tell(told.1.iter().cloned());
    }

    /// One look at what health goes by.
    async fn look(&self) -> Result<health::Seen> {
        let census = self.store.census().await?;
        // Only who has to do with marks counts what waits for them: that costs more.
        let blocked = if self.compatibility.is_marked() {
            self.blocked().await?
        } else {
            Blocked {
                now: census.now,
                backlogs: Vec::new(),
            }
        };
        Ok(health::Seen {
            tenants: self.store.tenants().await?,
            workers: self.store.workers(&WorkerFilter::default()).await?,
            blocked,
            census,
        })
    }

    /// The incarnation of this process.
    pub(crate) fn owner(&self) -> OwnerId {
        self.fleet.owner().borrow().clone()
    }

    /// The term of this process in `role`, if it has or gets one.
    pub(crate) async fn elect(&self, role: Role, ttl: Duration) -> Result<Option<Term>> {
        self.fleet.elect(role, ttl).await
    }

    /// Hears when this process becomes another incarnation.
    pub(crate) fn watch_owner(&self) -> watch::Receiver<OwnerId> {
        self.fleet.owner()
    }

    /// Begins what this process does beside its calls. Only once the core is there: what does not
    /// find it takes it for gone, and ends.
    fn watch(self: &Arc<Self>, has_succeeded: bool) {
        let core = || Arc::downgrade(self);
        let mut watching = locked(&self.watching);
        watching.spawn(schedule::run(core()));
        watching.spawn(retention::hold(core()));
        watching.spawn(roles::watch(core()));
        let changed = Arc::clone(&self.roster);
        watching.spawn(roster::keep(core(), changed, self.watch_owner()));
        if self.node.recovers {
            watching.spawn(upkeep::run(core(), has_succeeded));
        }
    }

    /// Ends what this process does for others, and what they wait for: its roles are free, and they
    /// hear of it.
    async fn leave(&self) -> Result<()> {
        let mut watching = std::mem::take(&mut *locked(&self.watching));
        watching.shutdown().await;
        self.stall.end().await;
        let left = self.fleet.leave().await;
        if self.fleet.is_member() {
            let roles = Role::ALL.map(Channel::role);
            self.wake.signal(&roles);
        }
        self.wake.flush().await;
        left
    }

    /// Shows the others whether this process takes no more work: its workers, if it ever had any,
    /// are about to end.
    pub(crate) fn show_draining(&self) {
        let workers = self.workers();
        let is_draining = !workers.is_empty() && workers.iter().all(|worker| worker.is_closing());
        self.fleet.show_draining(is_draining);
    }

    /// How long leases of this process last at least.
    pub(crate) fn shortest_lease(&self) -> Duration {
        let leases = self
            .workers()
            .into_iter()
            .map(|worker| worker.shortest_lease());
        leases.min().unwrap_or(Duration::MAX)
    }

    /// A worker of this process has begun.
    pub(crate) fn join(&self, worker: &Arc<Shop>) {
        let mut workers = locked(&self.workers);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(worker));
        drop(workers);
        self.show_draining();
        self.roster.notify_one();
    }

    /// The workers of this process.
    pub(crate) fn workers(&self) -> Vec<Arc<Shop>> {
        locked(&self.workers)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Leases the run of `start` to a worker of this process that has room for it.
    pub(crate) fn lease_start(&self, start: &mut Start) -> Option<Eager> {
        let workers = self.workers();
        workers.iter().find_map(|worker| worker.lease_start(start))
    }

    /// Whether the history of `run` may be looked for here.
    ///
    /// # Errors
    /// `Invalid` when it is in an archive.
    pub(crate) async fn expect_history(&self, run: &RunId) -> Result<()> {
        let target = Target::Run(run.clone());
        let described = self.store.describe(&target).await?;
        match described.and_then(|it| it.archived) {
            Some(archived) => Err(Error::invalid(format!(
                "reading the history of {run}: it is not here any more, but at {}",
                archived.place
            ))),
            None => Ok(()),
        }
    }

    /// What the database's clock shows. Asks it only when it has not answered anything yet.
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        if self.clock.now() == Timestamp::default() {
            let sent = Instant::now();
            let loaded = self.store.load(&[]).await?;
            self.clock.observe(loaded.now, sent);
        }
        Ok(self.clock.now())
    }
}

/// Repeats `commit` while its answer is lost, until the database has been away for some seconds.
async fn known<T, F>(mut commit: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let (mut attempt, mut is_lost) = (0, false);
    loop {
        match commit().await {
            Err(error) if attempt < RESENDS => {
                is_lost |= error.kind() == ErrorKind::Timeout;
                // Without a lost answer nothing has happened, and the caller may as well know.
                if !is_lost || !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable)
                {
                    return Err(error);
                }
                tokio::time::sleep(RESEND.jittered(attempt)).await;
                attempt += 1;
            }
            // What may have happened has an unknown end, even if the last try was never sent.
            Err(error) if is_lost && error.kind() == ErrorKind::Unavailable => {
                return Err(Error::timeout("committing: the answer was lost").with_source(error));
            }
            result => return result,
        }
    }
}

/// What writes have left to be claimed, and what there is to tell of them once they are committed.
pub(crate) struct Told(Vec<Ready>, Vec<News>);

/// The run whose update `write` answers.
fn answered(write: &Write) -> Option<RunId> {
    let (run, records) = match write {
        Write::Append(append) => (&append.run, &append.records),
        Write::Turn(turn) => (&turn.run, &turn.records),
        _ => return None,
    };
    records.iter().any(is_answer).then(|| run.clone())
}

fn is_answer(record: &Record) -> bool {
    matches!(record.kind.as_str(), "UpdateCompleted" | "UpdateRejected")
}

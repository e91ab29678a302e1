//! One process of the engine: its database, its committer, and who it is.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::clock::Clock;
use crate::committer::{Committer, Patience, locked, unanswered};
use crate::fleet::Fleet;
use crate::model::{Ids, Namespace, OwnerId, Queue, Record, RunId, TaskKind, Timestamp};
use crate::signals::{SIGNALS, Signal};
use crate::store::{CallerTransaction, Load, Outcome, Store, Then, Write};
use crate::wake::Wake;
use crate::worker::{Shop, WorkerBuilder};

/// How often the ends are looked for that this process does not see by itself.
const LOOK: Duration = Duration::from_secs(1);
/// How many runs are looked at in one call.
const RUNS_A_LOOK: usize = 500;
/// How often a write whose answer was lost is sent again: through a failover of some seconds, and no
/// longer than a caller waits for a call.
const RESENDS: u32 = 6;
const RESEND: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// The engine of this process. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
}

/// What client and workers share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) wake: Arc<Wake>,
    _watch: Mutex<JoinSet<()>>,
    committer: Committer,
    fleet: Fleet,
    /// The workers of this process, for questions.
    workers: Mutex<Vec<Weak<Shop>>>,
}

impl Engine {
    /// An engine on `store`, whose schema it brings to this version.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when its schema is
    /// of another application or a later version.
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn start(store: impl Store) -> Result<Self> {
        Self::start_on(Arc::new(store)).await
    }

    /// An engine on the database at `url`, whose schema it brings to this version:
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
        Self::start_on(crate::store::url::open(url)?).await
    }

    async fn start_on(store: Arc<dyn Store>) -> Result<Self> {
        coord_core::signals::register(SIGNALS);
        store.migrate().await?;
        let (ids, clock) = (Arc::new(Ids::random()), Arc::new(Clock::default()));
        let fleet = Fleet::join(Arc::clone(&store), Arc::clone(&ids)).await?;
        let committer = Committer::new(Arc::clone(&store), Arc::clone(&clock));
        let wake = Arc::new(Wake::default());
        let mut watching = JoinSet::new();
        watching.spawn(watch_ends(Arc::clone(&store), Arc::clone(&wake)));
        let core = Core {
            store,
            ids,
            clock,
            wake,
            _watch: Mutex::new(watching),
            committer,
            fleet,
            workers: Mutex::default(),
        };
        Ok(Self {
            core: Arc::new(core),
        })
    }

    /// A client for the workflows of `namespace`, whose tasks wait in `queue`.
    pub fn client(&self, namespace: Namespace, queue: Queue) -> Client {
        Client::new(Arc::clone(&self.core), namespace, queue)
    }

    /// A worker for `queue` of `namespace`, to be told what it can do and then started.
    pub fn worker(&self, namespace: Namespace, queue: Queue) -> WorkerBuilder {
        WorkerBuilder::new(Arc::clone(&self.core), namespace, queue)
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
        let hints = Hints::of(&write);
        let outcome = self.committer.commit(write, patience).await?;
        self.tell(Told(vec![(hints, outcome.clone())]));
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
        let outcomes = known(|| self.committer.commit_together(writes)).await?;
        let hints = writes.iter().map(Hints::of);
        self.tell(Told(hints.zip(outcomes.iter().cloned()).collect()));
        Ok(outcomes)
    }

    /// Writes in a transaction of the caller, and gives what is to be told once it is committed.
    pub(crate) async fn commit_in(
        &self,
        transaction: CallerTransaction<'_>,
        write: Write,
    ) -> Result<(Outcome, Told)> {
        let writes = [write];
        let mut applied = self.store.apply_in(transaction, &writes).await?;
        let outcome = applied.outcomes.pop().ok_or_else(unanswered)?;
        let told = Told(vec![(Hints::of(&writes[0]), outcome.clone())]);
        Ok((outcome, told))
    }

    /// Tells this process of what there is to do.
    pub(crate) fn tell(&self, told: Told) {
        for (hints, outcome) in told.0 {
            if matches!(outcome, Outcome::Done { .. } | Outcome::Started { .. }) {
                hints.give(&self.wake, &outcome);
            }
        }
    }

    /// The incarnation of this process.
    pub(crate) fn owner(&self) -> OwnerId {
        self.fleet.owner().borrow().clone()
    }

    /// Hears when this process becomes another incarnation.
    pub(crate) fn watch_owner(&self) -> watch::Receiver<OwnerId> {
        self.fleet.owner()
    }

    /// A worker of this process has begun.
    pub(crate) fn join(&self, worker: &Arc<Shop>) {
        let mut workers = locked(&self.workers);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(worker));
    }

    /// The workers of this process.
    pub(crate) fn workers(&self) -> Vec<Arc<Shop>> {
        locked(&self.workers)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
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

/// What there is to do by some writes.
pub(crate) struct Told(Vec<(Hints, Outcome)>);

/// What a write makes ready.
#[derive(Default)]
struct Hints {
    workflow: bool,
    activity: bool,
    answers: bool,
    /// For a turn: how many messages it took. More than these means news.
    drained: Option<u64>,
}

impl Hints {
    fn of(write: &Write) -> Self {
        let workflow = Self {
            workflow: true,
            ..Self::default()
        };
        match write {
            Write::Start(start) => Self {
                workflow: start.lease.is_none(),
                ..Self::default()
            },
            Write::Append(append) => {
                let answers = append.records.iter().any(is_answer);
                Self {
                    answers,
                    ..Self::default()
                }
            }
            Write::Turn(turn) => {
                let (closes, waits) = match &turn.then {
                    Then::Close(_) => (true, false),
                    Then::Wait { .. } => (false, true),
                    Then::Keep | Then::Take(_) => (false, false),
                };
                Self {
                    workflow: closes || !turn.children.is_empty() || !turn.deliveries.is_empty(),
                    activity: turn
                        .activities
                        .iter()
                        .any(|activity| activity.lease.is_none()),
                    answers: turn.records.iter().any(is_answer),
                    drained: waits.then_some(turn.drained),
                }
            }
            Write::Deliver(_) | Write::Settle(_) | Write::Terminate(_) | Write::Resume(_) => {
                workflow
            }
            Write::PutBack(_) => Self {
                activity: true,
                ..workflow
            },
        }
    }

    fn give(&self, wake: &Wake, outcome: &Outcome) {
        let has_news = match (self.drained, outcome) {
            (Some(drained), Outcome::Done { inbox_seq, .. }) => *inbox_seq > drained,
            _ => false,
        };
        if self.workflow || has_news {
            wake.tasks(TaskKind::Workflow);
        }
        if self.activity {
            wake.tasks(TaskKind::Activity);
        }
        if self.answers {
            wake.answered();
        }
    }
}

/// Looks, once for all who wait, for the ends of runs that other processes work on.
async fn watch_ends(store: Arc<dyn Store>, wake: Arc<Wake>) {
    loop {
        tokio::time::sleep(LOOK).await;
        for runs in wake.awaited().chunks(RUNS_A_LOOK) {
            let load = |run: &RunId| Load {
                run: run.clone(),
                after: 0,
                limit: 0,
            };
            let loads: Vec<_> = runs.iter().map(load).collect();
            match store.load(&loads).await {
                Ok(loaded) => {
                    for run in loaded.runs.into_iter().flatten().map(|loaded| loaded.run) {
                        if let Some(closed) = &run.closed {
                            wake.ended(&run.run, closed);
                        }
                    }
                }
                Err(error) => Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit(),
            }
        }
    }
}

fn is_answer(record: &Record) -> bool {
    matches!(record.kind.as_str(), "UpdateCompleted" | "UpdateRejected")
}

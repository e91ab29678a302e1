//! Group commit: the writes of all runs of a process share transactions.
//!
//! A write that finds nobody else here goes to the database at once. Others gather while it is
//! there, and go together when it is back, along with those whom it has answered: most of them come
//! back with their next step within a fraction of the time of a commit, and without them two groups
//! would take turns, each with half of the writes. What goes together is of one sort: starts,
//! events of turns that go on, turns, ends of activities, and the rest, since a store carries out a
//! batch of one sort in fewer steps. A lone write pays nothing for this.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::meter::Meter;
use crate::news::Newsroom;
use crate::signals::Signal;
use crate::store::{Applied, Outcome, Store, Write};
use crate::wake::Wake;

/// The largest batch. A larger one brings no more throughput, and its last write waits longer.
const LARGEST_BATCH: usize = 64;
/// How many batches are under way at most: full ones, since beside one that is not full another
/// would only take writes away from it.
const DEPTH: u32 = 2;
/// Who was answered is waited for at most this part of the time that the commit took, and this
/// long.
const WAIT_PART: u32 = 4;
const WAIT_MOST: Duration = Duration::from_micros(500);
/// When this many looks in a row have found nothing new, nobody is about to write.
const SILENT_LOOKS: u32 = 16;
/// How many writes may wait; then those who write wait.
const QUEUE: usize = 4096;
/// How often a batch that lost a conflict is tried again. The store has tried by itself before.
const ATTEMPTS: u32 = 5;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
/// Between tries while the database is away. Its return is noticed within two seconds.
const OUTAGE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// The one committer of a process. Dropping it ends what waits.
pub(crate) struct Committer {
    database: Database,
    jobs: mpsc::Sender<Job>,
    traffic: Arc<Traffic>,
    _gathering: Mutex<JoinSet<()>>,
}

/// Where writes go, and who hears of them.
#[derive(Clone)]
struct Database {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
    wake: Arc<Wake>,
    meter: Arc<Meter>,
    newsroom: Arc<Newsroom>,
}

/// Who writes, and how long it takes.
#[derive(Default)]
struct Traffic {
    /// Callers that wait for an answer.
    callers: AtomicUsize,
    /// How many the last batch has answered.
    answered: AtomicUsize,
    /// How long it took, in microseconds.
    took: AtomicU64,
}

/// A caller, until it is answered or goes.
struct Caller<'a>(&'a Traffic);

struct Job {
    /// `None` while it is with the database.
    write: Option<Write>,
    reply: oneshot::Sender<Result<Outcome>>,
    patience: Patience,
}

/// What happens to a write that the database does not take now, and that did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Its caller is told after a few tries.
    None,
    /// It is tried again for as long as its caller waits for it.
    WhileAwaited,
}

impl Committer {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<Clock>,
        (wake, meter, newsroom): (Arc<Wake>, Arc<Meter>, Arc<Newsroom>),
    ) -> Self {
        let database = Database {
            store,
            clock,
            wake,
            meter,
            newsroom,
        };
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let traffic = Arc::new(Traffic::default());
        let mut gathering = JoinSet::new();
        gathering.spawn(gather(database.clone(), waiting, Arc::clone(&traffic)));
        Self {
            database,
            jobs,
            traffic,
            _gathering: Mutex::new(gathering),
        }
    }

    /// Commits `write`, along with others.
    ///
    /// # Errors
    /// Those of [`Store::apply`].
    ///
    /// # Cancel safety
    /// A write that is dropped is committed all the same, or not.
    pub(crate) async fn commit(&self, write: Write, patience: Patience) -> Result<Outcome> {
        let (_caller, is_alone) = self.traffic.enter();
        if is_alone {
            let mut attempt = 0;
            loop {
                let sent = Instant::now();
                match self.database.apply(std::slice::from_ref(&write)).await {
                    Ok(mut applied) => {
                        self.traffic.answered(1, sent.elapsed());
                        return applied.outcomes.pop().ok_or_else(unanswered);
                    }
                    Err(error) if patience == Patience::WhileAwaited && is_safe(&error) => {
                        wait_after(error, &mut attempt).await;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let (reply, answer) = oneshot::channel();
        let ended = || Error::unavailable("committing: this process is shutting down");
        self.jobs
            .send(Job {
                write: Some(write),
                reply,
                patience,
            })
            .await
            .map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Committer {
    /// Commits `writes` in one transaction, without others.
    ///
    /// # Errors
    /// Those of [`Store::apply`]: then none of them happened, or all may have.
    ///
    /// # Cancel safety
    /// Dropped, all are committed all the same, or none.
    pub(crate) async fn commit_together(&self, writes: &[Write]) -> Result<Vec<Outcome>> {
        let applied = self.database.apply(writes).await?;
        if applied.outcomes.len() == writes.len() {
            Ok(applied.outcomes)
        } else {
            Err(unanswered())
        }
    }
}

impl Traffic {
    /// One more caller, and whether there is no other, and none to be expected.
    fn enter(&self) -> (Caller<'_>, bool) {
        let others = self.callers.fetch_add(1, Ordering::AcqRel);
        let is_alone = others == 0 && self.answered.load(Ordering::Acquire) <= 1;
        (Caller(self), is_alone)
    }

    /// A batch that took this long has answered so many.
    fn answered(&self, count: usize, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Release);
        self.answered.store(count, Ordering::Release);
    }

    /// How long to wait for those that were answered.
    fn patience(&self) -> Duration {
        let took = Duration::from_micros(self.took.load(Ordering::Acquire));
        WAIT_MOST.min(took / WAIT_PART)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The writes that wait to be committed.
struct Waiting {
    jobs: Vec<Job>,
    more: mpsc::Receiver<Job>,
}

impl Waiting {
    /// Waits for the first one; whether there is any.
    async fn begin(&mut self) -> bool {
        self.more.recv_many(&mut self.jobs, LARGEST_BATCH).await > 0
    }

    fn take_in(&mut self) {
        while self.jobs.len() < LARGEST_BATCH {
            let Ok(job) = self.more.try_recv() else { break };
            self.jobs.push(job);
        }
    }

    /// Takes in what comes from those who were answered just now.
    async fn gather(&mut self, traffic: &Traffic) {
        self.take_in();
        let expected = self.jobs.len() + traffic.answered.load(Ordering::Acquire);
        let expected = expected.min(LARGEST_BATCH);
        let (begun, patience) = (Instant::now(), traffic.patience());
        let mut silent = 0;
        while self.jobs.len() < expected && silent < SILENT_LOOKS && begun.elapsed() < patience {
            tokio::task::yield_now().await;
            let before = self.jobs.len();
            self.take_in();
            silent = if self.jobs.len() > before {
                0
            } else {
                silent + 1
            };
        }
    }
}

async fn gather(database: Database, more: mpsc::Receiver<Job>, traffic: Arc<Traffic>) {
    let depth = Arc::new(Semaphore::new(DEPTH as usize));
    let mut batches = JoinSet::new();
    let mut waiting = Waiting {
        jobs: Vec::new(),
        more,
    };
    while waiting.begin().await {
        let share = if waiting.jobs.len() < LARGEST_BATCH {
            DEPTH
        } else {
            1
        };
        let permits = Arc::clone(&depth).acquire_many_owned(share).await;
        let permits = Arc::new(permits.expect("nobody closes the semaphore"));
        waiting.gather(&traffic).await;
        while batches.try_join_next().is_some() {}
        let jobs = std::mem::take(&mut waiting.jobs);
        let gathered = jobs.len();
        for batch in sorted(jobs) {
            let database = database.clone();
            let (traffic, permits) = (Arc::clone(&traffic), Arc::clone(&permits));
            batches.spawn(async move {
                let sent = Instant::now();
                carry_out(&database, batch).await;
                traffic.answered(gathered, sent.elapsed());
                drop(permits);
            });
        }
    }
    while batches.join_next().await.is_some() {}
}

/// The batches that go together: one of each sort of write.
fn sorted(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut batches = [const { Vec::new() }; 5];
    for job in jobs {
        let place = match &job.write {
            Some(Write::Start(_)) => 0,
            Some(Write::Append(_)) => 1,
            Some(Write::Turn(_)) => 2,
            Some(Write::Settle(_)) => 3,
            _ => 4,
        };
        batches[place].push(job);
    }
    batches.into_iter().filter(|batch| !batch.is_empty())
}

/// Applies a batch and answers everybody. One that the database does not take is split, so that the
/// bad write is found and the others are committed.
async fn carry_out(database: &Database, batch: Vec<Job>) {
    let mut batches = VecDeque::from([batch]);
    let mut attempt = 0;
    while let Some(mut batch) = batches.pop_front() {
        let writes: Vec<_> = batch
            .iter_mut()
            .filter_map(|job| job.write.take())
            .collect();
        let error = match database.apply(&writes).await {
            Ok(applied) => {
                let mut outcomes = applied.outcomes.into_iter();
                for job in batch {
                    // Who no longer waits for it has no use for it.
                    _ = job.reply.send(outcomes.next().ok_or_else(unanswered));
                }
                continue;
            }
            Err(error) => error,
        };
        for (job, write) in batch.iter_mut().zip(writes) {
            job.write = Some(write);
        }
        if error.kind() == ErrorKind::Invalid && batch.len() > 1 {
            let other = batch.split_off(batch.len() / 2);
            batches.extend([batch, other]);
            continue;
        }
        let is_patient = |job: &Job| {
            job.patience == Patience::WhileAwaited && is_safe(&error) && !job.reply.is_closed()
        };
        let (patient, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_patient);
        for job in others {
            _ = job
                .reply
                .send(Err(Error::new(error.kind(), error.to_string())));
        }
        if !patient.is_empty() {
            wait_after(error, &mut attempt).await;
            batches.push_back(patient);
        }
    }
}

/// Whether nothing happened, so that trying again cannot do it twice.
fn is_safe(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Contended)
}

async fn wait_after(error: Error, attempt: &mut u32) {
    Signal::StoreFailed {
        error: Detail::error(&error),
    }
    .emit();
    tokio::time::sleep(OUTAGE.jittered(*attempt)).await;
    *attempt = attempt.saturating_add(1);
}

impl Database {
    /// Applies `writes`, and tells of what there is to do by them once they are committed.
    async fn apply(&self, writes: &[Write]) -> Result<Applied> {
        let mut attempt = 0;
        loop {
            let sent = Instant::now();
            let error = match self.store.apply(writes).await {
                Ok(applied) => {
                    self.clock.observe(applied.now, sent);
                    self.wake.tasks(&applied.ready, applied.now);
                    self.meter
                        .committed(sent.elapsed(), writes, &applied.outcomes);
                    self.newsroom.tell(self.newsroom.of(writes, &applied));
                    return Ok(applied);
                }
                Err(error) => error,
            };
            if error.kind() != ErrorKind::Contended || attempt == ATTEMPTS {
                return Err(error);
            }
            tokio::time::sleep(BACKOFF.jittered(attempt)).await;
            attempt += 1;
        }
    }
}

pub(crate) fn unanswered() -> Error {
    Error::corrupt("committing: the store answered fewer writes than it was given")
}

/// A lock whose data no panic can leave half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

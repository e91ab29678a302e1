//! What client and workers of a process do through its engine.

use std::sync::{Arc, Weak};
use std::time::Duration;

use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Core;
use crate::builds::Blocked;
use crate::committer::{Patience, locked, unanswered};
use crate::health;
use crate::model::{OwnerId, Record, RunId, Timestamp};
use crate::news::News;
use crate::retention;
use crate::store::{
    CallerTransaction, Outcome, Ready, Role, Start, Target, Term, WorkerFilter, Write,
};
use crate::wake::Channel;
use crate::worker::{Eager, Shop};
use crate::{roles, roster, schedule, upkeep};

/// How often a write whose answer was lost is sent again: through a failover of some seconds, and no
/// longer than a caller waits for a call.
const RESENDS: u32 = 6;
const RESEND: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

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
    pub(super) async fn look(&self) -> Result<health::Seen> {
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
    pub(super) fn watch(self: &Arc<Self>, has_succeeded: bool) {
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
    pub(super) async fn leave(&self) -> Result<()> {
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

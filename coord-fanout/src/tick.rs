//! The ticker: runs jobs at their instants, each on one of all nodes.

mod address;
mod clock;
mod due;
mod place;
mod roster;
mod running;
mod scan;
mod turn;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, Name, Result};
use coord_redis::{Kept, Redis};

use crate::job::Job;
use crate::queue::Queue;
use crate::signals::SIGNALS;
use running::Running;

/// Scans of this node at once: they wait for a database most of the time.
const SCANS: usize = 16;

/// How often the tenants are listed anew.
const REFRESH: Duration = Duration::from_mins(1);

type Listing = Pin<Box<dyn Future<Output = Result<Vec<Name>>> + Send>>;

/// Runs jobs for tenants: of all nodes that do, exactly one has each tick.
///
/// Each node runs one. None is the leader: every tick of every job and tenant is claimed for
/// itself, so that the nodes share them, and one that dies costs the others nothing but the
/// [lease](Job::lease) of the ticks it was at.
pub struct Ticker<Q> {
    redis: Redis,
    queue: Arc<Q>,
    jobs: Vec<Arc<Job>>,
    orgs: Arc<dyn Fn() -> Listing + Send + Sync>,
    refresh: Duration,
    scans: NonZeroUsize,
}

impl<Q: Queue> Ticker<Q> {
    /// A ticker of `jobs` for the tenants that `orgs` lists, whose records go to `queue`.
    ///
    /// `orgs` is asked again every minute; see [`refresh`](Self::refresh). While it fails, the
    /// last list stays in use.
    ///
    /// # Errors
    /// `Invalid` when two jobs have the same name.
    pub fn new<O, L>(redis: &Redis, queue: Q, jobs: Vec<Job>, orgs: O) -> Result<Self>
    where
        O: Fn() -> L + Send + Sync + 'static,
        L: Future<Output = Result<Vec<Name>>> + Send + 'static,
    {
        let mut names = BTreeSet::new();
        if let Some(twice) = jobs.iter().find(|job| !names.insert(&job.name)) {
            return Err(Error::invalid(format!("two jobs are named {}", twice.name)));
        }
        coord_core::signals::register(SIGNALS);
        redis.keeps(Kept::Ticks);
        Ok(Self {
            redis: redis.clone(),
            queue: Arc::new(queue),
            jobs: jobs.into_iter().map(Arc::new).collect(),
            orgs: Arc::new(move || Box::pin(orgs())),
            refresh: REFRESH,
            scans: NonZeroUsize::new(SCANS).expect("it is not zero"),
        })
    }

    /// How often the tenants are listed anew; every minute if not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.refresh = interval;
        self
    }

    /// How many scans this node has at once; 16 if not set. What is due beyond that is left to
    /// the other nodes, or waits.
    #[must_use]
    pub fn scans(mut self, most: NonZeroUsize) -> Self {
        self.scans = most;
        self
    }

    /// Runs until `shutdown` completes.
    ///
    /// Then no tick is claimed any more, scans under way are given up and released at once, for
    /// another node to do, and those that were through are finished. The cooldown of a finished
    /// tick stays.
    ///
    /// # Cancel safety
    /// Dropping it gives up what is under way as a shutdown does, only that the releases go on in
    /// the background; [`Redis::shutdown`] waits for them.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut running = Running::new(self);
        loop {
            running.start();
            let wake = running.next_wake();
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = running.event() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        running.stop().await;
    }
}

impl<Q> fmt::Debug for Ticker<Q> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticker")
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

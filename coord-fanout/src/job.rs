//! What is to run at a tick, and when.

use std::fmt;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, FencingToken, Name, Result, Ttl};
use tokio::sync::mpsc;

use crate::queue::Message;
use crate::schedule::{Schedule, TickTime};

/// A deployment restarts all nodes within a minute, and a tick that it delays is no missed one.
const GRACE: Duration = Duration::from_mins(1);

/// Far above any sensible scan, so that one that hangs does not keep its job from running for ever.
const SCAN_LIMIT: Duration = Duration::from_hours(1);

/// What becomes of ticks that could not run when they were due, for want of a node or of Redis.
///
/// A tick that starts within the [`grace`](Job::grace) after its instant is on time under every
/// policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// Later than the grace is too late: the job goes on with its next instant. Of several
    /// instants within the grace, the newest runs.
    Skip,
    /// The newest instant runs, however late, and stands for all before it.
    Last,
    /// Each instant runs, the newest so many of them, however late: one scan is given them all.
    All(NonZeroU8),
}

/// When a job runs first for a tenant that nobody has run it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstRun {
    /// At the first instant of its schedule after a node first saw the tenant.
    NextInstant,
    /// At once, for the newest instant that has passed; then by its schedule.
    AtOnce,
}

/// One tick that this node is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// The type of the job.
    pub job: Name,
    /// The tenant.
    pub org: Name,
    /// The instants of the schedule that it stands for, in order: one, or several under
    /// [`CatchUp::All`].
    pub instants: Vec<TickTime>,
    /// Larger at every tick of this job and tenant: for writes that a late scan must not make.
    pub fence: FencingToken,
}

/// Where a scan puts the records it finds; they are enqueued meanwhile, in batches.
pub struct Records {
    sender: mpsc::Sender<Message>,
}

impl Records {
    /// So many records wait for their batch at most; a scan that is faster than the queue waits.
    pub(crate) fn channel(most: usize) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(most);
        (Self { sender }, receiver)
    }

    /// Hands out a record: a message whose id names the record within the job and tenant.
    ///
    /// The message is enqueued under the id `job:org:record`, which does not tell the tick: within
    /// the queue's deduplication window a record is handed out once, by whatever tick and whatever
    /// repetition of a scan. Its group, if any, is one of the tenant.
    ///
    /// # Errors
    /// `Lost` when the tick is no longer this node's, or the queue takes no more: the scan ends.
    ///
    /// # Cancel safety
    /// Safe: the record was handed out or was not.
    pub async fn send(&self, record: Message) -> Result<()> {
        self.sender
            .send(record)
            .await
            .map_err(|_| Error::lost("the tick of this scan is no longer ours"))
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Records").finish_non_exhaustive()
    }
}

type Scanning = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
type Scan = dyn Fn(Tick, Records) -> Scanning + Send + Sync;
type Body = dyn Fn(&Name, TickTime) -> Vec<u8> + Send + Sync;

/// What a job does at a tick.
#[derive(Clone)]
pub(crate) enum Work {
    /// Finds records.
    Scan(Arc<Scan>),
    /// Is one message itself.
    Message(Arc<Body>),
}

/// When a job runs.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) schedule: Schedule,
    pub(crate) catch_up: CatchUp,
    pub(crate) grace: Duration,
    pub(crate) first_run: FirstRun,
    /// Ticks of tenants are spread over so much time.
    pub(crate) spread: Duration,
}

impl Timing {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            catch_up: CatchUp::Last,
            grace: GRACE,
            first_run: FirstRun::NextInstant,
            spread: Duration::ZERO,
        }
    }
}

/// A type of job, which runs once per tenant and instant of its schedule, on whichever node.
#[derive(Clone)]
pub struct Job {
    pub(crate) name: Name,
    pub(crate) timing: Timing,
    pub(crate) lease: Ttl,
    pub(crate) scan_limit: Duration,
    pub(crate) work: Work,
}

impl Job {
    /// A job that scans: at each tick `scan` finds the tenant's records and hands them out.
    ///
    /// A scan is repeated, also partly, when its node dies or it fails, so it only reads. It ends
    /// early when its tick is lost. An error leaves the tick undone; it is repeated, on any node,
    /// after a pause.
    pub fn scan<F, S>(name: Name, schedule: Schedule, scan: F) -> Self
    where
        F: Fn(Tick, Records) -> S + Send + Sync + 'static,
        S: Future<Output = Result<()>> + Send + 'static,
    {
        let scan = move |tick, records| -> Scanning { Box::pin(scan(tick, records)) };
        Self::new(name, schedule, Work::Scan(Arc::new(scan)))
    }

    /// A job without records: each instant of each tenant is one message, with the body that
    /// `body` gives for the tenant and the instant.
    ///
    /// Its id `job:org::instant` tells the instant in milliseconds, so that no earlier message,
    /// whatever became of it, stands in the way of a later tick.
    pub fn message<F>(name: Name, schedule: Schedule, body: F) -> Self
    where
        F: Fn(&Name, TickTime) -> Vec<u8> + Send + Sync + 'static,
    {
        Self::new(name, schedule, Work::Message(Arc::new(body)))
    }

    fn new(name: Name, schedule: Schedule, work: Work) -> Self {
        Self {
            name,
            timing: Timing::new(schedule),
            lease: Ttl::DEFAULT,
            scan_limit: SCAN_LIMIT,
            work,
        }
    }

    /// What becomes of ticks that could not run when they were due; [`CatchUp::Last`] if not set.
    #[must_use]
    pub fn catch_up(mut self, policy: CatchUp) -> Self {
        self.timing.catch_up = policy;
        self
    }

    /// How long after its instant a tick is still on time. One minute if not set: a deployment
    /// restarts all nodes in less.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.timing.grace = grace;
        self
    }

    /// When it runs first for a new tenant; [`FirstRun::NextInstant`] if not set.
    #[must_use]
    pub fn first_run(mut self, first_run: FirstRun) -> Self {
        self.timing.first_run = first_run;
        self
    }

    /// Spreads the tenants' ticks evenly over `window` after each instant, each tenant always by
    /// the same part of it; not at all if not set.
    #[must_use]
    pub fn spread(mut self, window: Duration) -> Self {
        self.timing.spread = window;
        self
    }

    /// For how long a node that died keeps a tick from the others; 30 s if not set. A scan may
    /// take longer: it renews its lease.
    #[must_use]
    pub fn lease(mut self, ttl: Ttl) -> Self {
        self.lease = ttl;
        self
    }

    /// How long a scan may take before it counts as failed; one hour if not set.
    #[must_use]
    pub fn scan_limit(mut self, limit: Duration) -> Self {
        self.scan_limit = limit;
        self
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Job")
            .field("name", &self.name)
            .field("timing", &self.timing)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

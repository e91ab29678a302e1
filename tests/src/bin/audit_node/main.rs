//! One node of the audit that `cargo xtask demo` runs.
//!
//! `audit-node run NODE INDEX REPORT listed|all FOLDER…` takes part until SIGTERM: its ticker
//! scans the folders when the tick of a group of archives falls to this node, its consumer checks
//! archives against the index, no more of a group a second than its limit allows to all nodes, and
//! what it finds goes to the report, which all nodes share, under a lock, and to the list of
//! verdicts that each node keeps. It says what it does as one JSON object a line. `audit-node purge` removes the keys of
//! a run. Redis is the one that `COORD_REDIS_URL` and `COORD_REDIS_PREFIX` name.

mod archives;
mod said;
mod verdicts;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::signals::Detail;
use coord_core::{Backoff, Env, Error, Name, Result, Ttl};
use coord_fanout::{
    Consumer, Delivery, Failure, FirstRun, Job, QueueOptions, Schedule, StreamQueue, Ticker,
};
use coord_lease::{Claim, Leases, Owner};
use coord_lock::{LockOptions, Locks};
use coord_ratelimit::{Limit, Limiter, Quota, Subject, WithoutRedis};
use coord_redis::Redis;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use archives::{Archives, Report};
use said::{Event, Told, say};
use verdicts::Verdicts;

/// Between two ticks of a group: short, so that a run shows how the second tick enqueues nothing.
const TICK_EVERY: Duration = Duration::from_secs(3);

/// How long a dead node keeps what it holds: its lease, its scans, its records, the lock.
const LIFE: Duration = Duration::from_secs(2);

/// Archives in a node's hands at once.
const CONCURRENCY: usize = 4;

/// How long a node waits for the report's lock: a dead owner keeps it for its life.
const LOCK_WAIT: Duration = Duration::from_secs(20);

/// Archives of one group that all nodes together read in a second, and at once.
const READS_PER_SECOND: u32 = 50;
const READS_AT_ONCE: u32 = 10;

/// How long an archive waits for its turn under the limit: many times what a group takes.
const READ_WAIT: Duration = Duration::from_secs(30);

/// How long the lock file's entries are kept: longer than a run.
const ENTRIES_LIFE: Duration = Duration::from_mins(10);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", node, index, report, which, ref folders @ ..] if !folders.is_empty() => {
            match Node::new(node, index, report, which, folders) {
                Ok(node) => node.run().await,
                Err(error) => Err(error),
            }
        }
        ["purge"] => purge().await,
        _ => Err(Error::invalid(
            "usage: audit-node run NODE INDEX REPORT listed|all FOLDER… | audit-node purge",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Detail::error(&error));
            ExitCode::FAILURE
        }
    }
}

/// One node and what it works with.
struct Node {
    number: u8,
    index: PathBuf,
    folders: Vec<PathBuf>,
    takes_unlisted: bool,
    report: Arc<Report>,
}

impl Node {
    fn new(node: &str, index: &str, report: &str, which: &str, folders: &[&str]) -> Result<Self> {
        let number = node
            .parse()
            .map_err(|_| Error::invalid(format!("{node:?} is no number of a node")))?;
        Ok(Self {
            number,
            index: PathBuf::from(index),
            folders: folders.iter().map(PathBuf::from).collect(),
            takes_unlisted: which == "all",
            report: Arc::new(Report::new(number, Path::new(report))),
        })
    }

    async fn run(self) -> Result<()> {
        let redis = Redis::from_env(&Env::process()).await?;
        let shutdown = shutdown()?;
        let owner = Owner::new(node_name(self.number)?);
        let lease = match Leases::new(&redis)
            .claim(owner.name(), &owner, ttl()?)
            .await?
        {
            Claim::Claimed(lease) => lease,
            Claim::Held(holder) => {
                return Err(Error::contended(format!(
                    "node {} runs already: {holder:?}",
                    self.number
                )));
            }
        };
        say(&Event::Up);

        let queue = StreamQueue::new(
            &redis,
            Name::new("archives")?,
            QueueOptions::default().visibility(ttl()?),
        );
        let archives = Arc::new(self.archives(&redis)?);
        let verdicts = Verdicts::new(&redis, &self.report)?;
        let ticker = ticker(&redis, &queue, &archives)?;
        let consumer = self.consumer(&redis, queue, &owner, &archives, &verdicts)?;
        let (ticked, consumed, watched, known) = tokio::join!(
            async {
                ticker.run(shutdown.wait()).await;
                Ok(())
            },
            consumer(shutdown.clone()),
            watch_others(&redis, &shutdown),
            verdicts.keep(shutdown.wait()),
        );
        // Each says what went wrong before the first of it is returned.
        let ended = [ticked, consumed, watched, known];
        _ = lease.release().await;
        redis.shutdown(LIFE * 2).await?;
        ended.into_iter().collect::<Result<()>>()?;
        say(&Event::Down);
        Ok(())
    }

    /// The archives, with the lock file's entries in a cache that all nodes share.
    fn archives(&self, redis: &Redis) -> Result<Archives> {
        let life = Life::new(ENTRIES_LIFE)?;
        let groups = NonZeroUsize::new(archives::GROUPS.len()).expect("there are groups");
        let options = CacheOptions::default().ttl(life).near(groups, life);
        let entries = Cache::new(redis, &Name::new("lock-file")?, options);
        let folders = self.folders.clone();
        let index = &self.index;
        Ok(Archives::new(index, entries, folders, self.takes_unlisted))
    }

    /// Checks archives as fast as their limit allows, writes what it finds to the report under
    /// the lock, and tells all nodes.
    fn consumer(
        &self,
        redis: &Redis,
        queue: StreamQueue,
        owner: &Owner,
        archives: &Arc<Archives>,
        verdicts: &Verdicts,
    ) -> Result<impl AsyncFnOnce(Shutdown) -> Result<()>> {
        let work = Arc::new(Work {
            reads: reads(redis)?,
            locks: Locks::new(redis),
            options: LockOptions::default().ttl(ttl()?).owner(owner),
            lock_name: Name::new("report")?,
            archives: Arc::clone(archives),
            report: Arc::clone(&self.report),
            verdicts: verdicts.clone(),
        });
        let retry = Backoff::new(Duration::from_millis(100), LIFE);
        let consumer = Consumer::new(queue)
            .concurrency(NonZeroUsize::new(CONCURRENCY).expect("four is not zero"))
            .retry(retry)
            .drain(LIFE * 2);
        Ok(async move |shutdown: Shutdown| {
            let check = move |delivery| {
                let work = Arc::clone(&work);
                async move { work.check(delivery).await }
            };
            consumer.run(check, shutdown.wait()).await
        })
    }
}

/// What checking an archive takes.
struct Work {
    reads: Limiter,
    locks: Locks,
    options: LockOptions,
    lock_name: Name,
    archives: Arc<Archives>,
    report: Arc<Report>,
    verdicts: Verdicts,
}

impl Work {
    async fn check(&self, delivery: Arc<Delivery>) -> std::result::Result<(), Failure> {
        let record = archives::record(&delivery.message)?;
        say(&Event::Taken { record: &record });
        let group = archives::group_of(&record);
        self.turn(group, &record).await?;
        let entries = self.archives.entries(group).await?;
        let (archives, read) = (Arc::clone(&self.archives), record.clone());
        let checked = tokio::task::spawn_blocking(move || archives.check(&read, &entries)).await?;
        let line = self.report.line(&record, checked.verdict);
        let write = async |lock: &coord_lock::Lock| {
            lock.check()?;
            self.report.append(&line, lock.fence())
        };
        self.locks
            .with_lock(&self.lock_name, LOCK_WAIT, &self.options, write)
            .await?;
        self.verdicts.tell(&record, checked.verdict).await?;
        say(&Event::Checked {
            record: &record,
            verdict: checked.verdict,
            attempt: delivery.attempt,
            found: checked.sha256.as_deref(),
        });
        Ok(())
    }

    /// Waits until an archive of the group may be read.
    async fn turn(&self, group: &str, record: &str) -> Result<()> {
        let subject = Subject::new(&Name::new(group)?);
        if self.reads.try_acquire(&subject, 1).await?.is_allowed() {
            return Ok(());
        }
        say(&Event::Waited);
        if self
            .reads
            .acquire(&subject, 1, READ_WAIT)
            .await?
            .is_allowed()
        {
            return Ok(());
        }
        Err(Error::contended(format!(
            "{record} had no turn under the limit of {group} within {READ_WAIT:?}"
        )))
    }
}

/// Scans a group of archives at each of its ticks.
fn ticker(
    redis: &Redis,
    queue: &StreamQueue,
    archives: &Arc<Archives>,
) -> Result<Ticker<Told<StreamQueue>>> {
    let archives = Arc::clone(archives);
    let job = Job::scan(
        Name::new("crates.audit")?,
        Schedule::every(TICK_EVERY)?,
        move |tick, records| {
            let archives = Arc::clone(&archives);
            async move {
                let group = archives::group(tick.org.as_str())?;
                say(&Event::Ticked { group });
                for record in archives.of_group(group).await? {
                    records.send(record).await?;
                }
                Ok(())
            }
        },
    )
    .first_run(FirstRun::AtOnce)
    .lease(ttl()?);
    let groups = || async { archives::GROUPS.iter().map(Name::new).collect() };
    Ticker::new(redis, Told::new(queue.clone()), vec![job], groups)
}

/// The limit of reads. An audit does not stop for it: without Redis there are no records anyway.
fn reads(redis: &Redis) -> Result<Limiter> {
    let quota = Quota::per_second(READS_PER_SECOND)?;
    let limit = Limit::gcra(Name::new("reads")?, quota, READS_AT_ONCE)?;
    Limiter::new(redis, [limit], WithoutRedis::Allow)
}

/// Says which nodes' leases have ended, as one that takes over their part would want to know.
async fn watch_others(redis: &Redis, shutdown: &Shutdown) -> Result<()> {
    let leases = Leases::new(redis);
    let mut seen = BTreeSet::new();
    let mut ended = std::pin::pin!(shutdown.wait());
    let mut interval = tokio::time::interval(LIFE / 4);
    loop {
        tokio::select! {
            () = &mut ended => return Ok(()),
            _ = interval.tick() => {}
        }
        match leases.list(NODES).await {
            Ok(held) => {
                let now: BTreeSet<_> = held
                    .into_iter()
                    .filter_map(|(name, _)| node_number(&name))
                    .collect();
                for &gone in seen.difference(&now) {
                    say(&Event::Gone { node: gone });
                }
                seen = now;
            }
            Err(error) => say(&Event::Failed {
                message: &Detail::error(&error).to_string(),
            }),
        }
    }
}

const NODES: &str = "node-";

fn node_name(number: u8) -> Result<Name> {
    Name::new(format!("{NODES}{number}"))
}

fn node_number(name: &Name) -> Option<u8> {
    name.as_str().strip_prefix(NODES)?.parse().ok()
}

fn ttl() -> Result<Ttl> {
    Ttl::new(LIFE)
}

/// The end of the process, for whoever waits for it.
#[derive(Clone)]
struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.0.clone();
        async move {
            // The sender goes with the task that waits for the signal, at the very end.
            _ = ended.wait_for(|ended| *ended).await;
        }
    }
}

/// It comes with SIGTERM or SIGINT.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process it ends"
)]
fn shutdown() -> Result<Shutdown> {
    let cannot =
        |error: std::io::Error| Error::unavailable("waiting for signals").with_source(error);
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let (end, ended) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        end.send_replace(true);
        // Kept alive, so that nobody takes its end for the signal.
        std::future::pending::<()>().await;
    });
    Ok(Shutdown(ended))
}

/// Removes every key under the prefix of the run.
async fn purge() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    redis.remove(&redis.keys().everything()).await.map(drop)
}

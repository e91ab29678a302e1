//! One node of the audit that `cargo xtask demo` runs.
//!
//! `audit-node run NODE INDEX REPORT listed|all FOLDER…` takes part until SIGTERM: its ticker
//! scans the folders when the tick of a group of archives falls to this node, its consumer checks
//! archives against the index, and what it finds goes to the report, which all nodes share, under
//! a lock. It says what it does as one JSON object a line. `audit-node purge` removes the keys of
//! a run. Redis is the one that `COORD_REDIS_URL` and `COORD_REDIS_PREFIX` name.

mod archives;
mod said;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Env, Error, Name, Result, Ttl};
use coord_fanout::{
    Consumer, Delivery, Failure, FirstRun, Job, QueueOptions, Schedule, StreamQueue, Ticker,
};
use coord_lease::{Claim, Leases, Owner};
use coord_lock::{LockOptions, Locks};
use coord_redis::Redis;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use archives::{Archives, Report};
use said::{Event, Told, say};

/// Between two ticks of a group: short, so that a run shows how the second tick enqueues nothing.
const TICK_EVERY: Duration = Duration::from_secs(3);

/// How long a dead node keeps what it holds: its lease, its scans, its records, the lock.
const LIFE: Duration = Duration::from_secs(2);

/// Archives in a node's hands at once.
const CONCURRENCY: usize = 4;

/// How long a node waits for the report's lock: a dead owner keeps it for its life.
const LOCK_WAIT: Duration = Duration::from_secs(20);

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
    archives: Arc<Archives>,
    report: Arc<Report>,
}

impl Node {
    fn new(node: &str, index: &str, report: &str, which: &str, folders: &[&str]) -> Result<Self> {
        let number = node
            .parse()
            .map_err(|_| Error::invalid(format!("{node:?} is no number of a node")))?;
        let folders = folders.iter().map(PathBuf::from).collect();
        Ok(Self {
            number,
            archives: Arc::new(Archives::new(Path::new(index), folders, which == "all")?),
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
        let ticker = self.ticker(&redis, &queue)?;
        let consumer = self.consumer(&redis, queue, &owner)?;
        let (ticked, consumed, watched) = tokio::join!(
            async {
                ticker.run(shutdown.wait()).await;
                Ok(())
            },
            consumer(shutdown.clone()),
            watch_others(&redis, &shutdown),
        );
        // Each says what went wrong before the first of it is returned.
        let ended = [ticked, consumed, watched];
        _ = lease.release().await;
        redis.shutdown(LIFE * 2).await?;
        ended.into_iter().collect::<Result<()>>()?;
        say(&Event::Down);
        Ok(())
    }

    /// Scans a group of archives at each of its ticks.
    fn ticker(&self, redis: &Redis, queue: &StreamQueue) -> Result<Ticker<Told<StreamQueue>>> {
        let archives = Arc::clone(&self.archives);
        let job = Job::scan(
            Name::new("crates.audit")?,
            Schedule::every(TICK_EVERY)?,
            move |tick, records| {
                let archives = Arc::clone(&archives);
                async move {
                    say(&Event::Ticked {
                        group: tick.org.as_str(),
                    });
                    for record in archives.of_group(tick.org.as_str())? {
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

    /// Checks archives, and writes what it finds to the report under the lock.
    fn consumer(
        &self,
        redis: &Redis,
        queue: StreamQueue,
        owner: &Owner,
    ) -> Result<impl AsyncFnOnce(Shutdown) -> Result<()>> {
        let locks = Locks::new(redis);
        let options = LockOptions::default().ttl(ttl()?).owner(owner);
        let lock_name = Name::new("report")?;
        let (archives, report) = (Arc::clone(&self.archives), Arc::clone(&self.report));
        let retry = Backoff::new(Duration::from_millis(100), LIFE);
        let consumer = Consumer::new(queue)
            .concurrency(NonZeroUsize::new(CONCURRENCY).expect("four is not zero"))
            .retry(retry)
            .drain(LIFE * 2);
        Ok(async move |shutdown: Shutdown| {
            let check = move |delivery: Arc<Delivery>| {
                let (archives, report) = (Arc::clone(&archives), Arc::clone(&report));
                let (locks, options, lock_name) =
                    (locks.clone(), options.clone(), lock_name.clone());
                async move {
                    let record = archives::record(&delivery.message)?;
                    say(&Event::Taken { record: &record });
                    let checked = {
                        let record = record.clone();
                        tokio::task::spawn_blocking(move || archives.check(&record)).await?
                    };
                    let line = report.line(&record, checked.verdict);
                    let write = async |lock: &coord_lock::Lock| {
                        lock.check()?;
                        report.append(&line, lock.fence())
                    };
                    locks
                        .with_lock(&lock_name, LOCK_WAIT, &options, write)
                        .await?;
                    say(&Event::Checked {
                        record: &record,
                        verdict: checked.verdict,
                        attempt: delivery.attempt,
                        found: checked.sha256.as_deref(),
                    });
                    Ok::<_, Failure>(())
                }
            };
            consumer.run(check, shutdown.wait()).await
        })
    }
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

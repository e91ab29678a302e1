//! One node of the audit that `cargo xtask demo` runs.
//!
//! `run` takes part until SIGTERM. Over Redis, the tick of a group of archives falls to one node,
//! which enqueues one message for each archive; consumers on all nodes start one workflow for each
//! message, wait for its verdict and tell all nodes. With `--without-redis` a workflow for each
//! group does what the tick does, and nodes look into the database for verdicts. Either way all
//! nodes work on all workflows, and each keeps the list of verdicts. `recorded` says what the
//! database holds; `purge` removes the keys of a run from Redis.
//!
//! It says what it does as one JSON object a line, and logs to standard error. The database is the
//! one that `DATABASE_URL` names, Redis that of `COORD_REDIS_URL` and `COORD_REDIS_PREFIX`.

mod archives;
mod audit;
mod control;
mod said;
mod shared;
mod shutdown;
mod ticks;
mod verdicts;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use coord_broadcast::Broadcast;
use coord_core::signals::Detail;
use coord_core::{Env, Error, Result, Variable};
use coord_engine::client::Client;
use coord_engine::model::{EventKind, Namespace, Queue, WorkflowId};
use coord_engine::worker::Worker;
use coord_engine::{Engine, wake};
use coord_redis::Redis;
use tracing::Level;

use archives::Archives;
use audit::{AUDIT, Auditor};
use control::ControlPlane;
use said::{Event, say};
use shared::{Entries, Reads};
use shutdown::Shutdown;
use verdicts::Verdicts;

/// How long a dead node keeps its scans and its messages.
const LIFE: Duration = Duration::from_secs(2);

/// How long a dead node keeps its tasks at most. Far below the engine's own default, so that a run
/// shows their recovery; a renewal, which has a third of it, still rides out a disk that is busy.
const LEASE_SECONDS: u64 = 6;

/// Archives that a node reads at once.
const READS: u32 = 4;

/// Where the runs are kept.
const DATABASE_URL: Variable = Variable::new(
    "DATABASE_URL",
    "",
    "`sqlite:PATH`, `postgres://…` or `mysql://…`.",
);

/// One node of the audit.
#[derive(Parser)]
enum Task {
    /// Takes part until SIGTERM.
    Run(Node),
    /// Says what the database holds of a run.
    Recorded {
        /// The run.
        #[arg(long)]
        run: String,
    },
    /// Removes the keys of a run from Redis.
    Purge,
}

/// One node and what it works with.
#[derive(clap::Args)]
struct Node {
    /// The run that it takes part in: runs of different names see nothing of each other.
    #[arg(long)]
    run: String,
    /// Its number, from 1.
    #[arg(long = "node")]
    number: u8,
    /// How many nodes there are.
    #[arg(long = "nodes")]
    of: u8,
    /// What is to be audited: `name-version` to the SHA-256 that the lock file records, or null, as
    /// JSON.
    #[arg(long)]
    index: PathBuf,
    /// How long a dead node keeps its tasks at most.
    #[arg(long, default_value_t = LEASE_SECONDS, value_parser = clap::value_parser!(u64).range(1..))]
    lease_seconds: u64,
    /// Does without Redis.
    #[arg(long)]
    without_redis: bool,
    /// Serves the control plane there, on loopback alone: it asks nobody for a token.
    #[arg(long, value_parser = control::loopback)]
    listen: Option<SocketAddr>,
    /// The folders with the archives.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    log.with_ansi(false).with_max_level(Level::WARN).init();
    let done = match Task::parse() {
        Task::Run(node) => node.run().await,
        Task::Recorded { run } => recorded(&run).await,
        Task::Purge => purge().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Detail::error(&error));
            ExitCode::FAILURE
        }
    }
}

impl Node {
    async fn run(self) -> Result<()> {
        let shutdown = Shutdown::on_signals()?;
        let redis = if self.without_redis {
            None
        } else {
            Some(Redis::from_env(&Env::process()).await?)
        };
        let engine = engine(redis.as_ref()).await?;
        let client = client(&engine, &self.run)?;
        let verdicts = Verdicts::new(&client, redis.as_ref())?;
        let archives = Archives::new(&self.index, Entries::new(redis.as_ref())?, &self.folders);
        let archives = Arc::new(archives);
        let control = ControlPlane::bind(self.listen, &engine, redis.as_ref()).await?;
        let worker = self.worker(&engine, &client, &archives, redis.as_ref())?;
        say(&Event::Up);

        if let Some(redis) = &redis {
            let ticker = ticks::ticker(redis, &archives)?;
            let ((), consumed, known, served) = tokio::join!(
                ticker.run(shutdown.wait()),
                ticks::consume(redis, &client, &verdicts, &shutdown),
                verdicts.keep(shutdown.wait()),
                control.serve(shutdown.wait()),
            );
            consumed.and(known).and(served)?;
        } else {
            ticks::scan_alone(&client).await?;
            let (known, served) = tokio::join!(
                verdicts.keep(shutdown.wait()),
                control.serve(shutdown.wait()),
            );
            known.and(served)?;
        }
        worker.shutdown(LIFE * 2).await;
        if let Some(redis) = redis {
            redis.shutdown(LIFE * 2).await?;
        }
        say(&Event::Down);
        Ok(())
    }

    fn worker(
        &self,
        engine: &Engine,
        client: &Client,
        archives: &Arc<Archives>,
        redis: Option<&Redis>,
    ) -> Result<Worker> {
        let auditor = Auditor {
            node: self.number,
            archives: Arc::clone(archives),
            reads: Reads::new(redis, self.of)?,
        };
        let worker = engine.worker(client.namespace().clone(), Queue::default());
        let worker = Arc::new(auditor).work(worker);
        let worker = ticks::work(worker, client, archives);
        let lease = Duration::from_secs(self.lease_seconds);
        Ok(worker.lease(lease).activities(READS).start())
    }
}

/// The engine on the database that the environment names. Over Redis, what one node leaves to be
/// done is told to the others; without, they look for it.
async fn engine(redis: Option<&Redis>) -> Result<Engine> {
    let env = Env::process();
    let url = env.text(&DATABASE_URL)?;
    let url = url.ok_or_else(|| Error::invalid("DATABASE_URL is not set"))?;
    let mut engine = Engine::builder_at(url)?;
    if let Some(redis) = redis {
        engine = engine.wake(wake::Redis::new(Broadcast::new(redis)));
    }
    engine.start().await
}

fn client(engine: &Engine, run: &str) -> Result<Client> {
    Ok(engine.client(Namespace::new(run)?, Queue::default()))
}

/// Says of each record what the database holds: its verdict, and how often one was recorded.
async fn recorded(run: &str) -> Result<()> {
    let engine = engine(None).await?;
    let client = client(&engine, run)?;
    for (record, verdict) in Verdicts::new(&client, None)?.recorded().await? {
        let handle = client.handle(AUDIT, WorkflowId::new(record.as_str())?);
        let history = handle.history().await?;
        let is_result = |kind: &EventKind| matches!(kind, EventKind::Completed(_));
        say(&Event::Recorded {
            record: &record,
            results: history
                .iter()
                .filter(|event| is_result(&event.kind))
                .count(),
            verdict: verdict.as_ref(),
        });
    }
    Ok(())
}

/// Removes every key under the prefix of the run.
async fn purge() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    redis.remove(&redis.keys().everything()).await.map(drop)
}

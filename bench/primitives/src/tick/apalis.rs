//! The records by apalis-redis: pushed in one batch a tenant, and worked off by three workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{ConnectionManager, RedisStorage};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{CONCURRENCY, NODES, RECORDS, Sample, WINDOW_MS};
use crate::Result;
use crate::server::Server;

/// Half the tenants: its fetch passes the whole backlog to one Lua `unpack`, which ends at 8000.
const ORGS: usize = super::ORGS / 2;
pub(super) const ALL: usize = ORGS * RECORDS;

type Storage = RedisStorage<String, ConnectionManager>;

#[derive(Clone, Default)]
struct Progress {
    handled: Arc<AtomicUsize>,
    done: Arc<Notify>,
}

pub(super) async fn round(server: &Server, round: usize) -> Result<Sample> {
    let queue = format!("bench-apalis-{}-{round}", std::process::id());
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let config = apalis_redis::Config::default()
            .queue(&queue)
            .batch_size(CONCURRENCY)
            .idempotency_ttl(Some(Duration::from_millis(WINDOW_MS)));
        let connection = server.managed().await?;
        nodes.push(Storage::new(connection).with_config(config));
    }
    let before = server.usage().await?;
    let enqueue = enqueue(&nodes).await?;
    let used = server.usage().await?.since(&before);
    let round_trips = used.calls(&["evalsha", "eval"]) as f64 / ORGS as f64;
    let drain = drain(&nodes).await?;
    let used = server.usage().await?.since(&before);
    Ok(Sample {
        enqueued: ALL as f64 / enqueue.as_secs_f64(),
        drained: ALL as f64 / drain.as_secs_f64(),
        round_trips,
        server_us: used.cpu_us() / ALL as f64,
    })
}

async fn enqueue(nodes: &[Storage]) -> Result<Duration> {
    let mut pushing = JoinSet::new();
    let start = Instant::now();
    for (node, storage) in nodes.iter().enumerate() {
        let mut storage = storage.clone();
        pushing.spawn(async move {
            for org in (node..ORGS).step_by(NODES) {
                let tasks = (0..RECORDS).map(|record| {
                    TaskBuilder::new(format!("record {record}"))
                        .idempotency_key(format!("org-{org}-{record}"))
                        .build()
                });
                storage.push_all(futures::stream::iter(tasks)).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(pushed) = pushing.join_next().await {
        pushed??;
    }
    Ok(start.elapsed())
}

async fn drain(nodes: &[Storage]) -> Result<Duration> {
    let progress = Progress::default();
    let mut working = JoinSet::new();
    let start = Instant::now();
    for (node, storage) in nodes.iter().enumerate() {
        let worker = WorkerBuilder::new(format!("node-{node}"))
            .backend(storage.clone())
            .data(progress.clone())
            .concurrency(CONCURRENCY)
            .build(handle);
        working.spawn(worker.run());
    }
    let failed = async {
        loop {
            match working.join_next().await {
                Some(Ok(Err(error))) => return format!("apalis: {error}"),
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        () = progress.done.notified() => {}
        error = failed => return Err(error.into()),
    }
    let elapsed = start.elapsed();
    working.shutdown().await;
    Ok(elapsed)
}

async fn handle(_: String, progress: Data<Progress>) -> Result<(), BoxDynError> {
    if progress.handled.fetch_add(1, Ordering::Relaxed) + 1 == ALL {
        progress.done.notify_one();
    }
    Ok(())
}

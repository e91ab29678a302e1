//! B9: how long a run with a long history takes to go on, read anew and from memory.

use std::time::{Duration, Instant};

use coord_bench_measure::Result;
use coord_bench_measure::table::{Table, Target};
use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::{Context, Signal, Workflow};
use coord_engine::model::{Failure, Namespace, Queue, WorkflowId};
use coord_engine::store::Postgres;
use coord_engine::worker::Worker;
use tokio::sync::Notify;

use crate::compare::{OURS, figures, table};
use crate::server::Server;

const LONG: Workflow<u64, ()> = Workflow::new("bench.long");
const GO_ON: Signal<()> = Signal::new("go on");
const LENGTHS: [u64; 2] = [1_000, 10_000];
const SAMPLES: usize = 9;
/// Longer than the longest history takes to come about on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// Rung by a run whose steps are done, and each time that it has gone on.
static GOES_ON: Notify = Notify::const_new();

pub(crate) async fn resume(server: &Server) -> Result<Table> {
    let url = server.create(OURS).await?;
    let engine = Engine::start(Postgres::connect(&url)?).await?;
    let client = engine.client(Namespace::default(), Queue::default());
    let mut cached = Vec::new();
    for length in LENGTHS {
        // Only one that has it in memory, so that each length is measured by itself.
        let worker = worker(&engine, 1000);
        client.start(LONG, id(length)?, &length).await?;
        rung().await?;
        cached.push(samples(&client, length).await?);
        gone(worker).await?;
    }
    let mut cold = Vec::new();
    for length in LENGTHS {
        let worker = worker(&engine, 0);
        cold.push(samples(&client, length).await?);
        gone(worker).await?;
    }
    drop((client, engine));
    server.drop(OURS).await?;
    let row = |way: &str, times: &[Vec<f64>], bound: f64| {
        let work = format!("a history of {} events, {way}", LENGTHS[1]);
        let peer = format!("of {} events", LENGTHS[0]);
        let times = |at: usize| times[at].iter().copied();
        figures(&work, "ms", times(1), (&peer, times(0))).aim(Target::RatioAtMost(bound))
    };
    // Ten times as much to read takes ten times as long, and what is in memory is not read.
    let rows = vec![
        row("read anew", &cold, 12.0),
        row("in memory", &cached, 2.0),
    ];
    let notes =
        vec!["from the call that sends a signal to the first line of code behind it".to_owned()];
    table("Going on after a long history", rows, notes)
}

fn id(length: u64) -> Result<WorkflowId> {
    Ok(WorkflowId::new(format!("long-{length}"))?)
}

fn worker(engine: &Engine, cached_runs: usize) -> Worker {
    let worker = engine.worker(Namespace::default(), Queue::default());
    let worker = worker.workflow(LONG, long).cached_runs(cached_runs);
    worker.start()
}

async fn gone(worker: Worker) -> Result<()> {
    if worker.shutdown(PATIENCE).await {
        Ok(())
    } else {
        Err("a worker does not end".into())
    }
}

async fn long(ctx: Context, length: u64) -> Result<(), Failure> {
    for number in 0..length {
        ctx.step("step", async || Ok::<_, Failure>(number)).await?;
    }
    let go_on = ctx.signal(GO_ON);
    loop {
        // Only where the code gets this far for the first time, which a replay does not.
        ctx.step("here", async || {
            GOES_ON.notify_one();
            Ok::<_, Failure>(())
        })
        .await?;
        go_on.recv().await?;
    }
}

async fn rung() -> Result<()> {
    let rung = tokio::time::timeout(PATIENCE, GOES_ON.notified()).await;
    rung.map_err(|_| "a run does not go on".into())
}

/// How long it takes to go on, in milliseconds.
async fn samples(client: &Client, length: u64) -> Result<Vec<f64>> {
    let handle = client.handle(LONG, id(length)?);
    let mut samples = Vec::new();
    for _ in 0..=SAMPLES {
        let from = Instant::now();
        handle.signal(GO_ON, &()).await?;
        rung().await?;
        samples.push(from.elapsed().as_secs_f64() * 1000.0);
    }
    // The first one opens connections and makes plans.
    samples.remove(0);
    Ok(samples)
}

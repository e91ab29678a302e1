//! B8: what nodes with nothing to do cost the database, while ten thousand runs wait.

use std::time::Duration;

use coord_bench_measure::Result;
use coord_bench_measure::table::{Table, Target};
use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Ids, Namespace, Queue, RunStatus};
use coord_engine::store::{Filter, Postgres};
use coord_engine::worker::Worker;

use crate::compare::{OURS, figures, table};
use crate::server::Server;

const PARK: Workflow<u64, ()> = Workflow::new("bench.park");
const PARKED: u64 = 10_000;
/// As many as go together.
const BATCH: usize = 1000;
/// How long each side is watched, beyond what a session takes to tell.
const WATCHED: Duration = Duration::from_secs(40);

pub(crate) async fn idle(server: &Server) -> Result<Table> {
    let url = server.create(OURS).await?;
    let one = Node::start(&url).await?;
    park(&one.client).await?;
    let alone = rate(server).await?;
    let other = Node::start(&url).await?;
    let both = rate(server).await?;
    let rows = vec![
        figures(
            "the node that leads",
            "transactions/s",
            [alone],
            ("two nodes", [both]),
        )
        .aim(Target::OursAtMost(4.0)),
        figures(
            "two nodes",
            "transactions/s",
            [both],
            ("the node that leads", [alone]),
        )
        .aim(Target::OursAtMost(6.0)),
    ];
    let notes = vec![format!(
        "{PARKED} runs wait for a timer; no hints pass between the nodes, so that each looks by itself"
    )];
    drop((one, other));
    server.drop(OURS).await?;
    table("Nodes with nothing to do", rows, notes)
}

struct Node {
    _engine: Engine,
    client: Client,
    _worker: Worker,
}

impl Node {
    async fn start(url: &str) -> Result<Self> {
        let engine = Engine::start(Postgres::connect(url)?).await?;
        let (namespace, queue) = (Namespace::default(), Queue::default());
        let worker = engine.worker(namespace.clone(), queue.clone());
        Ok(Self {
            client: engine.client(namespace, queue),
            _worker: worker.workflow(PARK, wait).start(),
            _engine: engine,
        })
    }
}

async fn wait(ctx: Context, _: u64) -> Result<(), Failure> {
    ctx.sleep(Duration::from_hours(24)).await
}

/// Starts the runs and waits until all of them wait.
async fn park(client: &Client) -> Result<()> {
    let ids = Ids::random();
    for _ in 0..PARKED as usize / BATCH {
        let calls = (0..BATCH).map(|_| client.start(PARK, ids.workflow(), &1));
        for started in client.start_batch(calls).await? {
            started?;
        }
    }
    let waiting = Filter {
        statuses: vec![RunStatus::Waiting],
        ..Filter::all(Namespace::default())
    };
    while client.count(&waiting).await? < PARKED {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Transactions a second that the server counts.
async fn rate(server: &Server) -> Result<f64> {
    Server::hear().await;
    let before = server.usage(OURS).await?;
    tokio::time::sleep(WATCHED).await;
    // What a session has not told yet, it had not told before either.
    let after = server.usage(OURS).await?;
    Ok((after.commits - before.commits) / WATCHED.as_secs_f64())
}

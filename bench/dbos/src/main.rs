//! dbos, as its documentation shows it: one instance, its default pool, `run` for work that is
//! waited for, the client for work that is queued.

use std::future::IntoFuture;

use coord_bench_measure::Result;
use coord_bench_measure::peer::{Task, serve};
use coord_bench_measure::round::{Driven, drive};
use dbos::{Client, ClientConfig, Config, DBOS, QueueConflict, QueueOptions, step};
use futures_util::future::join_all;

const QUEUE: &str = "nobody_listens";

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("no url")?;
    let dbos = DBOS::new(Config {
        app_version: Some("1".to_owned()),
        // Of the queue of which only the enqueueing is measured.
        listen_queues: Some(Vec::new()),
        ..Config::new("bench", url.clone())
    });
    let noop = dbos.register_workflow("noop", noop)?;
    let steps = dbos.register_workflow("steps", steps)?;
    let fan_out = dbos.register_workflow("fan-out", fan_out)?;
    dbos.launch().await?;
    dbos.register_queue(
        QUEUE,
        QueueOptions::default(),
        QueueConflict::UpdateIfLatestVersion,
    )
    .await?;
    let client = Client::connect(ClientConfig::new(url)).await?;
    serve(async |task: Task| -> Result<Driven> {
        let time = task.time();
        match task.work.as_str() {
            "noop" => {
                let noop = noop.clone();
                drive(task.in_flight, time, move |_| {
                    let noop = noop.clone();
                    async move { Ok(noop.run(1).await.map(drop)?) }
                })
                .await
            }
            "steps" => {
                let steps = steps.clone();
                drive(task.in_flight, time, move |_| {
                    let steps = steps.clone();
                    async move { Ok(steps.run(1).await.map(drop)?) }
                })
                .await
            }
            "fan-out" => {
                let fan_out = fan_out.clone();
                drive(task.in_flight, time, move |_| {
                    let fan_out = fan_out.clone();
                    async move { Ok(fan_out.run(1).await.map(drop)?) }
                })
                .await
            }
            "start" => {
                let client = client.clone();
                drive(task.in_flight, time, move |_| {
                    let client = client.clone();
                    async move {
                        let queued = client.enqueue::<u64, u64, dbos::Error>("noop", QUEUE, 1);
                        Ok(queued.await.map(drop)?)
                    }
                })
                .await
            }
            other => Err(format!("it has no {other}").into()),
        }
    })
    .await
}

async fn noop(input: u64) -> dbos::Result<u64> {
    Ok(input)
}

async fn steps(_: u64) -> dbos::Result<usize> {
    let mut bytes = 0;
    for _ in 0..10 {
        let value: String =
            step("step", async || dbos::Result::<String>::Ok("x".repeat(100))).await?;
        bytes += value.len();
    }
    Ok(bytes)
}

/// A hundred steps, built first and then driven together, as it asks for.
async fn fan_out(_: u64) -> dbos::Result<usize> {
    let steps = (0..100).map(|_| {
        let step = step("step", async || dbos::Result::<String>::Ok("x".repeat(100)));
        step.into_future()
    });
    let steps: Vec<_> = steps.collect();
    let mut bytes = 0;
    for value in join_all(steps).await {
        bytes += value?.len();
    }
    Ok(bytes)
}

//! awa, as its documentation shows it: jobs inserted in its fastest way, and a client that works
//! them off. A job has ended when awa tells of it, after it has committed that.

use std::sync::Arc;
use std::time::Duration;

use awa::model::insert::params_with;
use awa::model::{insert_many_copy_from_pool, migrations};
use awa::{Client, InsertOpts, JobArgs, JobEvent, JobResult, QueueConfig};
use coord_bench_measure::Result;
use coord_bench_measure::peer::{Task, serve};
use coord_bench_measure::round::{Driven, at_once};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::sync::Semaphore;

const QUEUE: &str = "drain";
/// Of the pool that it is given: as many as measured best.
const CONNECTIONS: u32 = 16;
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Noop {
    input: u64,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("no url")?;
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
    let pool = pool.connect(&url).await?;
    migrations::run(&pool).await?;
    serve(async |task: Task| match task.work.as_str() {
        "drain" => drain(&pool, task).await,
        other => Err(format!("it has no {other}").into()),
    })
    .await
}

async fn drain(pool: &PgPool, task: Task) -> Result<Driven> {
    let options = || InsertOpts {
        queue: QUEUE.to_owned(),
        ..InsertOpts::default()
    };
    let jobs = (0..task.jobs).map(|input| params_with(&Noop { input }, options()));
    let jobs = jobs.collect::<std::result::Result<Vec<_>, _>>()?;
    insert_many_copy_from_pool(pool, &jobs).await?;
    let ended = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&ended);
    let config = QueueConfig {
        max_workers: u32::try_from(task.in_flight)?,
        ..QueueConfig::default()
    };
    let client = Client::builder(pool.clone())
        .queue(QUEUE, config)
        .register::<Noop, _, _>(|_, _| async { Ok(JobResult::Completed) })
        .on_event::<Noop, _, _>(move |event| {
            if let JobEvent::Completed { .. } = event {
                told.add_permits(1);
            }
            async {}
        })
        .build()?;
    let jobs = u32::try_from(task.jobs)?;
    let driven = at_once(task.jobs, async {
        client.start().await?;
        ended.acquire_many(jobs).await?.forget();
        Ok(())
    })
    .await;
    client.shutdown(GRACE).await;
    driven
}

//! A node that works on workflows, for tests that kill it.
//!
//! `engine-node FILE EFFECTS STEP_MS [REDIS]`: a worker on the SQLite database `FILE`, with hints
//! through the Redis at the URL `REDIS`. The workflow `records.audit` takes a number and adds it up
//! in three activities and a local step, each of which takes `STEP_MS` and then adds a line
//! `INPUT NAME` to `EFFECTS`. It says `ready` when it works, and `lost` when it first lost a lease.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use coord_broadcast::Broadcast;
use coord_engine::Engine;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::store::Sqlite;
use coord_engine::wake::Redis;
use coord_redis::Config;
use coord_tests::recorder::recorder;

const AUDIT: Workflow<u64, u64> = Workflow::new("records.audit");
const ADD: Activity<(u64, String), u64> = Activity::new("records.add");

#[derive(Clone)]
struct Effects {
    path: String,
    step: Duration,
}

impl Effects {
    async fn add(&self, number: u64, name: &str) -> Result<u64, Failure> {
        tokio::time::sleep(self.step).await;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.write_all(format!("{number} {name}\n").as_bytes())?;
        Ok(number)
    }
}

#[tokio::main]
async fn main() -> coord_core::Result<()> {
    recorder();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (file, path, step_ms, redis) = match args.as_slice() {
        [file, path, step_ms] => (file, path, step_ms, None),
        [file, path, step_ms, redis] => (file, path, step_ms, Some(redis)),
        _ => panic!("three or four arguments, not {args:?}"),
    };
    let step_ms = step_ms.parse().expect("a number of milliseconds");
    let effects = Effects {
        path: path.clone(),
        step: Duration::from_millis(step_ms),
    };
    let mut engine = Engine::builder(Sqlite::file(file));
    if let Some(url) = redis {
        let redis = coord_redis::Redis::connect(Config::from_url(url)?).await?;
        engine = engine.wake(Redis::new(Broadcast::new(&redis)));
    }
    let engine = engine.start().await?;
    let (local, remote) = (effects.clone(), effects);
    let audit = move |ctx: Context, number: u64| {
        let effects = local.clone();
        async move {
            let mut sum = 0;
            for name in ["one", "two", "three"] {
                sum += ctx.activity(ADD, &(number, name.to_owned())).await?;
            }
            let step = ctx.step("four", || effects.add(number, "four"));
            Ok(sum + step.await?)
        }
    };
    let add = move |_, (number, name): (u64, String)| {
        let effects = remote.clone();
        async move { effects.add(number, &name).await }
    };
    let worker = engine.worker(Namespace::default(), Queue::default());
    let _worker = worker.workflow(AUDIT, audit).activity(ADD, add).start();
    println!("ready");
    recorder()
        .event("engine.lease_lost", &[], Duration::MAX)
        .await;
    println!("lost");
    // Until it is killed, or its parent is gone.
    tokio::signal::ctrl_c().await.expect("signals can be heard");
    Ok(())
}

//! A node that works on workflows, for tests that stop and kill it.
//!
//! `engine-node EFFECTS STEP_MS`: a worker of an engine as the environment says. The workflow
//! `records.audit` takes a number and adds it up in three activities and a local step, each of which
//! takes `STEP_MS` and then adds a line `INPUT NAME` to `EFFECTS`. It says `ready` when it works and
//! its hints pass, if it is to have any, and `lost` when it first lost a lease. SIGTERM has it
//! finish what it has and leave; where the environment names a collector, what it did is told there.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use coord_core::Env;
use coord_engine::EngineConfig;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::wake::Health;
use coord_server::Traces;
use coord_tests::recorder::recorder;
use tokio::signal::unix::{SignalKind, signal};

const AUDIT: Workflow<u64, u64> = Workflow::new("records.audit");
const ADD: Activity<(u64, String), u64> = Activity::new("records.add");

/// How often it is looked whether hints pass.
const LOOK: Duration = Duration::from_millis(20);
/// Far above what a step of a test takes.
const GRACE: Duration = Duration::from_mins(1);

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
    let [path, step_ms] = args.as_slice() else {
        panic!("two arguments, not {args:?}");
    };
    let step_ms = step_ms.parse().expect("a number of milliseconds");
    let effects = Effects {
        path: path.clone(),
        step: Duration::from_millis(step_ms),
    };
    let env = Env::process();
    let traces = Traces::from_env(&env)?;
    let engine = EngineConfig::from_env(&env)?.start().await?;
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
    let worker = worker.workflow(AUDIT, audit).activity(ADD, add).start();
    while engine.wake_health() == Health::Degraded {
        tokio::time::sleep(LOOK).await;
    }
    println!("ready");
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be heard");
    let lost = recorder().event("engine.lease_lost", &[], Duration::MAX);
    tokio::select! {
        _ = lost => {
            println!("lost");
            terminate.recv().await;
        }
        _ = terminate.recv() => {}
    }
    worker.shutdown(GRACE).await;
    let ended = engine.shutdown().await;
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    ended
}

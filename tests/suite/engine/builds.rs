//! Runs that wait for a build.

use std::time::Duration;

use coord_engine::compatibility::Compatibility;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{BuildId, Failure, Namespace, Queue};
use coord_engine::{Engine, store::WorkerFilter};
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;

use super::{SOON, Stage, id, worker};

const WORK: Workflow<(), ()> = Workflow::new("tests.marked");

async fn work(_: Context, (): ()) -> Result<(), Failure> {
    Ok(())
}

async fn engine(stage: &Stage, build: &str) -> Engine {
    let build = BuildId::new(build).expect("a build");
    let builder = Engine::builder(stage.store()).compatibility(Compatibility::of(build));
    builder.start().await.expect("the file is ours")
}

#[tokio::test]
async fn a_run_whose_build_is_gone_is_reported_with_its_age() {
    let stage = Stage::new();
    let old = engine(&stage, "old").await;
    let only = worker(&old).workflow(WORK, work).start();
    let workers = async || {
        let workers = old.workers(&WorkerFilter::default()).await;
        workers.expect("an answer").len()
    };
    eventually(SOON, "its worker is seen", || async {
        workers().await == 1
    })
    .await;
    only.shutdown(Duration::ZERO).await;
    eventually(SOON, "its worker is gone", || async {
        workers().await == 0
    })
    .await;
    let client = old.client(Namespace::default(), Queue::default());
    client.start(WORK, id("a"), &()).await.expect("started");

    let _new = engine(&stage, "new").await;

    let one = [("runs", "1")];
    let blocked = "engine.compatibility.blocked";
    recorder().event(blocked, &one, SOON).await;
    let age = "engine.compatibility.blocked_age";
    recorder().event(age, &[], SOON).await;
}

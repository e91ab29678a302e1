//! What operators hear of processes and roles, each through what it is about.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::worker::Attempt;
use coord_engine::{Engine, Recovery};
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{DOUBLE, SOON, Stage, double, id, worker};

const WORK: Workflow<u64, u64> = Workflow::new("tests.work");

async fn work(ctx: Context, number: u64) -> Result<u64, Failure> {
    ctx.activity(DOUBLE, &number).await
}

/// As short as is allowed, so that a test sees in seconds what takes a fleet half a minute.
fn quick() -> Recovery {
    let mut recovery = Recovery::default();
    recovery.heartbeat = Duration::from_millis(500);
    recovery.every = Duration::from_millis(500);
    recovery.term = Duration::from_secs(1);
    recovery.ttl = Duration::from_secs(4);
    recovery
}

#[tokio::test]
async fn a_role_that_nobody_takes_is_reported_until_somebody_does() {
    let stage = Stage::new();
    let builder = || Engine::builder(stage.store()).recovery(quick());
    let _watches = builder()
        .without_recovery()
        .start()
        .await
        .expect("our file");

    let about = [("role", "recovery")];
    recorder().event("engine.role_vacant", &about, SOON).await;
    let _recovers = builder().start().await.expect("our file");

    let held = [("role", "recovery"), ("age_s", "0")];
    recorder().event("engine.role_vacant", &held, SOON).await;
}

#[tokio::test]
async fn a_run_whose_task_was_removed_is_reported_and_goes_on() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    let started = client.start(WORK, id("a"), &4).await.expect("started");
    let url = format!("sqlite://{}", stage.path("work.db").display());
    let behind = SqliteConnection::connect(&url).await;
    let mut behind = behind.expect("the file is there");
    let removed = behind.execute("DELETE FROM workflow_tasks").await;
    assert_eq!(removed.expect("nobody writes for long").rows_affected(), 1);

    let worker = worker(&engine)
        .workflow(WORK, work)
        .activity(DOUBLE, double);
    let _worker = worker.start();

    let run = started.handle.run().expect("it is started").to_string();
    let about = [("run", run.as_str())];
    recorder().event("engine.run_repaired", &about, SOON).await;
    let result = started.handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok(8)));
}

#[tokio::test]
async fn a_process_that_is_gone_is_reported_with_how_long_it_was_silent() {
    let stage = Stage::new();
    let builder = || Engine::builder(stage.store()).recovery(quick());
    let _recovers = builder().start().await.expect("our file");
    let gone = builder().without_recovery().start().await;
    let gone = gone.expect("our file");
    let snapshot = gone.operator_snapshot().await.expect("read");
    let process = snapshot.nodes[1].instance_id.clone();

    drop(gone);

    let about = [("process", process.as_str())];
    let event = recorder().event("engine.death_found", &about, SOON).await;
    let silent: f64 = event
        .field("silent_ms")
        .expect("a span")
        .parse()
        .expect("a number");
    assert!(silent >= quick().ttl.as_secs_f64() * 1000.0, "{silent}");
}

#[tokio::test]
async fn a_process_that_was_declared_dead_and_lives_says_so_and_goes_on() {
    let stage = Stage::new();
    let engine = Engine::builder(stage.store()).recovery(quick()).start();
    let engine = engine.await.expect("our file");
    let node = async || {
        let snapshot = engine.operator_snapshot().await.expect("read");
        snapshot.nodes.first().map(|node| node.instance_id.clone())
    };
    let before = node().await.expect("it is seen");
    let url = format!("sqlite://{}", stage.path("work.db").display());
    let behind = SqliteConnection::connect(&url).await;
    let mut behind = behind.expect("the file is there");
    let buried = behind.execute("UPDATE engine_instances SET status = 'dead'");
    assert_eq!(buried.await.expect("buried").rows_affected(), 1);

    let about = [("process", before.as_str())];
    recorder().event("engine.declared_dead", &about, SOON).await;

    eventually(SOON, "it lives under another name", || async {
        node().await.is_some_and(|now| now != before)
    })
    .await;
    recorder()
        .event("engine.store.connections", &[], SOON)
        .await;
}

/// A node whose only thread is blocked by its code until the sender goes, and what it says then.
fn blocked_node(stage: &Stage, until: Receiver<()>) -> std::thread::JoinHandle<()> {
    let store = stage.store();
    let until = Mutex::new(until);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let engine = Engine::builder(store).recovery(quick()).start().await;
            let engine = engine.expect("the file is there");
            let block = move |_: Attempt, number: u64| {
                // It ends with the sender: an error is the normal end.
                _ = until.lock().expect("its only user").recv();
                async move { Ok::<_, Failure>(number) }
            };
            let worker = worker(&engine)
                .workflow(BLOCKED, blocked)
                .activity(BLOCK, block);
            let worker = worker.start();
            let client = engine.client(Namespace::default(), Queue::default());
            let handle = client.handle(BLOCKED, id("blocks"));
            _ = handle.result(SOON).await;
            worker.shutdown(Duration::ZERO).await;
        });
    })
}

const BLOCK: Activity<u64, u64> = Activity::new("tests.block");
const BLOCKED: Workflow<u64, u64> = Workflow::new("tests.blocked");

async fn blocked(ctx: Context, number: u64) -> Result<u64, Failure> {
    let activity = ctx.activity(BLOCK, &number);
    activity.start_to_close(Duration::from_secs(8)).await
}

#[tokio::test]
async fn a_node_whose_thread_is_blocked_is_reported_and_others_do_its_work() {
    let stage = Stage::new();
    let engine = Engine::builder(stage.store())
        .recovery(quick())
        .start()
        .await;
    let engine = engine.expect("the file is there");
    let client = engine.client(Namespace::default(), Queue::default());
    let blocks = client
        .start(BLOCKED, id("blocks"), &3)
        .await
        .expect("started");
    // It waits for the end of this, which is there.
    let (release, until) = channel();
    let node = blocked_node(&stage, until);

    recorder().event("engine.runtime_stalled", &[], SOON).await;
    let other = worker(&engine).workflow(BLOCKED, blocked);
    let other = other.activity(BLOCK, double).start();

    // Its queue is drained by others, and what it has is theirs when its time is over.
    let fresh = client
        .start(BLOCKED, id("fresh"), &4)
        .await
        .expect("started");
    let result = fresh.handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok(8)));
    let result = blocks.handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok(6)), "its own node never made it");
    drop(release);
    tokio::task::spawn_blocking(|| node.join())
        .await
        .expect("it waits")
        .expect("it ends well");
    assert!(other.shutdown(SOON).await);
}

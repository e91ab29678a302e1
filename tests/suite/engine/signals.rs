//! What operators hear, each through what it is about.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_engine::archive::Folder;
use coord_engine::flow::join_all;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue, Retry};
use coord_engine::wake::{Health, Table};
use coord_engine::worker::Attempt;
use coord_engine::{Engine, Limits};
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use sqlx::{Connection as _, Executor as _};

use super::{DOUBLE, GO, SOON, Stage, double, id, worker};

const WORK: Workflow<u64, u64> = Workflow::new("tests.work");
const LEASE: Duration = Duration::from_secs(1);

async fn calm(ctx: Context, number: u64) -> Result<u64, Failure> {
    ctx.activity(DOUBLE, &number).await
}

#[tokio::test]
async fn turns_and_commits_are_measured() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let _worker = worker(&engine)
        .workflow(WORK, calm)
        .activity(DOUBLE, double)
        .start();
    let client = engine.client(Namespace::default(), Queue::default());

    let handle = client
        .start(WORK, id("a"), &1)
        .await
        .expect("started")
        .handle;

    assert_eq!(handle.result(SOON).await.expect("an answer"), Some(Ok(2)));
    recorder().event("engine.turn", &[], SOON).await;
    recorder().event("engine.commit", &[], SOON).await;
    for (key, field, value) in [
        ("engine.store.called", "call", "claim"),
        ("engine.run.started", "runs", "1"),
        ("engine.run.read", "cached", "miss"),
        ("engine.run.closed", "how", "completed"),
        ("engine.task.done", "kind", "activity"),
        ("engine.task.claimed", "how", "taken_along"),
    ] {
        recorder().event(key, &[(field, value)], SOON).await;
    }
}

#[tokio::test]
async fn how_long_tasks_wait_is_measured_from_when_they_were_due() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    let started = client.start(WORK, id("a"), &1).await.expect("started");
    tokio::time::sleep(LEASE).await;

    let only = worker(&engine).workflow(WORK, calm);
    let _worker = only.activity(DOUBLE, double).start();

    let result = started.handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok(2)));
    let about = [("kind", "workflow")];
    let event = recorder()
        .event("engine.task.picked_up", &about, SOON)
        .await;
    let waited: f64 = event
        .field("waited_ms")
        .expect("a span")
        .parse()
        .expect("a number");
    assert!(waited > 0.0, "{waited}");
    let polled = [("how", "polled"), ("kind", "workflow")];
    recorder().event("engine.task.claimed", &polled, SOON).await;
}

#[tokio::test]
async fn histories_that_are_handed_over_are_counted_and_those_that_are_not_are_reported() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let only = worker(&engine).workflow(WORK, calm);
    let _worker = only.activity(DOUBLE, double).start();
    let client = engine.client(Namespace::default(), Queue::default());
    let started = client.start(WORK, id("a"), &1).await.expect("started");
    let result = started.handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok(2)));
    let file = stage.path("file");
    std::fs::write(&file, "no folder").expect("written");

    let shut = Folder::new(&file);
    let failed = engine.archive_closed_runs(&shut, Duration::ZERO).await;
    assert_eq!(
        failed.expect_err("no folder").kind(),
        ErrorKind::Unavailable
    );
    let run = started.handle.run().expect("it is started").to_string();
    let about = [("run", run.as_str())];
    recorder()
        .event("engine.archive.failed", &about, SOON)
        .await;

    let archive = Folder::new(stage.path("archive"));
    let passed = engine.archive_closed_runs(&archive, Duration::ZERO).await;
    assert_eq!(passed.expect("passed").archived, 1);
    recorder()
        .event("engine.archive.done", &[("runs", "1")], SOON)
        .await;
}

#[tokio::test]
async fn a_run_whose_code_changed_is_reported_with_both_ways() {
    async fn before(ctx: Context, number: u64) -> Result<u64, Failure> {
        ctx.signal(GO).recv().await?;
        Ok(number)
    }
    let stage = Stage::new();
    let engine = stage.engine().await;
    let first = worker(&engine).workflow(WORK, before).start();
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = client
        .start(WORK, id("a"), &1)
        .await
        .expect("started")
        .handle;
    let run = handle.run().expect("it is started").to_string();
    eventually(SOON, "it waits", || async {
        handle.history().await.expect("a history").len() > 1
    })
    .await;
    first.shutdown(SOON).await;

    let _second = worker(&engine)
        .workflow(WORK, calm)
        .activity(DOUBLE, double)
        .start();
    handle.signal(GO, &()).await.expect("sent");

    let about = [("run", run.as_str()), ("reason", "replay")];
    let event = recorder().event("engine.run_blocked", &about, SOON).await;
    let error = event.field("error").expect("an error");
    assert!(
        error.contains("`go`") && error.contains("`tests.double`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_turn_that_panics_is_reported_with_its_message() {
    async fn bad(_: Context, _: u64) -> Result<u64, Failure> {
        panic!("no luck")
    }
    let stage = Stage::new();
    let engine = stage.engine().await;
    let _worker = worker(&engine).workflow(WORK, bad).start();
    let client = engine.client(Namespace::default(), Queue::default());

    let handle = client
        .start(WORK, id("a"), &1)
        .await
        .expect("started")
        .handle;

    let run = handle.run().expect("it is started").to_string();
    let about = [("run", run.as_str()), ("fault", "panicked")];
    let event = recorder().event("engine.turn_failed", &about, SOON).await;
    assert!(
        event
            .field("error")
            .is_some_and(|error| error.contains("no luck"))
    );
}

#[tokio::test]
async fn an_attempt_that_fails_is_reported_with_what_follows() {
    async fn twice(ctx: Context, number: u64) -> Result<u64, Failure> {
        let retry = Retry {
            initial: Duration::from_millis(1),
            ..Retry::exponential(2)
        };
        ctx.activity(DOUBLE, &number).retry(retry).await
    }
    async fn fails(_: Attempt, _: u64) -> Result<u64, Failure> {
        Err(Failure::new("out of order"))
    }
    let stage = Stage::new();
    let engine = stage.engine().await;
    let _worker = worker(&engine)
        .workflow(WORK, twice)
        .activity(DOUBLE, fails)
        .start();
    let client = engine.client(Namespace::default(), Queue::default());

    let handle = client
        .start(WORK, id("a"), &1)
        .await
        .expect("started")
        .handle;

    let task = format!("{}:1", handle.run().expect("it is started"));
    for follows in ["retry", "end"] {
        let about = [("task", task.as_str()), ("follows", follows)];
        recorder()
            .event("engine.attempt_failed", &about, SOON)
            .await;
    }
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_reported_and_waited_for() {
    async fn slow(_: Attempt, number: u64) -> Result<u64, Failure> {
        tokio::time::sleep(2 * LEASE).await;
        Ok(number * 2)
    }
    let stage = Stage::new();
    let engine = stage.engine().await;
    let only = worker(&engine).workflow(WORK, calm).activity(DOUBLE, slow);
    let _worker = only.lease(3 * LEASE).start();
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = client
        .start(WORK, id("a"), &1)
        .await
        .expect("started")
        .handle;

    let url = format!("sqlite://{}", stage.path("work.db").display());
    let mut other = sqlx::SqliteConnection::connect(&url)
        .await
        .expect("the file is there");
    other
        .execute("BEGIN IMMEDIATE")
        .await
        .expect("nobody writes for long");
    recorder().event("engine.store_failed", &[], SOON).await;
    recorder().event("engine.store.contended", &[], SOON).await;
    other.execute("ROLLBACK").await.expect("it has begun");

    assert_eq!(handle.result(SOON).await.expect("an answer"), Some(Ok(2)));
}

#[tokio::test]
async fn hints_that_no_longer_pass_are_reported_and_so_is_their_return() {
    let stage = Stage::new();
    let engine = Engine::builder(stage.store()).wake(Table::new(stage.store()));
    let engine = engine.start().await.expect("the file is ours");
    let _worker = worker(&engine)
        .workflow(WORK, calm)
        .activity(DOUBLE, double)
        .start();
    let table = [("backend", "table")];
    recorder().event("engine.wake.tried", &table, SOON).await;
    recorder().event("engine.wake.restored", &table, SOON).await;
    recorder().event("engine.wake.probe", &[], SOON).await;

    let url = format!("sqlite://{}", stage.path("work.db").display());
    let other = sqlx::SqliteConnection::connect(&url).await;
    let mut other = other.expect("the file is there");
    other
        .execute("ALTER TABLE workflow_wakes RENAME TO elsewhere")
        .await
        .expect("nobody writes for long");
    recorder().event("engine.wake.lost", &table, SOON).await;
    assert_eq!(engine.wake_health(), Health::Degraded);
    other
        .execute("ALTER TABLE elsewhere RENAME TO workflow_wakes")
        .await
        .expect("nobody writes for long");

    eventually(SOON, "they pass again", || async {
        engine.wake_health() == Health::Healthy
    })
    .await;
}

#[tokio::test]
async fn a_run_that_comes_to_a_limit_is_reported_before_it_is_refused() {
    async fn wide(ctx: Context, width: u64) -> Result<u64, Failure> {
        let mut refused = 0;
        for result in join_all((0..width).map(|number| ctx.activity(DOUBLE, &number))).await {
            match result {
                Err(failure) if failure.kind == Failure::LIMIT_EXCEEDED => refused += 1,
                other => drop(other?),
            }
        }
        Ok(refused)
    }
    let stage = Stage::new();
    let mut limits = Limits::default();
    limits.pending_activities = 10;
    let engine = Engine::builder(stage.store()).limits(limits).start().await;
    let engine = engine.expect("the file is ours");
    let _worker = worker(&engine)
        .workflow(WORK, wide)
        .activity(DOUBLE, double)
        .start();
    let client = engine.client(Namespace::default(), Queue::default());

    for (name, width, refused, key) in [
        ("a", 9, 0, "engine.limit_near"),
        ("b", 12, 2, "engine.limit_exceeded"),
    ] {
        let started = client.start(WORK, id(name), &width).await;
        let handle = started.expect("started").handle;
        let run = handle.run().expect("it is started").to_string();
        let ended = handle.result(SOON).await.expect("an answer");
        assert_eq!(ended, Some(Ok(refused)));
        let about = [("about", run.as_str()), ("limit", "pending_activities")];
        recorder().event(key, &about, SOON).await;
    }
}

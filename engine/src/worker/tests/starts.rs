//! Runs that begin in the process that starts them.

use std::future::IntoFuture;
use std::task::{Context as Polled, Waker};

use super::*;

const STAYS: Workflow<(), u32> = Workflow::new("tests.stays");

async fn stays(ctx: Context, (): ()) -> Result<u32, Failure> {
    ctx.step("stay", std::future::pending::<Result<u32, Failure>>)
        .await
}

async fn status(stage: &Stage, name: &str) -> String {
    let handle = stage.client.handle(STAYS, id(name));
    let described = handle.describe().await.expect("an answer");
    let described = described.expect("it is there");
    described.tasks.first().expect("its task").status.clone()
}

#[tokio::test(start_paused = true)]
async fn a_start_is_leased_to_a_worker_here_that_has_a_slot() {
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(STAYS, stays).start();

    let started = stage.client.start(STAYS, id("a"), &()).await;

    assert!(started.expect("started").was_created);
    assert_eq!(status(&stage, "a").await, "leased");
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_in_its_queue_while_no_slot_is_free() {
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(STAYS, stays).turns(1).start();
    let first = stage.client.start(STAYS, id("a"), &()).await;
    first.expect("started");

    let second = stage.client.start(STAYS, id("b"), &()).await;

    assert!(second.expect("started").was_created);
    assert_eq!(status(&stage, "b").await, "ready");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_nobody_here_knows_is_left_to_others() {
    let stage = Stage::new().await;
    let _worker = stage.sum_worker();

    let started = stage.client.start(STAYS, id("a"), &()).await;

    assert!(started.expect("started").was_created);
    assert_eq!(status(&stage, "a").await, "ready");
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_went_away_goes_on() {
    let stage = Stage::new().await;
    let _worker = stage.sum_worker();
    let mut start = stage.client.start(SUM, id("a"), &vec![1, 2]).into_future();
    let is_done = start
        .as_mut()
        .poll(&mut Polled::from_waker(Waker::noop()))
        .is_ready();
    assert!(!is_done, "its caller waits for the commit");

    drop(start);

    let handle = stage.client.handle(SUM, id("a"));
    while handle.describe().await.expect("an answer").is_none() {
        tokio::task::yield_now().await;
    }
    let result = handle.result(MINUTE).await.expect("an answer");
    assert_eq!(result, Some(Ok(6)));
}

//! Workflows to try things out with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::flow::{Activity, Context, Either, Query, Signal, Workflow, select};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::worker::{Attempt, Worker};
use serde::{Deserialize, Serialize};

/// What to try, in this order, and what it shows. The tests type them as they stand here.
pub(super) const STEPS: &[(&str, &str)] = &[
    (
        r#"runs start examples.greeting --id hello --input '{"name": "Ada"}' --wait 30s"#,
        "a workflow that hands work out and returns",
    ),
    (
        r#"runs start examples.approval --id order-1 --input '{"item": "a bicycle"}'"#,
        "one that waits for somebody, for days if it must be, also while the node is down",
    ),
    (
        "runs describe order-1",
        "where it stands, and what it waits for",
    ),
    (
        r#"runs signal order-1 approve --input '"ann"'"#,
        "what it waits for",
    ),
    ("runs result order-1", "what it returned"),
    ("runs history order-1", "everything that happened to it"),
    (
        "runs start examples.countdown --id launch --input 60",
        "one that sleeps: end the node with Ctrl-C, start it again, and see where it is",
    ),
    (
        r#"runs cancel launch --reason "bad weather""#,
        "it may clean up before it ends",
    ),
    (
        r#"schedules create hourly --every 1h --workflow examples.greeting --input '{"name": "Eve"}'"#,
        "one that starts again and again",
    ),
    ("schedules trigger hourly", "and now"),
    ("runs list", "all of them"),
];

const GREETING: Workflow<Greeted, String> = Workflow::new("examples.greeting");
const APPROVAL: Workflow<Order, String> = Workflow::new("examples.approval");
const COUNTDOWN: Workflow<u32, String> = Workflow::new("examples.countdown");
const COMPOSE: Activity<Greeted, String> = Activity::new("examples.compose");
const APPROVE: Signal<String> = Signal::new("approve");
const LEFT: Query<(), u32> = Query::new("left");

/// How long somebody may take to approve.
const PATIENCE: Duration = Duration::from_hours(7 * 24);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Serialize, Deserialize)]
struct Greeted {
    name: String,
}

#[derive(Deserialize, Serialize)]
struct Order {
    item: String,
}

/// A worker for all of them.
pub(super) fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(Namespace::default(), Queue::default());
    worker
        .workflow(GREETING, greeting)
        .workflow(APPROVAL, approval)
        .workflow(COUNTDOWN, countdown)
        .activity(COMPOSE, compose)
        .start()
}

/// Hands work out to whichever worker is free, which is tried again until it succeeds.
async fn greeting(ctx: Context, greeted: Greeted) -> Result<String, Failure> {
    ctx.activity(COMPOSE, &greeted).await
}

async fn compose(_: Attempt, greeted: Greeted) -> Result<String, Failure> {
    Ok(format!("Hello, {}!", greeted.name))
}

/// Waits for somebody, and not for ever.
async fn approval(ctx: Context, order: Order) -> Result<String, Failure> {
    let approved = ctx.signal(APPROVE);
    match select(approved.recv(), ctx.sleep(PATIENCE)).await {
        Either::Left(by) => Ok(format!("{} was approved by {}", order.item, by?)),
        Either::Right(_) => Err(Failure::new(format!("nobody approved {}", order.item))),
    }
}

/// Sleeps a second at a time, and says how many are left.
async fn countdown(ctx: Context, seconds: u32) -> Result<String, Failure> {
    let left = Arc::new(AtomicU32::new(seconds));
    let shown = Arc::clone(&left);
    ctx.answers(LEFT, move |()| shown.load(Ordering::Relaxed));
    while left.load(Ordering::Relaxed) > 0 {
        ctx.sleep(SECOND).await?;
        left.fetch_sub(1, Ordering::Relaxed);
    }
    Ok("lift-off".to_owned())
}

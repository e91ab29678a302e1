//! The engine inside of a service, on a file: what survives the service.
#![cfg(feature = "sqlite")]

use std::path::Path;
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::client::Handle;
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{EventKind, Failure, Namespace, Queue, WorkflowId};
use coord_engine::store::Sqlite;
use coord_engine::worker::{Attempt, Worker};

const ORDER: Workflow<u32, String> = Workflow::new("shop.order");
const CHARGE: Activity<u32, u64> = Activity::new("shop.charge");
const SHIP: Activity<String, String> = Activity::new("shop.ship");
const PACKED: Signal<String> = Signal::new("packed");
/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(1);

async fn order(ctx: Context, cents: u32) -> Result<String, Failure> {
    let receipt = ctx.activity(CHARGE, &cents).await?;
    ctx.sleep(Duration::from_millis(200)).await?;
    let by = ctx.signal(PACKED).recv().await?;
    ctx.activity(SHIP, &format!("receipt {receipt}, packed by {by}"))
        .await
}

async fn charge(_: Attempt, cents: u32) -> Result<u64, Failure> {
    Ok(u64::from(cents) * 2)
}

async fn ship(_: Attempt, label: String) -> Result<String, Failure> {
    Ok(format!("{label}, shipped"))
}

/// The three lines of a service.
async fn service(file: &Path) -> Result<(Engine, Worker), coord_core::Error> {
    let engine = Engine::start(Sqlite::file(file)).await?;
    let worker = engine.worker(Namespace::default(), Queue::default());
    Ok((
        engine,
        worker
            .workflow(ORDER, order)
            .activity(CHARGE, charge)
            .activity(SHIP, ship)
            .start(),
    ))
}

fn id() -> WorkflowId {
    WorkflowId::new("order-17").expect("an id")
}

fn handle(engine: &Engine) -> Handle<String> {
    engine
        .client(Namespace::default(), Queue::default())
        .handle(ORDER, id())
}

async fn is_waiting_for_its_signal(handle: &Handle<String>) {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let history = handle.history().await.expect("a history");
        let last = history.last().map(|event| &event.kind);
        if matches!(last, Some(EventKind::SignalWaitOpened(_))) {
            return;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "it has come to {last:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_workflow_survives_the_service_that_began_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("work.db");
    let (engine, worker) = service(&file).await.expect("it starts");
    let client = engine.client(Namespace::default(), Queue::default());
    let started = client.start(ORDER, id(), &21).await.expect("it starts");
    is_waiting_for_its_signal(&started.handle).await;
    // As if its process had died: nothing is given back.
    drop((started, client, worker, engine));

    let (engine, _worker) = service(&file).await.expect("it starts again");
    let order = handle(&engine);
    order.signal(PACKED, &"ann".to_owned()).await.expect("sent");

    let done = order.result(SOON).await.expect("an answer");
    assert_eq!(
        done,
        Some(Ok("receipt 42, packed by ann, shipped".to_owned()))
    );
    let history = order.history().await.expect("a history");
    let is_result = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted(_));
    let results = history
        .iter()
        .filter(|event| is_result(&event.kind))
        .count();
    assert_eq!(results, 2, "each activity has one result: {history:#?}");
}

#[tokio::test]
async fn a_service_that_stops_in_good_order_leaves_nothing_to_wait_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("work.db");
    let (engine, worker) = service(&file).await.expect("it starts");
    let client = engine.client(Namespace::default(), Queue::default());
    let order = client
        .start(ORDER, id(), &21)
        .await
        .expect("it starts")
        .handle;
    order.signal(PACKED, &"ann".to_owned()).await.expect("sent");

    assert!(worker.shutdown(SOON).await, "what was under way is done");
    drop((order, client, engine));
    let (engine, _worker) = service(&file).await.expect("it starts again");

    let done = handle(&engine).result(SOON).await.expect("an answer");
    assert_eq!(
        done,
        Some(Ok("receipt 42, packed by ann, shipped".to_owned()))
    );
}

#[tokio::test]
async fn many_workflows_at_once_all_end_with_their_own_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let (engine, _worker) = service(&folder.path().join("work.db"))
        .await
        .expect("it starts");
    let client = engine.client(Namespace::default(), Queue::default());
    let mut orders = Vec::new();
    for number in 0..200_u32 {
        let id = WorkflowId::new(format!("order-{number}")).expect("an id");
        let order = client
            .start(ORDER, id, &number)
            .await
            .expect("it starts")
            .handle;
        order.signal(PACKED, &"ann".to_owned()).await.expect("sent");
        orders.push((number, order));
    }

    for (number, order) in orders {
        let done = order.result(SOON).await.expect("an answer");
        let receipt = number * 2;
        assert_eq!(
            done,
            Some(Ok(format!("receipt {receipt}, packed by ann, shipped")))
        );
    }
}

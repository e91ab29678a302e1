//! Engines that hear of each other through what really carries hints.

use std::time::{Duration, Instant};

use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{Failure, Namespace, Queue, WorkflowId};
use coord_engine::store::Postgres;
use coord_engine::wake::{Health, Notify, Table};
use coord_engine::worker::{Attempt, Worker};
use coord_engine::{Engine, EngineBuilder};

use crate::dialect::Database;

const DOUBLE: Activity<u32, u32> = Activity::new("tests.double");
const WORK: Workflow<u32, u32> = Workflow::new("tests.work");
const MORE: Signal<u32> = Signal::new("more");
/// Far above what anything here takes, so that only what never happens runs into it.
const LONG: Duration = Duration::from_mins(1);
/// The shortest time between two looks of a process that relies on hints: what takes less was not
/// found by a look.
const A_LOOK: Duration = Duration::from_secs(4);

async fn double(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number * 2)
}

async fn work(ctx: Context, number: u32) -> Result<u32, Failure> {
    let doubled = ctx.activity(DOUBLE, &number).await?;
    ctx.sleep(Duration::from_millis(50)).await?;
    Ok(doubled + ctx.signal(MORE).recv().await?)
}

/// A process with the client, and one with the worker.
struct Pair {
    caller: Engine,
    working: Engine,
    _worker: Worker,
    database: Database,
}

impl Pair {
    async fn new(wake: impl AsyncFn(EngineBuilder, Postgres) -> EngineBuilder) -> Option<Self> {
        let database = Database::postgres().await?;
        let address = database.address().expect("it is a server");
        let engine = async || {
            let store = || Postgres::connect(&address).expect("a url");
            let builder = wake(Engine::builder(store()), store()).await;
            builder.start().await.expect("a database of its own")
        };
        let (caller, working) = (engine().await, engine().await);
        let worker = working.worker(Namespace::default(), Queue::default());
        let worker = worker.workflow(WORK, work).activity(DOUBLE, double).start();
        let pair = Self {
            caller,
            working,
            _worker: worker,
            database,
        };
        pair.becomes(Health::Healthy).await;
        Some(pair)
    }

    async fn becomes(&self, health: Health) {
        let deadline = Instant::now() + LONG;
        while [&self.caller, &self.working].map(Engine::wake_health) != [health; 2] {
            assert!(Instant::now() < deadline, "it does not become {health:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How long a workflow takes whose start, signal and end pass from process to process.
    async fn live(&self, name: &str) -> Duration {
        let began = Instant::now();
        let client = self.caller.client(Namespace::default(), Queue::default());
        let id = WorkflowId::new(name).expect("an id");
        let handle = client.start(WORK, id, &20).await.expect("started").handle;
        handle.signal(MORE, &2).await.expect("sent");
        let result = handle.result(LONG).await.expect("an answer");
        assert_eq!(result, Some(Ok(42)));
        began.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_pass_through_a_table() {
    let Some(pair) = Pair::new(async |builder, store| builder.wake(Table::new(store))).await else {
        return;
    };

    let took = pair.live("a").await;

    assert!(took < A_LOOK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_pass_through_notifications() {
    let Some(pair) = Pair::new(async |builder, store| builder.wake(Notify::new(&store))).await
    else {
        return;
    };

    let took = pair.live("a").await;

    assert!(took < A_LOOK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_whose_connection_is_killed_listens_again() {
    let Some(pair) = Pair::new(async |builder, store| builder.wake(Notify::new(&store))).await
    else {
        return;
    };
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'coord-engine-wake' AND datname = current_database()";

    assert!(pair.database.execute(kill).await);

    let took = pair.live("a").await;
    assert!(took < LONG, "{took:?}");
    pair.becomes(Health::Healthy).await;
    let took = pair.live("b").await;
    assert!(took < A_LOOK, "{took:?}");
}

const BUSY: Activity<(), u32> = Activity::new("tests.busy");
const CARRY: Workflow<(), u32> = Workflow::new("tests.carry");
const LEASE: Duration = Duration::from_millis(1500);

async fn carry(ctx: Context, (): ()) -> Result<u32, Failure> {
    ctx.activity(BUSY, &()).queue(busy_queue()).await
}

/// Occupies the only thread of its runtime for four leases.
async fn occupy(attempt: Attempt, (): ()) -> Result<u32, Failure> {
    tokio::time::sleep(LEASE / 3).await;
    std::thread::sleep(4 * LEASE);
    Ok(attempt.number())
}

fn busy_queue() -> Queue {
    Queue::new("busy").expect("a name")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_a_busy_runtime_whose_connections_are_all_taken() {
    let Some(database) = Database::postgres().await else {
        return;
    };
    let address = database.address().expect("it is a server");
    // It leads, so it would take back what the busy one lets go.
    let leading = Engine::connect(&address)
        .await
        .expect("a database of its own");
    let worker = leading.worker(Namespace::default(), Queue::default());
    let _leading = worker.workflow(CARRY, carry).lease(LEASE).start();
    let client = leading.client(Namespace::default(), Queue::default());
    let id = WorkflowId::new("a").expect("an id");
    let handle = client
        .start(CARRY, id.clone(), &())
        .await
        .expect("started")
        .handle;
    let readers_wait = database
        .hold("LOCK TABLE activity_attempts IN ACCESS EXCLUSIVE MODE")
        .await;
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let busy = std::thread::Builder::new().spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("room for a runtime").block_on(async {
            let engine = Engine::connect(&address).await.expect("the same database");
            let client = engine.client(Namespace::default(), Queue::default());
            let mut readers = tokio::task::JoinSet::new();
            // More than there are connections.
            for _ in 0..20 {
                let handle = client.handle(CARRY, id.clone());
                readers.spawn(async move { handle.describe().await.map(drop) });
            }
            let worker = engine.worker(Namespace::default(), busy_queue());
            let _worker = worker.activity(BUSY, occupy).lease(LEASE).start();
            let waits = tokio::task::spawn_blocking(move || told.recv());
            waits.await.expect("it waits").ok();
        });
    });
    tokio::time::sleep(5 * LEASE).await;
    readers_wait.expect("it has row locks").let_go().await;

    let attempt = handle.result(LONG).await.expect("an answer");

    assert_eq!(attempt, Some(Ok(1)), "nobody else was given it");
    drop(tell);
    busy.expect("room for a thread").join().expect("it ends");
}

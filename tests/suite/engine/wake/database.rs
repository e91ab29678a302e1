//! What becomes of hints that the database carries when that alone is in trouble: it is the way of
//! the hints that is broken here, while the work goes on.

use std::time::Duration;

use coord_engine::flow::{Context, Workflow};
use coord_engine::health::{Category, Status};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::store::Postgres;
use coord_engine::wake::{Backend, Health, Notify, Table};
use coord_engine::worker::Worker;
use coord_engine::{Engine, EngineBuilder};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::PostgresDatabase;

use super::troubles::hints;
use super::{RECORDS, becomes, client};
use crate::engine::{DOUBLE, SOON, double, id};

const WORK: Workflow<u64, u64> = Workflow::new("tests.work");

async fn work(ctx: Context, number: u64) -> Result<u64, Failure> {
    let doubled = ctx.activity(DOUBLE, &number).await?;
    ctx.sleep(Duration::from_millis(20)).await?;
    ctx.activity(DOUBLE, &doubled).await
}

/// A caller and three nodes on one database.
struct Fleet {
    name: &'static str,
    caller: Engine,
    _nodes: Vec<(Engine, Worker)>,
    next: u64,
}

impl Fleet {
    async fn new<B: Backend>(
        name: &'static str,
        database: &PostgresDatabase,
        backend: impl Fn() -> B,
    ) -> Self {
        recorder();
        let engine = async || {
            let store = Postgres::connect(&database.url()).expect("a url");
            let builder: EngineBuilder = Engine::builder(store).wake(backend());
            builder.start().await.expect("a database of its own")
        };
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let node = engine().await;
            let worker = node.worker(Namespace::default(), Queue::default());
            let worker = worker.workflow(WORK, work).activity(DOUBLE, double).start();
            nodes.push((node, worker));
        }
        let caller = engine().await;
        becomes(&caller, Health::Healthy).await;
        Self {
            name,
            caller,
            _nodes: nodes,
            next: 0,
        }
    }

    async fn load(&mut self) -> u64 {
        let (from, client) = (self.next, client(&self.caller));
        self.next += RECORDS;
        for number in from..self.next {
            let started = client.start(WORK, id(&number.to_string()), &number).await;
            assert!(started.expect("the database is there").was_created);
        }
        from
    }

    async fn done(&self, from: u64) {
        for number in from..from + RECORDS {
            let handle = client(&self.caller).handle(WORK, id(&number.to_string()));
            let result = handle.result(SOON).await.expect("an answer");
            assert_eq!(result, Some(Ok(number * 4)));
        }
    }

    /// Work goes on while hints do not pass, and the engine says so.
    async fn through(&mut self, trouble: impl AsyncFnOnce()) {
        let before = self.load().await;
        trouble().await;
        let during = self.load().await;
        becomes(&self.caller, Health::Degraded).await;
        let check = hints(&self.caller).await;
        assert_eq!(
            (check.category, check.status),
            (Category::Acceleration, Status::Warning)
        );
        let through = format!("through {} for ", self.name);
        assert!(check.message.contains(&through), "{check:?}");
        assert!(self.caller.health().await.is_ready());
        self.done(before).await;
        self.done(during).await;
    }

    async fn recovers(&self) {
        becomes(&self.caller, Health::Healthy).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_in_trouble_cost_time_and_nothing_else() {
    let database = need!(PostgresDatabase::create().await);
    let proxy = FaultProxy::start(database.addr().await).await;
    let backend = || {
        let store = Postgres::connect(&database.url_at(proxy.port())).expect("a url");
        Notify::new(&store)
    };
    let mut fleet = Fleet::new("notify", &database, backend).await;

    // Out of reach: whatever is sent is swallowed, and no connection ends.
    fleet.through(async || proxy.hole()).await;
    proxy.heal().await;
    fleet.recovers().await;

    // Turned away.
    fleet
        .through(async || {
            proxy.refuse().await;
            proxy.cut().await;
        })
        .await;
    proxy.heal().await;
    fleet.recovers().await;

    // Broken off for a moment, and full of what is none of ours.
    for _ in 0..5 {
        let from = fleet.load().await;
        proxy.cut().await;
        database
            .execute("SELECT pg_notify('coord_engine', 'no hint'), pg_notify('coord_engine', '')")
            .await;
        fleet.done(from).await;
        assert!(hints(&fleet.caller).await.status <= Status::Warning);
    }
    fleet.recovers().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_trouble_costs_time_and_nothing_else() {
    let database = need!(PostgresDatabase::create().await);
    let backend = || Table::new(Postgres::connect(&database.url()).expect("a url"));
    let mut fleet = Fleet::new("table", &database, backend).await;

    // Gone.
    let rename = "ALTER TABLE workflow_wakes RENAME TO elsewhere";
    fleet.through(async || database.execute(rename).await).await;
    let back = "ALTER TABLE elsewhere RENAME TO workflow_wakes";
    database.execute(back).await;
    fleet.recovers().await;

    // Emptied, begun anew, and full of what is none of ours.
    for trouble in [
        "DELETE FROM workflow_wakes",
        "TRUNCATE workflow_wakes RESTART IDENTITY",
        "INSERT INTO workflow_wakes (message) SELECT 'no hint' FROM generate_series(1, 3000)",
    ] {
        let from = fleet.load().await;
        database.execute(trouble).await;
        fleet.done(from).await;
        assert!(hints(&fleet.caller).await.status <= Status::Warning);
        let from = fleet.load().await;
        fleet.done(from).await;
    }
    fleet.recovers().await;
}

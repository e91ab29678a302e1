//! A deployment that moves from one backend to the next, node by node, while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Event, EventKind, Failure, Namespace, Queue};
use coord_engine::wake::Health;
use coord_tests::Exit;
use coord_tests::need;
use coord_tests::process::NodeProcess;
use coord_tests::servers::{NatsServer, PostgresDatabase, RedisServer};
use tokio::sync::Mutex;

use super::{Environment, becomes, client, engine};
use crate::engine::nodes::AUDIT;
use crate::engine::{SOON, Stage, id};

/// What the nodes are told in turn: each shares a backend with the next one.
const WALK: [&str; 7] = [
    "database",
    "database,redis",
    "redis",
    "redis,pg-notify",
    "pg-notify",
    "pg-notify,nats",
    "nats",
];
/// How many nodes work at a time.
const NODES: usize = 3;
/// How long an activity takes.
const STEP: Duration = Duration::from_millis(10);
/// Between two starts, all the while.
const EVERY: Duration = Duration::from_millis(50);
/// After how long a process looks at the latest that relies on hints.
const FORCED_LOOK: Duration = Duration::from_secs(5);

/// What no hint of another process is needed for: how long it takes is how busy the machine is.
const CONTROL: Workflow<u64, u64> = Workflow::new("tests.control");

async fn control(_: Context, number: u64) -> Result<u64, Failure> {
    Ok(number)
}

fn control_queue() -> Queue {
    Queue::new("control").expect("a name")
}

/// The longest time between two facts of a history, on the clock of the database.
fn longest(history: &[Event]) -> Duration {
    let gaps = history.windows(2).map(|two| two[1].at.since(two[0].at));
    gaps.max().unwrap_or_default()
}

/// Starts workflows until it is told to stop, and says how many.
async fn load(current: Arc<Mutex<Client>>, beside: Client, is_over: Arc<AtomicBool>) -> u64 {
    let mut ticks = tokio::time::interval(EVERY);
    let mut next = 0;
    while !is_over.load(Ordering::SeqCst) {
        ticks.tick().await;
        let name = next.to_string();
        let started = current.lock().await.start(AUDIT, id(&name), &next).await;
        assert!(started.expect("the database is there").was_created);
        let started = beside
            .start(CONTROL, id(&format!("control-{name}")), &next)
            .await;
        assert!(started.expect("the database is there").was_created);
        next += 1;
    }
    next
}

/// Where everything is that the walk goes by.
struct Places {
    stage: Stage,
    database: PostgresDatabase,
    redis: RedisServer,
    nats: NatsServer,
}

impl Places {
    fn environment(&self, driver: &str) -> Environment {
        let pairs = [
            ("DATABASE_URL", self.database.url()),
            ("COORD_REDIS_URL", self.redis.url()),
            ("NATS_URL", self.nats.url()),
            ("CACHE_DRIVER", driver.to_owned()),
            ("DW_V2_MULTI_NODE", "true".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    async fn node(&self, driver: &str) -> NodeProcess {
        self.stage.node_in(STEP, &self.environment(driver)).await
    }

    async fn engine(&self, driver: &str) -> Engine {
        engine(&self.environment(driver)).await
    }
}

/// Lets a node finish what it has, and leave.
async fn retire(node: NodeProcess) {
    node.terminate();
    assert_eq!(
        node.wait(SOON).await,
        Some(Exit::Code(0)),
        "{:?}",
        node.stderr()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_from_backend_to_backend_loses_nothing_and_nothing_is_later_than_a_look() {
    let places = Places {
        stage: Stage::new(),
        database: need!(PostgresDatabase::create().await),
        redis: need!(RedisServer::start().await),
        nats: need!(NatsServer::start().await),
    };
    let mut caller = places.engine(WALK[0]).await;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(places.node(WALK[0]).await);
    }
    let beside = places.engine("none").await;
    let worker = beside.worker(Namespace::default(), control_queue());
    let _control = worker.workflow(CONTROL, control).start();
    let control = beside.client(Namespace::default(), control_queue());
    let current = Arc::new(Mutex::new(client(&caller)));
    let is_over = Arc::new(AtomicBool::new(false));
    let load = load(Arc::clone(&current), control.clone(), Arc::clone(&is_over));
    let load = tokio::spawn(load);

    // Nodes first and callers last, then the other way round.
    for (step, driver) in WALK.into_iter().enumerate().skip(1) {
        for turn in 0..=NODES {
            let is_caller = turn == if step % 2 == 0 { 0 } else { NODES };
            if is_caller {
                let next = places.engine(driver).await;
                becomes(&next, Health::Healthy).await;
                *current.lock().await = client(&next);
                let before = std::mem::replace(&mut caller, next);
                before.shutdown().await.expect("the database is there");
            } else {
                // One more for a while, as a deployment does it.
                nodes.push(places.node(driver).await);
                retire(nodes.remove(0)).await;
            }
        }
    }
    is_over.store(true, Ordering::SeqCst);
    let started = load.await.expect("it starts all of them");

    let (mut gaps, mut noise) = (Vec::new(), Duration::ZERO);
    let after = client(&caller);
    for record in 0..started {
        let name = record.to_string();
        let handle = after.handle(AUDIT, id(&name));
        let sum = handle.result(SOON).await.expect("an answer");
        assert_eq!(sum, Some(Ok(record * 4)), "record {record} is lost");
        let history = handle.history().await.expect("a history");
        let ends = history.iter().filter(|event| {
            let kind = &event.kind;
            matches!(
                kind,
                EventKind::ActivityCompleted(_) | EventKind::StepCompleted(_)
            )
        });
        assert_eq!(ends.count(), 4, "record {record}");
        gaps.push(longest(&history));
        let beside = control.handle(CONTROL, id(&format!("control-{name}")));
        assert_eq!(
            beside.result(SOON).await.expect("an answer"),
            Some(Ok(record))
        );
        noise = noise.max(longest(&beside.history().await.expect("a history")));
    }
    gaps.sort_unstable();
    let at = |part: usize| gaps[(gaps.len() - 1) * part / 100];
    println!(
        "{started} runs over {} backends: the longest wait of a run {:?} at the median, {:?} at 99 \
         of 100, {:?} at most; without other processes {noise:?} at most",
        WALK.len(),
        at(50),
        at(99),
        at(100)
    );
    let bound = FORCED_LOOK + STEP + 2 * noise.max(Duration::from_secs(1));
    assert!(at(100) <= bound, "{:?} is later than {bound:?}", at(100));
    assert!(at(50) < FORCED_LOOK / 2, "hints pass at all");
    // An activity may run again, which is why this prints how many did; each result is had once, as the
    // histories above say.
    let effects = places.stage.effects();
    assert_eq!(effects.len() as u64, started * 4);
    let again = effects.values().filter(|times| **times > 1).count();
    println!("{} effects, {again} of them again", effects.len());
}

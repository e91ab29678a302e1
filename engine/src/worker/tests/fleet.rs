//! Several processes on one store, in virtual time.

use super::*;
use crate::EngineBuilder;
use crate::model::NodeName;
use crate::store::{Role, Store};
use crate::wake::Table;

const SECOND: Duration = Duration::from_secs(1);
pub(super) const WORK: Workflow<u32, u32> = Workflow::new("tests.work");

async fn work(ctx: Context, number: u32) -> Result<u32, Failure> {
    ctx.activity(DOUBLE, &number).await
}

/// One process of several.
pub(super) struct Node {
    engine: Engine,
    pub(super) client: Client,
}

impl Node {
    async fn on(store: &Memory) -> Self {
        Self::with(store, |engine| engine).await
    }

    pub(super) async fn with(
        store: &Memory,
        be: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let engine = be(Engine::builder(store.clone())).start().await;
        let engine = engine.expect("a store in memory");
        let client = engine.client(namespace(), queue());
        Self { engine, client }
    }

    pub(super) fn worker(&self) -> WorkerBuilder {
        let worker = self.engine.worker(namespace(), queue());
        worker.workflow(WORK, work)
    }
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a name")
}

/// An activity whose first attempt never ends.
pub(super) fn hangs_once()
-> impl Fn(Attempt, u32) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, Failure>> + Send>>
+ Send
+ Sync
+ 'static {
    let begun = AtomicU32::new(0);
    move |_, number| {
        let is_first = begun.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok(number * 2)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_turns_are_stuck_keeps_no_run_from_going_on_elsewhere() {
    const STUCK: Workflow<(), ()> = Workflow::new("tests.stuck");
    const WAITS: Workflow<(), String> = Workflow::new("tests.waits");
    async fn stuck(ctx: Context, (): ()) -> Result<(), Failure> {
        let hung = ctx.step("hang", async || {
            std::future::pending::<Result<(), Failure>>().await
        });
        hung.await
    }
    async fn waits(ctx: Context, (): ()) -> Result<String, Failure> {
        ctx.signal(APPROVED).recv().await
    }
    let store = Memory::new();
    let (one, other) = (Node::on(&store).await, Node::on(&store).await);
    let slots = one.worker().turns(1).workflow(WAITS, waits);
    let _stuck = slots.workflow(STUCK, stuck).start();
    let waiting = one.client.start(WAITS, id("waits"), &()).await;
    let waiting = waiting.expect("started").handle;
    tokio::time::sleep(SECOND).await;
    // It is in the memory of that node, whose only slot goes to something else now.
    one.client
        .start(STUCK, id("stuck"), &())
        .await
        .expect("started");
    tokio::time::sleep(SECOND).await;
    let _free = other.worker().workflow(WAITS, waits).start();

    let signalled = waiting.signal(APPROVED, &"ann".to_owned()).await;

    signalled.expect("sent");
    let result = waiting.result(3 * SECOND).await.expect("an answer");
    assert_eq!(result, Some(Ok("ann".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn who_ends_its_last_worker_and_lives_on_no_longer_shows_that_it_drains() {
    async fn shows_draining(store: &Memory) -> bool {
        // Until its next sign of life is there.
        tokio::time::sleep(MINUTE / 2).await;
        let survey = store.survey().await.expect("an answer");
        let [node] = survey.nodes.as_slice() else {
            panic!("one node: {survey:?}");
        };
        node.is_draining
    }
    let store = Memory::new();
    let node = Node::on(&store).await;
    let worker = node.worker().activity(DOUBLE, hangs_once()).start();
    let started = node.client.start(WORK, id("a"), &4).await;
    started.expect("started");
    let before = shows_draining(&store).await;

    let (is_done, meanwhile) = tokio::join!(worker.shutdown(MINUTE), shows_draining(&store));
    let afterwards = shows_draining(&store).await;

    assert!(!is_done);
    assert_eq!((before, meanwhile, afterwards), (false, true, false));
}

#[tokio::test(start_paused = true)]
async fn what_the_one_who_recovers_does_not_know_is_taken_back_all_the_same() {
    let store = Memory::new();
    let dying = Node::on(&store).await;
    let worker = dying.worker().activity(DOUBLE, hangs_once());
    let worker = worker.lease(60 * MINUTE).start();
    dying
        .client
        .start(WORK, id("a"), &4)
        .await
        .expect("started");
    tokio::time::sleep(SECOND).await;
    drop((worker, dying));

    // It has no code at all.
    let leads = Node::on(&store).await;
    let handle = leads.client.handle(WORK, id("a"));
    tokio::time::sleep(MINUTE).await;

    let described = handle.describe().await.expect("an answer").expect("there");
    let tasks = described
        .tasks
        .iter()
        .map(|task| (task.status.as_str(), task.recoveries));
    assert_eq!(tasks.collect::<Vec<_>>(), [("ready", 1)]);
    let knows = Node::on(&store).await;
    let _worker = knows.worker().activity(DOUBLE, double).start();
    assert_eq!(
        handle.result(5 * SECOND).await.expect("an answer"),
        Some(Ok(8))
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_runs_for_many_leases_is_never_taken_back() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    async fn slow(_: Attempt, number: u32) -> Result<u32, Failure> {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(20 * 10 * SECOND).await;
        Ok(number * 2)
    }
    let store = Memory::new();
    let (leads, works) = (Node::on(&store).await, Node::on(&store).await);
    let worker = |node: &Node| {
        node.worker()
            .activity(DOUBLE, slow)
            .lease(10 * SECOND)
            .start()
    };
    let handle = works
        .client
        .start(WORK, id("a"), &4)
        .await
        .expect("started")
        .handle;
    let _works = worker(&works);
    tokio::time::sleep(SECOND).await;
    let _idles = worker(&leads);

    assert_eq!(
        handle.result(5 * MINUTE).await.expect("an answer"),
        Some(Ok(8))
    );

    assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn without_hints_a_request_to_end_reaches_an_activity_with_its_next_heartbeat() {
    static HEARD: AtomicU32 = AtomicU32::new(0);
    async fn beats(attempt: Attempt, number: u32) -> Result<u32, Failure> {
        loop {
            tokio::time::sleep(5 * SECOND).await;
            if let Err(failure) = attempt.heartbeat(&number).await {
                assert_eq!(failure.kind, Failure::CANCELLED);
                HEARD.fetch_add(1, Ordering::SeqCst);
                return Err(failure);
            }
        }
    }
    let store = Memory::new();
    let (works, asks) = (Node::on(&store).await, Node::on(&store).await);
    let _worker = works.worker().activity(DOUBLE, beats).start();
    works
        .client
        .start(WORK, id("a"), &4)
        .await
        .expect("started");
    tokio::time::sleep(MINUTE).await;
    let handle = asks.client.handle(WORK, id("a"));

    handle.cancel("enough").await.expect("asked");
    // A look for the request, and a heartbeat.
    tokio::time::sleep(7 * SECOND).await;

    assert_eq!(HEARD.load(Ordering::SeqCst), 1);
    assert!(handle.result(SECOND).await.expect("an answer").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_worker_claims_no_more_than_it_has_slots_for() {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    const FAN: Workflow<u32, u32> = Workflow::new("tests.fan");
    async fn fan(ctx: Context, count: u32) -> Result<u32, Failure> {
        let beat = 15 * SECOND;
        let calls = (0..count).map(|number| ctx.activity(DOUBLE, &number).heartbeat(beat));
        let results = join_all(calls).await;
        results.into_iter().sum()
    }
    // Ten of these take longer than any may be silent.
    async fn slow(attempt: Attempt, number: u32) -> Result<u32, Failure> {
        ATTEMPTS.fetch_add(attempt.number(), Ordering::SeqCst);
        tokio::time::sleep(10 * SECOND).await;
        Ok(number * 2)
    }
    let store = Memory::new();
    let node = Node::on(&store).await;
    let worker = node.worker().workflow(FAN, fan).activity(DOUBLE, slow);
    let _worker = worker.activities(1).start();

    let handle = node
        .client
        .start(FAN, id("a"), &10)
        .await
        .expect("started")
        .handle;

    assert_eq!(
        handle.result(3 * MINUTE).await.expect("an answer"),
        Some(Ok(90))
    );
    assert_eq!(
        ATTEMPTS.load(Ordering::SeqCst),
        10,
        "each of them is the first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_given_up_is_taken_at_once() {
    let store = Memory::new();
    let linked = |engine: EngineBuilder| engine.wake(Table::new(store.clone()));
    let first = Node::with(&store, linked).await;
    tokio::time::sleep(SECOND).await;
    let next = Node::with(&store, linked).await;
    let holder = async |role| {
        let roles = store.roles().await.expect("an answer");
        let is_held = roles.left(role).is_some_and(|left| !left.is_zero());
        roles
            .term(role)
            .filter(|_| is_held)
            .map(|term| term.holder.clone())
    };
    // Until the leader has just renewed its term.
    tokio::time::sleep(MINUTE).await;
    let (led, leads) = (first.engine.core().owner(), next.engine.core().owner());
    for role in [Role::Recovery, Role::Scheduler] {
        assert_eq!(holder(role).await, Some(led.clone()), "{role:?}");
    }

    let Node { engine, client } = first;
    drop(client);
    engine.shutdown().await.expect("a store in memory");
    // A hint through the table takes three seconds at most; what is left of a term may be eight.
    tokio::time::sleep(3 * SECOND + SECOND / 10).await;

    for role in [Role::Recovery, Role::Scheduler] {
        assert_eq!(holder(role).await, Some(leads.clone()), "{role:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_exclusive_node_had_goes_on_as_soon_as_it_is_back() {
    let store = Memory::new();
    let dying = Node::with(&store, |engine| engine.exclusive(node("shop-1"))).await;
    // Another one leads, and has no reason to think that somebody is gone.
    let _neighbour = Node::with(&store, |engine| engine.node(node("shop-2"))).await;
    let worker = dying.worker().activity(DOUBLE, hangs_once());
    let worker = worker.lease(60 * MINUTE).start();
    dying
        .client
        .start(WORK, id("a"), &4)
        .await
        .expect("started");
    tokio::time::sleep(SECOND).await;
    drop((worker, dying));

    let back = Node::with(&store, |engine| engine.exclusive(node("shop-1"))).await;
    let _worker = back.worker().activity(DOUBLE, double).start();

    let handle = back.client.handle(WORK, id("a"));
    assert_eq!(handle.result(SECOND).await.expect("an answer"), Some(Ok(8)));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_keeps_out_takes_nothing_back() {
    let store = Memory::new();
    let dying = Node::on(&store).await;
    let worker = dying.worker().activity(DOUBLE, hangs_once());
    let worker = worker.lease(60 * MINUTE).start();
    dying
        .client
        .start(WORK, id("a"), &4)
        .await
        .expect("started");
    tokio::time::sleep(SECOND).await;
    drop((worker, dying));

    let out = Node::with(&store, EngineBuilder::without_recovery).await;
    let _worker = out.worker().activity(DOUBLE, double).start();

    let handle = out.client.handle(WORK, id("a"));
    assert_eq!(handle.result(20 * MINUTE).await.expect("an answer"), None);
    let _in = Node::on(&store).await;
    assert_eq!(handle.result(MINUTE).await.expect("an answer"), Some(Ok(8)));
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_local_step_is_bounded_and_its_renewals_are_not() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    const STEPS: Workflow<(), u32> = Workflow::new("tests.steps");
    async fn steps(ctx: Context, (): ()) -> Result<u32, Failure> {
        let slow = ctx.step("slow", async || {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(2 * MINUTE).await;
            Ok::<_, Failure>(7)
        });
        slow.await
    }
    let store = Memory::new();
    let node = Node::with(&store, |engine| engine.local_lease(5 * SECOND)).await;
    let worker = || {
        node.worker()
            .workflow(STEPS, steps)
            .lease(60 * MINUTE)
            .start()
    };
    let first = worker();
    let handle = node
        .client
        .start(STEPS, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1, "it was renewed");

    // As its process lives on, only the lease says that nobody works on it.
    drop(first);
    let _second = worker();
    tokio::time::sleep(12 * SECOND).await;

    assert_eq!(BEGUN.load(Ordering::SeqCst), 2);
    assert_eq!(
        handle.result(3 * MINUTE).await.expect("an answer"),
        Some(Ok(7))
    );
    assert_eq!(BEGUN.load(Ordering::SeqCst), 2);
}

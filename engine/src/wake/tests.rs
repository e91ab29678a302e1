//! Hints, within a process and through a backend that lies.

mod counting;
mod liar;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{CALM_PROBE, Channel, Health, PROBE, Table, Wake};
use crate::Engine;
use crate::flow::{Activity, Context, Signal, Update, Workflow};
use crate::memory::Memory;
use crate::model::{Failure, Namespace, Queue, RequestId, RunId, TaskKind, WorkflowId};
use crate::worker::{Attempt, Worker};
use counting::Counting;
use liar::{Liar, Lie};

fn channel(name: &str) -> Channel {
    Channel::run(&RunId::new(name).expect("an id"))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(1)
}

#[tokio::test(start_paused = true)]
async fn a_hint_after_the_snapshot_ends_the_wait_at_once() {
    let wake = Wake::new(Vec::new(), None);
    let (snapshot, began) = (wake.snapshot(&[channel("a"), channel("b")]), Instant::now());

    wake.signal(&[channel("b")]);

    assert!(snapshot.changed());
    assert!(snapshot.wait(soon()).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_hint_before_the_snapshot_or_of_another_channel_is_none() {
    let wake = Wake::new(Vec::new(), None);
    wake.signal(&[channel("a")]);
    let snapshot = wake.snapshot(&[channel("a")]);

    wake.signal(&[channel("b")]);

    assert!(!snapshot.wait(soon()).await);
}

#[tokio::test(start_paused = true)]
async fn a_hint_during_the_wait_ends_it() {
    let wake = Wake::new(Vec::new(), None);
    let (snapshot, began) = (wake.snapshot(&[channel("a")]), Instant::now());
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        wake.signal(&[channel("a")]);
    };

    let (is_hint, ()) = tokio::join!(snapshot.wait(soon()), later);

    assert!(is_hint);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
}

#[tokio::test(start_paused = true)]
async fn channels_that_nobody_waits_on_leave_nothing() {
    let wake = Wake::new(Vec::new(), None);
    let (one, two) = (
        wake.snapshot(&[channel("a")]),
        wake.snapshot(&[channel("a")]),
    );
    drop(one);
    assert!(wake.hub.ring(&channel("a"), Instant::now()));

    drop(two);

    assert!(!wake.hub.ring(&channel("a"), Instant::now()));
    assert!(wake.hub.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_look_without_a_hint_comes_earlier_than_its_bound_and_never_later() {
    let wake = Wake::new(Vec::new(), None);
    for _ in 0..100 {
        let probe = wake.probe();
        assert!(probe <= PROBE && probe >= PROBE.mul_f64(0.8), "{probe:?}");
    }
}

const DOUBLE: Activity<u32, u32> = Activity::new("tests.double");
const WORK: Workflow<u32, u32> = Workflow::new("tests.work");
const MORE: Signal<u32> = Signal::new("more");
const ADD: Update<u32, u32> = Update::new("add");

async fn double(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number * 2)
}

/// Waits for news of each kind: an activity, a timer, an update and a signal.
async fn work(ctx: Context, number: u32) -> Result<u32, Failure> {
    let doubled = ctx.activity(DOUBLE, &number).await?;
    ctx.sleep(Duration::from_millis(100)).await?;
    let update = ctx.updates(ADD).recv().await?;
    let sum = doubled + update.input;
    update.complete(&sum);
    Ok(sum + ctx.signal(MORE).recv().await?)
}

/// Two processes on one database, and a backend between them: one has the client, one the worker.
struct Pair {
    caller: Engine,
    _worker: Worker,
    working: Engine,
}

impl Pair {
    async fn new(backend: Option<Liar>) -> Self {
        let store = Memory::new();
        let engine = async || {
            let mut builder = Engine::builder(store.clone());
            if let Some(backend) = &backend {
                builder = builder.wake(backend.another());
            }
            builder.start().await.expect("a store in memory")
        };
        let (caller, working) = (engine().await, engine().await);
        let worker = working.worker(Namespace::default(), Queue::default());
        let worker = worker.workflow(WORK, work).activity(DOUBLE, double).start();
        // All is calm: each poller has looked and waits, and each link was tried.
        tokio::time::sleep(2 * CALM_PROBE).await;
        Self {
            caller,
            _worker: worker,
            working,
        }
    }

    /// Lets a workflow live through news of each kind. How long that took.
    async fn live(&self, name: &str) -> Duration {
        let began = Instant::now();
        let client = self.caller.client(Namespace::default(), Queue::default());
        let id = WorkflowId::new(name).expect("an id");
        let handle = client.start(WORK, id, &20).await.expect("started").handle;
        let request = RequestId::new("r").expect("an id");
        let wait = Duration::from_mins(5);
        let answer = handle.update(ADD, &1, request, wait).await;
        assert_eq!(answer.expect("an answer"), Some(Ok(41)));
        handle.signal(MORE, &1).await.expect("sent");
        let result = handle.result(wait).await.expect("an answer");
        assert_eq!(result, Some(Ok(42)), "whatever becomes of hints");
        began.elapsed()
    }
}

/// How often a workflow of [`work`] waits for the other process: at its start, its update, the
/// answer to that, its signal and its end.
const HANDOVERS: u32 = 5;
/// What a workflow of [`work`] takes by itself.
const OWN: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn without_a_backend_news_of_others_takes_a_second_at_most() {
    let pair = Pair::new(None).await;
    assert_eq!(pair.caller.wake_health(), Health::Alone);

    for name in ["a", "b", "c"] {
        let took = pair.live(name).await;
        assert!(took <= HANDOVERS * PROBE + OWN, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn through_a_backend_news_of_others_takes_no_time() {
    let pair = Pair::new(Some(Liar::new(Lie::None))).await;
    assert_eq!(pair.caller.wake_health(), Health::Healthy);
    assert_eq!(pair.working.wake_health(), Health::Healthy);

    for name in ["a", "b", "c"] {
        let took = pair.live(name).await;
        assert!(took < PROBE / 2, "{took:?}");
    }
}

/// One that looks healthy, and lies: that costs what a look without a hint costs, and nothing else.
macro_rules! lies {
    ($($name:ident: $lie:expr;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let pair = Pair::new(Some(Liar::new($lie))).await;
            assert_eq!(pair.caller.wake_health(), Health::Healthy);

            for name in ["a", "b", "c"] {
                let took = pair.live(name).await;
                assert!(took <= HANDOVERS * CALM_PROBE + OWN, "{took:?}");
            }
        }
    )+};
}

lies! {
    hints_that_are_lost_cost_time_alone: Lie::Drops;
    hints_that_come_late_cost_time_alone: Lie::Delays(Duration::from_secs(3));
    hints_that_come_twice_cost_nothing: Lie::Doubles;
    hints_that_come_before_the_commit_cost_time_alone: Lie::TooEarly;
    hints_that_are_forgotten_before_they_are_read_cost_time_alone: Lie::Forgets;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_carries_nothing_back_is_found_out() {
    let liar = Liar::new(Lie::None);
    let pair = Pair::new(Some(liar.another())).await;
    assert_eq!(pair.caller.wake_health(), Health::Healthy);

    liar.becomes(Lie::Silent);

    tokio::time::sleep(2 * CALM_PROBE).await;
    assert_eq!(pair.caller.wake_health(), Health::Degraded);
    let took = pair.live("a").await;
    assert!(took <= HANDOVERS * PROBE + OWN, "{took:?}");
    liar.becomes(Lie::None);
    tokio::time::sleep(2 * CALM_PROBE).await;
    assert_eq!(pair.caller.wake_health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_is_left_alone_at_once() {
    let liar = Liar::new(Lie::None);
    let pair = Pair::new(Some(liar.another())).await;

    liar.becomes(Lie::Refuses);

    for name in ["a", "b"] {
        let took = pair.live(name).await;
        // The first hint finds it out; what waited for one looks then.
        assert!(
            took <= CALM_PROBE + (HANDOVERS - 1) * PROBE + OWN,
            "{took:?}"
        );
    }
    assert_eq!(pair.caller.wake_health(), Health::Degraded);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_is_given_up_and_used_again_when_it_works() {
    let liar = Liar::new(Lie::None);
    let pair = Pair::new(Some(liar.another())).await;

    liar.becomes(Lie::Hangs);

    for name in ["a", "b"] {
        let took = pair.live(name).await;
        assert!(
            took <= CALM_PROBE + (HANDOVERS - 1) * PROBE + OWN,
            "{took:?}"
        );
    }
    assert_eq!(pair.caller.wake_health(), Health::Degraded);
    liar.becomes(Lie::None);
    tokio::time::sleep(2 * CALM_PROBE).await;
    assert_eq!(pair.caller.wake_health(), Health::Healthy);
    let took = pair.live("c").await;
    assert!(took < PROBE / 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_move_from_one_backend_to_another_by_way_of_both_loses_no_hint() {
    let (old, new) = (Liar::new(Lie::None), Liar::new(Lie::None));
    let store = Memory::new();
    let engine = async |backends: &[&Liar]| {
        let builder = Engine::builder(store.clone());
        let builder = backends
            .iter()
            .fold(builder, |builder, backend| builder.wake(backend.another()));
        builder.start().await.expect("a store in memory")
    };
    for (step, (callers, workers)) in [
        (&[&old][..], &[&old][..]),
        (&[&old], &[&old, &new]),
        (&[&old, &new], &[&old, &new]),
        (&[&new], &[&old, &new]),
        (&[&new], &[&new]),
    ]
    .into_iter()
    .enumerate()
    {
        let (caller, working) = (engine(callers).await, engine(workers).await);
        let worker = working.worker(Namespace::default(), Queue::default());
        let worker = worker.workflow(WORK, work).activity(DOUBLE, double).start();
        tokio::time::sleep(2 * CALM_PROBE).await;
        let pair = Pair {
            caller,
            _worker: worker,
            working,
        };

        let took = pair.live(&step.to_string()).await;

        assert!(took < PROBE / 2, "step {step} took {took:?}");
        assert_eq!(pair.caller.wake_health(), Health::Healthy);
        assert_eq!(pair.working.wake_health(), Health::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn what_carries_no_hints_is_told_with_its_age() {
    let (dead, live) = (Liar::new(Lie::Refuses), Liar::new(Lie::None));
    let wake = Wake::new(vec![Arc::new(dead.another()), Arc::new(live)], None);
    tokio::time::sleep(2 * CALM_PROBE).await;

    let first = wake.passing();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let later = wake.passing();

    assert_eq!((first.lost.len(), later.lost.len()), (1, 1));
    assert_eq!(later.lost[0].1, first.lost[0].1 + Duration::from_mins(1));
    dead.becomes(Lie::None);
    tokio::time::sleep(2 * CALM_PROBE).await;
    assert_eq!(
        (wake.passing().lost.len(), wake.health()),
        (0, Health::Healthy)
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_backends_one_suffices() {
    let (dead, live) = (Liar::new(Lie::Refuses), Liar::new(Lie::None));
    let engine = |store: &Memory| {
        let builder = Engine::builder(store.clone());
        builder.wake(dead.another()).wake(live.another()).start()
    };
    let store = Memory::new();
    let caller = engine(&store).await.expect("a store in memory");
    let working = engine(&store).await.expect("a store in memory");
    let worker = working.worker(Namespace::default(), Queue::default());
    let worker = worker.workflow(WORK, work).activity(DOUBLE, double).start();
    tokio::time::sleep(2 * CALM_PROBE).await;
    let pair = Pair {
        caller,
        _worker: worker,
        working,
    };

    let took = pair.live("a").await;

    assert!(took < PROBE / 2, "{took:?}");
    assert_eq!(pair.working.wake_health(), Health::Degraded);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_hints_is_few_messages() {
    let liar = Liar::new(Lie::None);
    let wake = Wake::new(vec![Arc::new(liar.another())], None);
    tokio::time::sleep(CALM_PROBE).await;
    let (before, began) = (liar.sent(), Instant::now());

    for round in 0..50 {
        for number in 0..20 {
            wake.signal(&[channel(&format!("{round}-{number}"))]);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;

    let (sent, took) = (liar.sent() - before, began.elapsed());
    assert!(
        sent as u128 <= took.as_millis() / 5 + 1,
        "{sent} in {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_message_is_longer_than_a_backend_takes_and_none_is_forgotten() {
    let liar = Liar::new(Lie::None);
    let (here, there) = (
        Wake::new(vec![Arc::new(liar.another())], None),
        Wake::new(vec![Arc::new(liar.another())], None),
    );
    tokio::time::sleep(CALM_PROBE).await;
    let long = |number: usize| {
        let namespace = Namespace::new("n".repeat(250)).expect("a name");
        let queue = Queue::new(format!("{number}{}", "q".repeat(240))).expect("a name");
        Channel::tasks(TaskKind::Workflow, &namespace, &queue)
    };
    for many in [100, 5000] {
        let channels: Vec<_> = (0..many).map(long).collect();
        let snapshots = channels.iter().map(std::slice::from_ref);
        let snapshots: Vec<_> = snapshots.map(|one| there.snapshot(one)).collect();

        here.signal(&channels);

        for snapshot in snapshots {
            assert!(snapshot.wait(soon()).await);
        }
        assert!(liar.longest() <= 7000, "{}", liar.longest());
    }
}

/// What carries hints between the nodes.
#[derive(Clone, Copy, Debug)]
enum Hinted {
    Nothing,
    Backend,
    Table,
}

/// Calls a second of two idle nodes on one database, the leader first, with a thousand runs that
/// wait.
async fn idle_cost(hints: Hinted) -> (f64, f64) {
    let (store, liar) = (Memory::new(), Liar::new(Lie::None));
    let stores = [Counting::on(&store), Counting::on(&store)];
    let (mut engines, mut workers) = (Vec::new(), Vec::new());
    for counting in &stores {
        let builder = Engine::builder(counting.clone());
        let builder = match hints {
            Hinted::Nothing => builder,
            Hinted::Backend => builder.wake(liar.another()),
            Hinted::Table => builder.wake(Table::new(counting.clone())),
        };
        let engine = builder.start().await.expect("a store in memory");
        let worker = engine.worker(Namespace::default(), Queue::default());
        workers.push(worker.workflow(WORK, work).activity(DOUBLE, double).start());
        engines.push(engine);
        // The first one leads.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let client = engines[1].client(Namespace::default(), Queue::default());
    for number in 0..1000 {
        let id = WorkflowId::new(format!("parked-{number}")).expect("an id");
        client.start(WORK, id, &1).await.expect("started");
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = stores.each_ref().map(Counting::calls);
    let span = Duration::from_secs(1000);
    tokio::time::sleep(span).await;
    let [one, two] = [0, 1].map(|node| stores[node].calls() - before[node]);
    let a_second = |calls: u32| f64::from(calls) / span.as_secs_f64();
    (a_second(one), a_second(two))
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_asks_the_database_less_than_twice_a_second() {
    for hints in [Hinted::Nothing, Hinted::Backend, Hinted::Table] {
        let (leader, other) = idle_cost(hints).await;

        println!("hints by {hints:?}: leader {leader:.2}, other {other:.2} calls a second");
        assert!(other <= 2.0, "{other}");
        assert!(leader <= 4.0, "{leader}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_who_wait_ask_the_database_no_more_often_than_one() {
    let node = Counting::on(&Memory::new());
    let engine = Engine::builder(node.clone())
        .without_recovery()
        .start()
        .await;
    let engine = engine.expect("a store in memory");
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = |number: u32| {
        let id = WorkflowId::new(format!("waits-{number}")).expect("an id");
        client.handle(WORK, id)
    };
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let id = WorkflowId::new(format!("waits-{number}")).expect("an id");
        client.start(WORK, id, &1).await.expect("started");
        let handle = handle(number);
        waiting.spawn(async move { handle.result(Duration::from_mins(30)).await });
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = node.calls();
    let span = Duration::from_secs(1000);
    tokio::time::sleep(span).await;

    let a_second = f64::from(node.calls() - before) / span.as_secs_f64();

    println!("a thousand waiting: {a_second:.2} calls a second");
    assert!(a_second <= 4.0, "{a_second}");
}

#[tokio::test(start_paused = true)]
async fn of_a_fleet_that_starts_at_once_one_looks_for_what_was_left() {
    let store = Memory::new();
    let nodes: Vec<_> = (0..5).map(|_| Counting::on(&store)).collect();
    let mut engines = Vec::new();
    for node in &nodes {
        let engine = Engine::start(node.clone()).await;
        engines.push(engine.expect("a store in memory"));
    }

    tokio::time::sleep(Duration::from_millis(100)).await;
    let at_boot: u32 = nodes.iter().map(Counting::sweeps).sum();
    tokio::time::sleep(Duration::from_mins(10)).await;

    let look = nodes.iter().filter(|node| node.sweeps() > 0).count();
    println!("a fleet of five: {at_boot} scan at boot, by {look} of them later");
    assert_eq!((at_boot, look), (1, 1));
}

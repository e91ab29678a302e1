//! Who comes at the same instant as somebody else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{Failure, Queue, TaskKind, WorkflowId};
use coord_engine::store::{Start, Store, Write};
use coord_engine::worker::Attempt;

use crate::stage::{Stage, namespace, queue};

/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(2);

/// Whoever finds nothing goes to sleep, so he must not find nothing because another one was faster.
pub(crate) async fn a_claim_finds_nothing_only_when_there_is_nothing_left(stage: Stage) {
    const RUNS: usize = 400;
    const AT_ONCE: u32 = 5;
    for batch in 0..4 {
        let start = |number: usize| {
            let name = format!("w{batch}-{number}");
            let start = Start {
                queue: queue("q"),
                ..stage.new_run(&name)
            };
            Write::Start(Box::new(start))
        };
        stage.batch((0..RUNS / 4).map(start)).await;
    }
    let claimed = AtomicUsize::new(0);
    let (claimed, claim) = (&claimed, &stage.claim_of(TaskKind::Workflow, "q", AT_ONCE));
    let fetch = async |store: &dyn Store| {
        loop {
            let tasks = store.claim(claim).await.expect("an answer").tasks.len();
            if tasks == 0 {
                break;
            }
            claimed.fetch_add(tasks, Ordering::SeqCst);
        }
        // The other three may have as many in their hands and not have said so.
        let seen = claimed.load(Ordering::SeqCst);
        assert!(seen + 3 * AT_ONCE as usize >= RUNS, "{seen} of {RUNS}");
    };

    tokio::join!(
        fetch(&*stage.store),
        fetch(&*stage.other),
        fetch(&*stage.store),
        fetch(&*stage.other),
    );

    assert_eq!(claimed.load(Ordering::SeqCst), RUNS);
}

/// One queue that is full keeps nobody from another one.
pub(crate) async fn a_hot_queue_starves_no_cold_one(stage: Stage) {
    let start = |queue: Queue, name: String| {
        let start = Start {
            queue,
            ..stage.new_run(&name)
        };
        Write::Start(Box::new(start))
    };
    stage
        .batch((0..500).map(|number| start(queue("hot"), format!("hot-{number}"))))
        .await;
    let cold = |number: usize| format!("cold-{number}");
    stage
        .batch((0..50).map(|number| start(queue(&cold(number)), cold(number))))
        .await;

    let hot = stage
        .claim(&stage.claim_of(TaskKind::Workflow, "hot", 100))
        .await;

    assert_eq!(hot.tasks.len(), 100);
    for number in 0..50 {
        let claim = stage.claim_of(TaskKind::Workflow, &cold(number), 100);
        assert_eq!(stage.claim(&claim).await.tasks.len(), 1, "{}", cold(number));
    }
}

const ECHO: Workflow<u32, u32> = Workflow::new("tests.echo");
const CALLER: Workflow<u32, u32> = Workflow::new("tests.caller");
const CALL: Activity<u32, u32> = Activity::new("tests.call");
const NEWS: Signal<u32> = Signal::new("news");
const GATHER: Workflow<u32, Vec<u32>> = Workflow::new("tests.gather");

/// An activity that held a connection or a transaction while it runs would keep those that it starts
/// from ever getting one.
pub(crate) async fn all_activities_at_once_may_start_workflows_and_wait_for_them(stage: Stage) {
    const AT_ONCE: u32 = 64;
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let own = client.clone();
    let call = move |_: Attempt, number: u32| {
        let client = own.clone();
        async move {
            let id = WorkflowId::new(format!("called-{number}"))?;
            let called = client.start(ECHO, id, &number).or_existing().await?;
            let result = called.handle.result(SOON).await?;
            result.ok_or_else(|| Failure::new("it goes on"))?
        }
    };
    let worker = engine
        .worker(namespace(), Queue::default())
        .activities(AT_ONCE);
    let worker = worker
        .workflow(ECHO, async |_: Context, number: u32| {
            Ok::<_, Failure>(number)
        })
        .workflow(CALLER, async |ctx: Context, number: u32| {
            ctx.activity(CALL, &number).await
        })
        .activity(CALL, call)
        .start();
    let starts = (0..AT_ONCE).map(|number| {
        let id = WorkflowId::new(format!("caller-{number}")).expect("an id");
        client.start(CALLER, id, &number)
    });

    let started = client.start_batch(starts).await.expect("an answer to each");

    for (number, started) in (0..).zip(started) {
        let handle = started.expect("started").handle;
        let result = handle.result(SOON).await.expect("an answer");
        assert_eq!(result, Some(Ok(number)));
    }
    assert!(worker.shutdown(SOON).await);
}

/// Signals that come in the very moment in which somebody begins to wait for them.
pub(crate) async fn signals_that_meet_their_waits_all_arrive_in_order(stage: Stage) {
    const SENDERS: u32 = 4;
    const EACH: u32 = 50;
    async fn gather(ctx: Context, count: u32) -> Result<Vec<u32>, Failure> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(ctx.signal(NEWS).recv().await?);
        }
        Ok(all)
    }
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(GATHER, gather).start();
    let id = WorkflowId::new("g").expect("an id");
    let started = client.start(GATHER, id, &(SENDERS * EACH)).await;
    let handle = &started.expect("started").handle;
    let send = async |sender: u32| {
        for number in 0..EACH {
            let signal = handle.signal(NEWS, &(sender * 1000 + number));
            signal.await.expect("sent");
        }
    };

    tokio::join!(send(0), send(1), send(2), send(3));

    let all = handle.result(SOON).await.expect("an answer");
    let all = all.expect("in time").expect("its output");
    for sender in 0..SENDERS {
        let own = all.iter().filter(|it| *it / 1000 == sender);
        let own: Vec<_> = own.map(|it| it % 1000).collect();
        assert_eq!(own, (0..EACH).collect::<Vec<_>>(), "of sender {sender}");
    }
    assert!(worker.shutdown(SOON).await);
}

//! What nobody means to write, and some service writes all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use coord_engine::Limits;
use coord_engine::flow::{Activity, Context, Workflow, join_all};
use coord_engine::model::{Failure, Queue, Retry, RunId, TaskKind, WorkflowId};
use coord_engine::store::{Claim, ClaimedTask, Outcome, Target, Then, Turn, Write};
use coord_engine::worker::Attempt;

use crate::stage::{Stage, closing, completed, namespace, record, turn};

const FAIL: Activity<u32, ()> = Activity::new("tests.fail");
const CALL: Workflow<u32, String> = Workflow::new("tests.call");
const LENGTH_OF: Workflow<String, usize> = Workflow::new("tests.length_of");
const PANIC: Workflow<u32, ()> = Workflow::new("tests.panic");
/// Below the lease, so that what only the end of a lease mends is not mended in time.
const SOON: Duration = Duration::from_secs(30);

/// A message that a database may not take: a zero character, and more than a packet holds.
fn message(case: u32) -> String {
    match case {
        0 => "before\0after".to_owned(),
        1 => "long ".repeat(5_000_000),
        _ => "'; DROP TABLE workflow_runs; -- \\ \u{1F980} \u{FFFF}".to_owned(),
    }
}

async fn fail(_: Attempt, case: u32) -> Result<(), Failure> {
    Err(Failure::new(message(case)))
}

/// Fails as its activity did.
async fn call(ctx: Context, case: u32) -> Result<String, Failure> {
    let retry = Retry {
        initial: Duration::from_millis(1),
        ..Retry::exponential(2)
    };
    let failed = ctx.activity(FAIL, &case).retry(retry).await;
    Err(failed.expect_err("it always fails"))
}

const LENGTH: Activity<String, usize> = Activity::new("tests.length");
const WIDE: Workflow<u32, usize> = Workflow::new("tests.wide");
const LARGE: usize = 2 * 1024 * 1024 - 2;

async fn length(_: Attempt, text: String) -> Result<usize, Failure> {
    Ok(text.len())
}

/// Hands out as many of the largest values at once.
async fn wide(ctx: Context, count: u32) -> Result<usize, Failure> {
    let text = "x".repeat(LARGE);
    let lengths = join_all((0..count).map(|_| ctx.activity(LENGTH, &text))).await;
    lengths.into_iter().sum()
}

async fn panic(_: Context, case: u32) -> Result<(), Failure> {
    panic!("{}", message(case));
}

pub(crate) async fn a_failure_is_passed_on_whatever_it_says(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(CALL, call).activity(FAIL, fail).start();

    for case in 0..3 {
        let id = WorkflowId::new(format!("call-{case}")).expect("an id");
        let started = client.start(CALL, id, &case).await.expect("started");
        let result = started.handle.result(SOON).await.expect("an answer");

        let failure = result.expect("in time").expect_err("a failure");
        let said: String = message(case).chars().take(6).collect();
        assert!(failure.message.starts_with(&said), "case {case}");
    }
    worker.shutdown(SOON).await;
}

pub(crate) async fn a_turn_that_panics_says_so_whatever_it_says(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(PANIC, panic).start();

    for case in [0, 2] {
        let id = WorkflowId::new(format!("panic-{case}")).expect("an id");
        let started = client.start(PANIC, id, &case).await.expect("started");
        let said = ["before", "", "'; DRO"][case as usize];
        let until = tokio::time::Instant::now() + SOON;
        loop {
            let described = started.handle.describe().await.expect("an answer");
            let tasks = described.expect("a run").tasks;
            let error = tasks.first().and_then(|task| task.last_error.clone());
            if error.is_some_and(|error| error.contains(said)) {
                break;
            }
            assert!(
                tokio::time::Instant::now() < until,
                "case {case}: {tasks:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    worker.shutdown(SOON).await;
}

pub(crate) async fn many_of_the_largest_values_go_in_one_turn(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(WIDE, wide).activity(LENGTH, length).start();

    let id = WorkflowId::new("wide").expect("an id");
    let started = client.start(WIDE, id, &6).await.expect("started");
    let result = started.handle.result(SOON).await.expect("an answer");

    assert_eq!(
        result,
        Some(Ok(6 * LARGE)),
        "{:?}",
        started.handle.describe().await
    );
    worker.shutdown(SOON).await;
}

pub(crate) async fn many_of_the_largest_values_are_sent_at_once(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker
        .workflow(LENGTH_OF, async |_: Context, text: String| {
            Ok::<_, Failure>(text.len())
        })
        .start();
    let text = "x".repeat(LARGE);

    let starts = (0..6).map(|number| {
        let id = WorkflowId::new(format!("large-{number}")).expect("an id");
        let (client, text) = (client.clone(), &text);
        async move {
            client
                .start(LENGTH_OF, id, text)
                .await
                .expect("started")
                .handle
        }
    });
    let handles = crate::writes::join_all(starts.collect()).await;

    for handle in handles {
        let result = handle.result(SOON).await.expect("an answer");
        assert_eq!(result, Some(Ok(LARGE)));
    }
    worker.shutdown(SOON).await;
}

const GROW: Activity<usize, String> = Activity::new("tests.grow");
const GROWN: Workflow<usize, usize> = Workflow::new("tests.grown");

/// Without limits of the engine only the database refuses a value, and it may refuse it by ending
/// the connection.
pub(crate) async fn a_result_that_the_database_refuses_fails_its_attempt_once(stage: Stage) {
    let refused = stage.database.refuses().await;
    let engine = stage.database.builder().limits(Limits::NONE).start().await;
    let engine = engine.expect("it starts");
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let grow = move |_: Attempt, length: usize| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, Failure>("x".repeat(length)) }
    };
    let grown = async |ctx: Context, length: usize| {
        let once = Retry::exponential(1);
        Ok::<_, Failure>(ctx.activity(GROW, &length).retry(once).await?.len())
    };
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(GROWN, grown).activity(GROW, grow).start();

    let client = engine.client(namespace(), Queue::default());
    let id = WorkflowId::new("grown").expect("an id");
    let length = refused.unwrap_or(1_000_000);
    let started = client.start(GROWN, id, &length).await.expect("started");
    let result = started.handle.result(SOON).await.expect("an answer");

    match (refused, result.expect("it has ended")) {
        (None, ended) => assert_eq!(ended, Ok(length)),
        (Some(_), ended) => {
            let failure = ended.expect_err("refused");
            let says_so = |failure: &Failure| failure.to_string().contains("max_allowed_packet");
            assert!(says_so(&failure), "{failure}");
        }
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    worker.shutdown(SOON).await;
}

/// `future`, dropped when it is not ready after so many polls.
async fn dropped_after<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let (mut future, mut left) = (Box::pin(future), polls);
    std::future::poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// How often a call is dropped, each time one poll later.
const POLLS: u32 = 40;

pub(crate) async fn a_call_that_is_dropped_anywhere_happened_whole_or_not_at_all(stage: Stage) {
    for polls in 0..POLLS {
        // Alone, and beside a write that has it decided row by row.
        for beside in [false, true] {
            let name = format!("w{polls}-{beside}");
            let start = stage.new_run(&name);
            let (run, nobody) = (start.run.clone(), Target::Run(stage.ids.run()));
            let mut writes = vec![Write::Start(Box::new(start.clone()))];
            writes.extend(beside.then_some(Write::Resume(nobody.clone())));
            _ = dropped_after(stage.store.apply(&writes), polls).await;

            let created = Outcome::Started {
                run: run.clone(),
                created: true,
            };
            assert_eq!(stage.apply(start).await, created, "{name}");
            assert_eq!(stage.load(&run).await.events.len(), 1, "{name}");

            let claim = stage.claim_of(TaskKind::Workflow, &name, 1);
            let dropped = dropped_after(stage.store.claim(&claim), polls).await;
            let task = match dropped {
                Some(claimed) => claimed.expect("an answer").tasks.pop(),
                None => claim_unless_taken(&stage, &claim, &run).await,
            };
            let Some(task) = task else {
                // The claim that was dropped has it.
                let open = &stage.describe(&run).await.tasks[0];
                assert_eq!(open.status, "leased", "{name}");
                continue;
            };
            let end = Turn {
                records: vec![record("Completed", 2)],
                then: Then::Close(Box::new(closing(completed()))),
                ..turn(&task)
            };
            let mut writes = vec![Write::Turn(Box::new(end.clone()))];
            writes.extend(beside.then_some(Write::Resume(nobody)));
            _ = dropped_after(stage.store.apply(&writes), polls).await;

            let again = stage.apply(end).await;
            let is_known = matches!(again, Outcome::Done { .. } | Outcome::Lost);
            assert!(is_known, "{name}: {again:?}");
            assert_eq!(stage.load(&run).await.events.len(), 2, "{name}");
            assert!(stage.describe(&run).await.tasks.is_empty(), "{name}");
        }
    }
}

/// The task of `run`, unless a claim that was dropped has it. While that one is being undone, others
/// pass by what it has locked.
async fn claim_unless_taken(stage: &Stage, claim: &Claim, run: &RunId) -> Option<ClaimedTask> {
    let claiming = async {
        loop {
            if let Some(task) = stage.claim(claim).await.tasks.pop() {
                return Some(task);
            }
            if stage.describe(run).await.tasks[0].status == "leased" {
                return None;
            }
        }
    };
    let claimed = tokio::time::timeout(SOON, claiming).await;
    claimed.expect("what was dropped is undone")
}

//! Definitions: who goes on with runs that began with which code, on every dialect.

use std::time::Duration;

use coord_engine::client::Handle;
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::health::Status;
use coord_engine::model::{
    Due, Failure, Fingerprint, Queue, TaskKind, Timeouts, TypeName, WorkflowId,
};
use coord_engine::store::{Claim, Then, Turn};
use coord_engine::worker::{Attempt, Worker};
use coord_engine::{Engine, Refusal};

use crate::stage::{LONG, Stage, TYPE, activity, namespace, record, turn};

const WORK: Workflow<(), u32> = Workflow::new("tests.defined");
const ADD: Activity<u32, u32> = Activity::new("tests.add");
const GO: Signal<()> = Signal::new("go");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

fn of(definition: &str) -> Fingerprint {
    let name = TypeName::new(TYPE).expect("a name");
    Fingerprint::of(&name, definition).expect("a fingerprint")
}

pub(crate) async fn a_claim_leaves_runs_that_began_with_other_code(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let began = |definition: &str, task| Turn {
        fingerprint: Some(of(definition)),
        then: Then::Wait {
            due: Some(Due::Now),
            wait: None,
        },
        ..turn(task)
    };
    let first = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![activity(1, "w")],
        ..began("one", &task)
    };
    stage.apply(first).await;
    let claim = |kind, known: Option<&[&str]>| Claim {
        fingerprints: known.map(|known| known.iter().map(|it| of(it)).collect()),
        ..stage.claim_of(kind, "w", 1)
    };
    let count = async |claim: Claim| stage.claim(&claim).await.tasks.len();

    for known in [&[][..], &["two"], &["on", "ONE"]] {
        let claim = claim(TaskKind::Workflow, Some(known));
        assert_eq!(count(claim.clone()).await, 0, "{known:?}");
        let only = Some(vec![task.task.id.clone()]);
        assert_eq!(count(Claim { only, ..claim }).await, 0, "{known:?}");
    }
    let described = stage.describe(&run).await;
    assert_eq!(described.run.fingerprint, Some(of("one")));
    let found = stage.store.backlogs().await.expect("an answer").backlogs;
    let marks: Vec<_> = found.iter().map(|it| it.fingerprint.clone()).collect();
    assert!(marks.contains(&Some(of("one"))), "{marks:?}");
    // What it does elsewhere is anybody's.
    assert_eq!(count(claim(TaskKind::Activity, Some(&["two"]))).await, 1);
    let claimed = stage
        .claim(&claim(TaskKind::Workflow, Some(&["two", "one"])))
        .await;
    let again = claimed.tasks.first().expect("a due task");
    let later = Turn {
        history_length: 2,
        ..began("two", again)
    };
    stage.apply(later).await;
    let described = stage.describe(&run).await;
    assert_eq!(
        described.run.fingerprint,
        Some(of("one")),
        "the first stays"
    );
    assert_eq!(count(claim(TaskKind::Workflow, None)).await, 1);
    // A run of which nothing is recorded is anybody's.
    stage
        .start_with_activity("plain", Timeouts::default())
        .await;
    stage.start("fresh").await;
    let fresh = Claim {
        fingerprints: Some(Vec::new()),
        ttl: LONG,
        ..stage.claim_of(TaskKind::Workflow, "fresh", 1)
    };
    assert_eq!(count(fresh).await, 1);
}

async fn work(ctx: Context, (): ()) -> Result<u32, Failure> {
    let one = ctx.activity(ADD, &1).await?;
    ctx.signal(GO).recv().await?;
    ctx.activity(ADD, &one).await
}

async fn add(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number + 1)
}

fn worker(engine: &Engine, definition: &str) -> Worker {
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(WORK, work).activity(ADD, add);
    worker.definition(WORK, definition).start()
}

async fn until(about: &str, mut is: impl AsyncFnMut() -> bool) {
    let waits = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, waits).await;
    waited.unwrap_or_else(|_| panic!("{about}"));
}

async fn refusal(handle: &Handle<u32>) -> Option<Refusal> {
    let explained = handle.explain().await.expect("an answer");
    explained.expect("a run").refusal
}

pub(crate) async fn a_run_stays_with_the_definition_with_which_it_began(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let first = worker(&engine, "one");
    let id = |name: &str| WorkflowId::new(name).expect("an id");
    let started = client.start(WORK, id("a"), &()).await.expect("started");
    let handle = started.handle;
    until("it is recorded", async || {
        let described = handle.describe().await.expect("an answer").expect("a run");
        let fingerprint = described.run.fingerprint;
        let is_there = fingerprint.is_some_and(|it| it.as_str() == "tests.defined@one");
        is_there && described.tasks.is_empty()
    })
    .await;
    let second = worker(&engine, "two");
    until("both are seen", async || {
        let report = engine.health().await;
        let check = report.check("definition_fingerprints").expect("looked at");
        let differs = "tests.defined (one, two)";
        check.status == Status::Info && check.message.contains(differs)
    })
    .await;
    assert!(first.shutdown(SOON).await);
    until("one is seen", async || {
        let report = engine.health().await;
        let check = report.check("definition_fingerprints").expect("looked at");
        check.status == Status::Ok
    })
    .await;

    handle.signal(GO, &()).await.expect("sent");

    until("it is left alone", async || {
        refusal(&handle).await == Some(Refusal::FingerprintDiffers)
    })
    .await;
    let refused = engine.refusals().await.expect("an answer");
    assert_eq!(refused.total(Refusal::FingerprintDiffers).count, 1);
    let fresh = client.start(WORK, id("b"), &()).await.expect("started");
    fresh.handle.signal(GO, &()).await.expect("sent");
    let ended = fresh.handle.result(SOON).await.expect("an answer");
    assert_eq!(
        ended,
        Some(Ok(3)),
        "what begins with the second goes on there"
    );
    let described = handle.describe().await.expect("an answer").expect("a run");
    assert!(described.tasks.iter().all(|task| task.attempt == 0));
    let third = worker(&engine, "one");
    let ended = handle.result(SOON).await.expect("an answer");
    assert_eq!(ended, Some(Ok(3)));
    // An engine that does not pin takes whatever there is.
    let left = client.start(WORK, id("c"), &()).await.expect("started");
    until("it waits", async || {
        let described = left.handle.describe().await.expect("an answer");
        let described = described.expect("a run");
        described.run.fingerprint.is_some() && described.tasks.is_empty()
    })
    .await;
    for worker in [second, third] {
        assert!(worker.shutdown(SOON).await);
    }
    left.handle.signal(GO, &()).await.expect("sent");
    let free = stage.database.builder().without_pins().start().await;
    let _free = worker(&free.expect("it starts"), "three");
    let ended = left.handle.result(SOON).await.expect("an answer");
    assert_eq!(ended, Some(Ok(3)));
}

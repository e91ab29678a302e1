//! What is wrong and why a run does not move, on every dialect.

use std::future::pending;
use std::time::Duration;

use coord_engine::client::{Client, Handle};
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::health::{Category, Explanation, Liveness, Status};
use coord_engine::model::{Due, Failure, Queue, Retry, TaskKind, Timeouts, WorkflowId};
use coord_engine::store::{BlockedReason, PutBack, PutBackHow, Start, Tally, Write};
use coord_engine::worker::{Attempt, Worker};
use coord_engine::{Engine, Recovery, store::Outcome};

use crate::stage::{Stage, held, namespace};

const STAND: Workflow<Standing, u32> = Workflow::new("tests.stand");
const CHILD: Workflow<(), u32> = Workflow::new("tests.child");
const STUCK: Activity<(), ()> = Activity::new("tests.stuck");
const BROKEN: Activity<(), ()> = Activity::new("tests.broken");
const UNKNOWN: Activity<(), ()> = Activity::new("tests.unknown");
const GO: Signal<()> = Signal::new("go");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// How a run comes to stand.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
enum Standing {
    Signal,
    Timer,
    Condition,
    Child,
    Stuck,
    Broken,
    Unknown,
    Step,
    Panic,
    End,
}

async fn stand(ctx: Context, how: Standing) -> Result<u32, Failure> {
    match how {
        Standing::Signal => ctx.signal(GO).recv().await?,
        Standing::Timer => ctx.sleep(HOUR).await?,
        Standing::Condition => ctx.wait_until("enough", || false).await?,
        Standing::Child => {
            ctx.child(CHILD, &()).await?;
        }
        Standing::Stuck => ctx.activity(STUCK, &()).await?,
        Standing::Broken => {
            let retry = Retry {
                initial: HOUR,
                ..Retry::exponential(3)
            };
            ctx.activity(BROKEN, &()).retry(retry).await?;
        }
        Standing::Unknown => ctx.activity(UNKNOWN, &()).await?,
        Standing::Step => {
            let never = || async { pending::<Result<(), Failure>>().await };
            ctx.step("never", never).await?;
        }
        Standing::Panic => panic!("on purpose"),
        Standing::End => {}
    }
    Ok(0)
}

/// The next version of [`stand`], which goes another way.
async fn another(ctx: Context, _: Standing) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await?;
    Ok(0)
}

async fn child(ctx: Context, (): ()) -> Result<u32, Failure> {
    ctx.signal(GO).recv().await?;
    Ok(0)
}

async fn stuck(_: Attempt, (): ()) -> Result<(), Failure> {
    pending().await
}

async fn broken(_: Attempt, (): ()) -> Result<(), Failure> {
    Err(Failure::new("the shop is closed"))
}

fn client(engine: &Engine) -> Client {
    engine.client(namespace(), Queue::default())
}

fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(namespace(), Queue::default());
    worker
        .workflow(STAND, stand)
        .workflow(CHILD, child)
        .activity(STUCK, stuck)
        .activity(BROKEN, broken)
        .start()
}

async fn started(engine: &Engine, how: Standing) -> Handle<u32> {
    let id = WorkflowId::new(format!("{how:?}")).expect("an id");
    let started = client(engine).start(STAND, id, &how).await;
    started.expect("started").handle
}

/// What is said of it once it stands so.
async fn explained<O>(handle: &Handle<O>, state: Liveness) -> Explanation {
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let explained = handle.explain().await.expect("an answer").expect("a run");
        if explained.state == state {
            assert!(!explained.message.is_empty() && !explained.action.is_empty());
            return explained;
        }
        let is_over = tokio::time::Instant::now() >= until;
        assert!(!is_over, "never {state:?}, but {explained:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn a_run_says_why_it_does_not_move(stage: Stage) {
    let engine = stage.database.engine().await;
    let waiting = started(&engine, Standing::Signal).await;
    let nobody = explained(&waiting, Liveness::WorkflowTaskReady).await;
    assert_eq!(nobody.row.table, "workflow_tasks");
    let _worker = worker(&engine);

    let signal = explained(&waiting, Liveness::WaitingForSignal).await;
    assert!(signal.message.contains("go"), "{}", signal.message);
    assert_eq!(signal.until, None);
    let timer = started(&engine, Standing::Timer).await;
    let timer = explained(&timer, Liveness::TimerScheduled).await;
    let until = timer.until.expect("it comes");
    assert!(until.since(timer.since) >= HOUR, "{timer:?}");
    let condition = started(&engine, Standing::Condition).await;
    let condition = explained(&condition, Liveness::WaitingForCondition).await;
    assert!(condition.message.contains("enough"), "{condition:?}");
    let parent = started(&engine, Standing::Child).await;
    let of_child = explained(&parent, Liveness::WaitingForChild).await;
    assert_eq!(of_child.row.table, "workflow_runs");
    assert_ne!(
        of_child.row.key,
        of_child.run.to_string(),
        "it is the child's"
    );
    let busy = started(&engine, Standing::Stuck).await;
    let busy = explained(&busy, Liveness::ActivityTaskLeased).await;
    assert!(busy.until.is_some() && busy.message.contains("tests.stuck"));
    let unknown = started(&engine, Standing::Unknown).await;
    let unknown = explained(&unknown, Liveness::ActivityTaskReady).await;
    assert!(unknown.message.contains("tests.unknown"), "{unknown:?}");
    let retried = started(&engine, Standing::Broken).await;
    let retried = explained(&retried, Liveness::ActivityRetryScheduled).await;
    assert!(
        retried.message.contains("the shop is closed"),
        "{retried:?}"
    );
    assert!(retried.until > Some(retried.since), "{retried:?}");
    let step = started(&engine, Standing::Step).await;
    explained(&step, Liveness::WorkflowTaskLeased).await;
    let ended = started(&engine, Standing::End).await;
    let ended = explained(&ended, Liveness::Closed).await;
    assert!(ended.message.contains("completed"), "{ended:?}");
    let missing = WorkflowId::new("nobody").expect("an id");
    let missing = client(&engine).handle(STAND, missing).explain().await;
    assert_eq!(missing.expect("an answer"), None);
}

pub(crate) async fn a_run_says_that_the_process_that_has_its_task_is_silent(stage: Stage) {
    let mut quick = Recovery::default();
    quick.heartbeat = Duration::from_millis(500);
    quick.every = Duration::from_millis(500);
    quick.term = Duration::from_secs(1);
    quick.ttl = Duration::from_secs(4);
    let engine = || stage.database.builder().recovery(quick).start();
    let other = engine().await.expect("it starts");
    let dying = engine().await.expect("it starts");
    let works = worker(&dying);
    let stuck = started(&dying, Standing::Stuck).await;
    explained(&stuck, Liveness::ActivityTaskLeased).await;

    let id = stuck.id().clone();
    drop((works, dying, stuck));

    let handle = client(&other).handle(STAND, id);
    let until = tokio::time::Instant::now() + SOON;
    let silent = loop {
        let explained = explained(&handle, Liveness::ActivityTaskLeased).await;
        if explained.message.contains("is silent for") {
            break explained;
        }
        assert!(tokio::time::Instant::now() < until, "{explained:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let process = format!("process {}", std::process::id());
    assert!(silent.message.contains(&process), "{silent:?}");
    assert!(silent.age >= quick.ttl * 2 / 3, "{silent:?}");
    assert!(silent.until > Some(silent.since), "{silent:?}");
    explained(&handle, Liveness::ActivityTaskReady).await;
}

pub(crate) async fn a_run_that_went_wrong_says_what_to_do(stage: Stage) {
    let engine = stage.database.engine().await;
    let panics = started(&engine, Standing::Panic).await;
    let diverges = started(&engine, Standing::Signal).await;
    let first = worker(&engine);

    let failed = explained(&panics, Liveness::WorkflowTaskFailed).await;
    assert!(failed.message.contains("on purpose"), "{failed:?}");
    explained(&diverges, Liveness::WaitingForSignal).await;
    assert!(first.shutdown(SOON).await);
    let second = engine.worker(namespace(), Queue::default());
    let _second = second.workflow(STAND, another).start();
    diverges.signal(GO, &()).await.expect("sent");
    let blocked = explained(&diverges, Liveness::WorkflowReplayBlocked).await;
    assert!(blocked.action.contains("resume"), "{blocked:?}");
    let report = engine.health().await;
    let check = report.check("durable_resume_paths").expect("looked at");
    assert!(check.status <= Status::Warning, "{check:?}");

    // One that takes its processes down, as the sweep leaves it.
    stage.start("poison").await;
    let task = stage.claim_workflow("poison").await;
    let put_back = PutBack {
        held: held(&task),
        how: PutBackHow::Blocked {
            reason: BlockedReason::Poison,
            error: "its owner was gone".to_owned(),
        },
    };
    let outcome = stage.apply(Write::PutBack(put_back)).await;
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    let census = stage.store.census().await.expect("counted");
    assert_eq!(census.total(|queue| queue.blocked_poison).count, 1);
    assert_eq!(census.total(|queue| queue.blocked_replay).count, 1);
}

pub(crate) async fn a_census_counts_what_stands_with_its_age(stage: Stage) {
    let empty = stage.store.census().await.expect("counted");
    assert!(empty.queues.is_empty(), "{empty:?}");
    let counted = |of: Tally, what: &str| {
        assert_eq!(of.count, 1, "{what}");
        assert!(of.since.is_some(), "{what}");
    };
    stage.start("due").await;
    let later = Start {
        due: Due::After(HOUR),
        ..stage.new_run("later")
    };
    stage.apply(later).await;
    stage.start("expired").await;
    stage.claim_and_expire("expired").await;
    let timeouts = Timeouts {
        start_to_close: Some(Duration::from_millis(1)),
        ..Timeouts::default()
    };
    stage.start_with_activity("overdue", timeouts).await;
    let overdue = stage.claim_activity("overdue").await;
    stage.pass(overdue.task.deadline_at).await;

    let census = stage.store.census().await.expect("counted");

    let of = |queue: &str, kind| {
        let found = census
            .queues
            .iter()
            .find(|it| it.queue.as_str() == queue && it.kind == kind);
        found.unwrap_or_else(|| panic!("no {queue} in {census:?}"))
    };
    let due = of("due", TaskKind::Workflow);
    counted(due.due, "due");
    assert!(due.due.since <= Some(census.now) && due.leased == Tally::default());
    let later = of("later", TaskKind::Workflow);
    assert_eq!((later.later, later.due.count, later.open), (1, 0, 1));
    let expired = of("expired", TaskKind::Workflow);
    counted(expired.leased, "leased");
    counted(expired.expired, "expired");
    assert!(expired.expired.age(census.now) < expired.leased.age(census.now));
    let activity = of("overdue", TaskKind::Activity);
    counted(activity.overdue, "overdue");
    assert_eq!(activity.most_attempts, 1);
    assert_eq!(census.schema.0, census.schema.1);
    let within = stage
        .store
        .within(&coord_engine::model::Namespace::new("b").expect("a name"));
    let elsewhere = within.census().await.expect("counted");
    assert!(elsewhere.queues.is_empty(), "{elsewhere:?}");
}

pub(crate) async fn an_engine_says_how_it_is(stage: Stage) {
    let engine = stage.database.engine().await;

    let report = engine.health().await;

    assert!(report.is_ready(), "{report:?}");
    assert_eq!(
        report.category(Category::Correctness),
        Status::Ok,
        "{report:?}"
    );
    assert_eq!(report.category(Category::Acceleration), Status::Info);
    assert!(report.now.is_some());
    let census = engine.census().await.expect("counted");
    assert_eq!(census.nodes.live, 1);
}

pub(crate) async fn a_run_that_lost_its_rows_says_which(stage: Stage) {
    // One that mends nothing, so that it stays as it is.
    let engine = stage.database.builder().without_recovery().start().await;
    let engine = engine.expect("it starts");
    let worker = worker(&engine);
    let activity = started(&engine, Standing::Unknown).await;
    explained(&activity, Liveness::ActivityTaskReady).await;
    let timer = started(&engine, Standing::Timer).await;
    explained(&timer, Liveness::TimerScheduled).await;
    assert!(worker.shutdown(SOON).await);
    let begun = started(&engine, Standing::End).await;
    if !stage.database.execute("DELETE FROM workflow_tasks").await {
        return;
    }

    let lost = explained(&activity, Liveness::ActivityRunningWithoutTask).await;
    assert_eq!(lost.row.table, "workflow_runs");
    assert_eq!(lost.row.key, lost.run.to_string());
    for handle in [&timer, &begun] {
        let lost = explained(handle, Liveness::RepairNeeded).await;
        assert_eq!(lost.row.key, lost.run.to_string());
    }
    let lacking = stage.store.survey().await.expect("counted").lacking;
    assert_eq!(lacking.count, 2, "what lacks its workflow task");
}

pub(crate) async fn a_run_that_was_brought_in_or_took_processes_down_waits_to_be_resumed(
    stage: Stage,
) {
    let engine = stage.database.engine().await;
    let waiting = started(&engine, Standing::Signal).await;
    let first = worker(&engine);
    explained(&waiting, Liveness::WaitingForSignal).await;
    let history = waiting.export().await.expect("a history");
    assert!(first.shutdown(SOON).await);
    let elsewhere = coord_engine::model::Namespace::new("elsewhere").expect("a name");
    let other = stage.database.another().await;
    let there = other.engine().await;
    let there = there.client(elsewhere, Queue::default());
    let poisoned = started(&engine, Standing::Timer).await;

    there.import(&history).await.expect("imported");
    let imported = there.handle(STAND, waiting.id().clone());
    let claim = stage.claim_of(TaskKind::Workflow, Queue::default().as_str(), 1);
    let claim = coord_engine::store::Claim {
        wanted: claim
            .wanted
            .into_iter()
            .map(|wanted| coord_engine::store::Wanted {
                names: vec![coord_engine::model::TypeName::new("tests.stand").expect("a name")],
                ..wanted
            })
            .collect(),
        ..claim
    };
    let mut deaths = 0;
    // Each who takes it is gone a moment later.
    while stage
        .store
        .census()
        .await
        .expect("counted")
        .total(|it| it.blocked_poison)
        .count
        == 0
    {
        let dying = coord_engine::store::Claim {
            owner: crate::stage::owner(&format!("dies{deaths}")),
            ttl: Duration::from_millis(20),
            ..claim.clone()
        };
        let claimed = stage.claim(&dying).await.tasks.pop();
        if let Some(claimed) = claimed {
            stage.pass(claimed.task.lease_expires_at).await;
            deaths += 1;
        }
        stage.sweep().await;
        assert!(deaths < 20, "it is never set aside");
    }

    let aside = explained(&imported, Liveness::WorkflowImported).await;
    assert!(aside.action.contains("resume"), "{aside:?}");
    let aside = explained(&poisoned, Liveness::WorkflowPoisoned).await;
    assert!(aside.action.contains("resume"), "{aside:?}");
    assert_eq!(aside.row.table, "workflow_tasks");
    let _worker = worker(&engine);
    poisoned.resume().await.expect("resumed");
    explained(&poisoned, Liveness::TimerScheduled).await;
}

pub(crate) async fn a_queue_that_nobody_serves_is_told_from_a_slow_one(stage: Stage) {
    let engine = stage.database.engine().await;
    let _worker = worker(&engine);
    stage.start("nobody").await;
    let late = "UPDATE workflow_tasks SET available_at = available_at - 60000000";
    if !stage.database.execute(late).await {
        return;
    }

    let report = engine.health().await;

    let routing = report.check("routing_health").expect("looked at");
    assert_eq!(routing.status, Status::Warning, "{routing:?}");
    assert!(routing.message.contains("nobody of tests"), "{routing:?}");
    assert_eq!(routing.count, 1);
    assert!(routing.age >= Duration::from_mins(1));
    assert!(report.is_ready(), "others are served");
}

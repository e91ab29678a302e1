//! What operators read, on every dialect.

use std::time::Duration;

use coord_engine::Recovery;
use coord_engine::compatibility::Compatibility;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{BuildId, Due, Failure, Queue, RunStatus, WorkflowId};
use coord_engine::store::{Heartbeat, Start, Then, Turn};
use coord_engine::worker::Attempt;

use crate::fleet::register;
use crate::stage::{LONG, Stage, closing, completed, namespace, owner, turn};

const SUM: Workflow<u32, u32> = Workflow::new("tests.sum");
const ADD: Activity<u32, u32> = Activity::new("tests.add");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

async fn sum(ctx: Context, number: u32) -> Result<u32, Failure> {
    ctx.activity(ADD, &number).await
}

async fn add(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number + 1)
}

pub(crate) async fn a_survey_counts_runs_and_shows_processes(stage: Stage) {
    let empty = stage.store.survey().await.expect("counted");
    assert!(empty.open.is_empty() && empty.closed.is_empty() && empty.nodes.is_empty());
    register(&stage, "one", LONG, false).await;
    let figures = r#"{"runs_started":3}"#.to_owned();
    let beat = Heartbeat {
        id: owner("one"),
        ttl: LONG,
        draining: false,
        stopped: false,
        figures: Some(figures.clone()),
    };
    stage.store.heartbeat(&beat).await.expect("an answer");
    let silent = Heartbeat {
        figures: None,
        draining: true,
        ..beat
    };
    stage.store.heartbeat(&silent).await.expect("an answer");
    stage.start("pending").await;
    let later = Start {
        due: Due::After(LONG),
        ..stage.new_run("later")
    };
    stage.apply(later).await;
    stage.start("waits").await;
    let task = stage.claim_workflow("waits").await;
    stage.apply(turn(&task)).await;
    stage.start("closed").await;
    let task = stage.claim_workflow("closed").await;
    let close = Turn {
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(&task)
    };
    stage.apply(close).await;

    let survey = stage.store.survey().await.expect("counted");

    let open = |status| {
        let found = survey.open.iter().find(|it| it.status == status);
        found.map_or(0, |it| it.runs)
    };
    assert_eq!(open(RunStatus::Pending), 2);
    assert_eq!(open(RunStatus::Waiting), 1);
    for standing in &survey.open {
        assert!(standing.started_at <= standing.unchanged_since);
        assert!(standing.unchanged_since <= survey.now);
    }
    assert_eq!(survey.closed, [("completed".to_owned(), 1)]);
    assert_eq!(survey.closed_last_minute, survey.closed);
    assert_eq!(survey.started_last_minute, 4);
    assert_eq!((survey.lacking.count, survey.archived), (0, 0));
    assert_eq!(survey.nodes.len(), 1);
    let node = &survey.nodes[0];
    assert_eq!(node.incarnation.id, owner("one"));
    assert!(node.is_draining && node.heartbeat_at >= node.started_at);
    assert_eq!(node.figures, Some(figures), "the last that were written");
    if stage.database.execute("DELETE FROM workflow_tasks").await {
        let lacking = stage.store.survey().await.expect("counted").lacking;
        assert_eq!(lacking.count, 2);
        assert!(lacking.since.is_some());
    }
    let elsewhere = coord_engine::model::Namespace::new("b").expect("a name");
    let elsewhere = stage.store.within(&elsewhere).survey().await;
    let elsewhere = elsewhere.expect("counted");
    assert!(elsewhere.open.is_empty() && elsewhere.closed.is_empty());
    assert_eq!(elsewhere.started_last_minute, 0);
}

pub(crate) async fn a_snapshot_shows_what_a_fleet_does(stage: Stage) {
    let build = BuildId::new("b7").expect("a build");
    let mut recovery = Recovery::default();
    // The figures are written with each heartbeat.
    recovery.heartbeat = Duration::from_millis(100);
    let builder = stage.database.builder().recovery(recovery);
    let builder = builder.compatibility(Compatibility::of(build));
    let engine = builder.start().await.expect("it starts");
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(SUM, sum).activity(ADD, add).start();
    let client = engine.client(namespace(), Queue::default());
    for number in 0..5 {
        let id = WorkflowId::new(format!("w{number}")).expect("an id");
        let started = client.start(SUM, id, &number).await;
        let done = started.expect("started").handle.result(SOON).await;
        assert_eq!(done.expect("an answer"), Some(Ok(number + 1)));
    }
    stage.start("unserved").await;

    let until = tokio::time::Instant::now() + SOON;
    let snapshot = loop {
        let snapshot = engine.operator_snapshot().await.expect("read");
        if snapshot.fleet.runs_closed == 5 {
            break snapshot;
        }
        assert!(tokio::time::Instant::now() < until, "{snapshot:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };

    let runs = &snapshot.runs;
    assert_eq!((runs.total, runs.open, runs.completed), (6, 1, 5));
    assert_eq!((runs.pending, runs.started_last_minute), (1, 6));
    assert_eq!(runs.completed_last_minute, 5);
    let fleet = &snapshot.fleet;
    assert_eq!((fleet.runs_started, fleet.activity_tasks_done), (5, 5));
    assert_eq!(fleet.writes_lost, 0);
    assert!(fleet.workflow_tasks_done >= 5 && fleet.commits.count > 0);
    assert!(fleet.calls.count > fleet.commits.count);
    assert!(fleet.calls.p99_ms >= fleet.calls.p50_ms);
    let taken = fleet.workflow_tasks_claimed + fleet.activity_tasks_claimed;
    assert!(taken + fleet.tasks_taken_along >= 10, "{fleet:?}");
    assert_eq!(snapshot.nodes.len(), 1);
    assert_eq!(snapshot.nodes[0].build.as_deref(), Some("b7"));
    assert_eq!(snapshot.nodes[0].process_id, std::process::id());
    assert_eq!(snapshot.workers.active_workers, 1);
    assert_eq!(
        snapshot.workers.required_compatibility.as_deref(),
        Some("b7")
    );
    let queue = snapshot.queues.iter().find(|it| it.queue == "unserved");
    let queue = queue.expect("its queue");
    assert_eq!((queue.ready_due, queue.workers), (1, 0));
    let document = serde_json::to_value(&snapshot).expect("a document");
    assert!(
        document["runs"]["oldest_open_started_at"]
            .as_str()
            .is_some()
    );
    assert!(document["at"].as_str().expect("an instant").ends_with('Z'));
    assert_eq!(document["backlog"]["runnable_tasks"], 1);
    assert!(document["runs"]["oldest_wait_started_at"].is_null());
    worker.shutdown(SOON).await;
}

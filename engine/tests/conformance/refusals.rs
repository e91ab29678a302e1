//! Why a task that may be claimed is not: the same word wherever it is shown, on every dialect.

use std::future::pending;
use std::time::Duration;

use coord_engine::client::Handle;
use coord_engine::compatibility::Compatibility;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::health::Explanation;
use coord_engine::model::{BuildId, Failure, Namespace, Queue, TaskKind, WorkflowId};
use coord_engine::worker::Attempt;
use coord_engine::{Bound, Engine, Quotas, Refusal};

use crate::stage::{Stage, namespace, queue};

const WORK: Workflow<bool, ()> = Workflow::new("tests.refused");
const STUCK: Activity<(), ()> = Activity::new("tests.stuck");
const UNKNOWN: Activity<(), ()> = Activity::new("tests.unknown");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

/// Waits for an activity that never ends, or for one that nobody knows.
async fn work(ctx: Context, is_known: bool) -> Result<(), Failure> {
    if is_known {
        ctx.activity(STUCK, &()).await
    } else {
        ctx.activity(UNKNOWN, &()).await
    }
}

async fn stuck(_: Attempt, (): ()) -> Result<(), Failure> {
    pending().await
}

async fn started(engine: &Engine, place: (Namespace, Queue), id: &str, known: bool) -> Handle<()> {
    let client = engine.client(place.0, place.1);
    let id = WorkflowId::new(id).expect("an id");
    let started = client.start(WORK, id, &known).await;
    started.expect("started").handle
}

/// What is said of it once this keeps its task.
async fn kept(handle: &Handle<()>, by: Refusal) -> Explanation {
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let explained = handle.explain().await.expect("an answer").expect("a run");
        if explained.refusal == Some(by) {
            assert!(explained.message.contains(by.why()), "{explained:?}");
            assert_eq!(explained.action, by.remedy());
            assert_eq!(explained.row.table, "workflow_tasks");
            return explained;
        }
        let is_over = tokio::time::Instant::now() >= until;
        assert!(!is_over, "never {by:?}, but {explained:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn a_task_that_nobody_takes_says_why_everywhere(stage: Stage) {
    let quotas = Quotas::default()
        .queue(queue("bounded"), TaskKind::Activity, Bound::active(1))
        .queue(queue("slow"), TaskKind::Workflow, Bound::per_minute(1));
    let engine = stage.database.builder().quotas(quotas).start().await;
    let engine = engine.expect("it starts");
    let worker = |name: &str| engine.worker(namespace(), queue(name));
    let both = |name: &str| worker(name).workflow(WORK, work).activity(STUCK, stuck);
    let _workers = [
        both("bounded").start(),
        both("slow").start(),
        both("busy").activities(1).start(),
        both("plain").start(),
    ];
    let old = BuildId::new("old").expect("a build");
    let marking = stage.database.builder();
    let marking = marking.compatibility(Compatibility::of(old)).start().await;
    let marking = marking.expect("it starts");
    let of = |name: &str| (namespace(), queue(name));
    let elsewhere = Namespace::new("elsewhere").expect("a namespace");

    let mut handles = Vec::new();
    for (place, id, known, by) in [
        (
            (elsewhere, queue("plain")),
            "a",
            true,
            Refusal::NamespaceUnserved,
        ),
        (of("nobody"), "b", true, Refusal::QueueUnserved),
        (of("plain"), "c", false, Refusal::TypeUnknown),
    ] {
        handles.push((started(&engine, place, id, known).await, by));
    }
    let marked = started(&marking, of("plain"), "d", true).await;
    handles.push((marked, Refusal::CompatibilityUnsupported));
    for (name, by) in [
        ("bounded", Refusal::QueueActiveLimit),
        ("busy", Refusal::WorkersBusy),
        ("slow", Refusal::QueueRateLimit),
    ] {
        started(&engine, of(name), &format!("{name}-first"), true).await;
        let second = started(&engine, of(name), &format!("{name}-second"), true).await;
        handles.push((second, by));
    }

    // Of two that want one place, either may have it.
    for (handle, by) in &handles {
        if !matches!(by, Refusal::QueueActiveLimit | Refusal::WorkersBusy) {
            kept(handle, *by).await;
        }
    }
    let until = tokio::time::Instant::now() + SOON;
    let snapshot = loop {
        let snapshot = engine.operator_snapshot().await.expect("read");
        let is_there = |by: &Refusal| {
            let of_it = snapshot.refusals.iter().find(|it| it.reason == *by);
            of_it.is_some_and(|it| it.tasks == 1)
        };
        if handles.iter().all(|(_, by)| is_there(by)) {
            break snapshot;
        }
        assert!(tokio::time::Instant::now() < until, "{snapshot:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };

    let refusals = engine.refusals().await.expect("an answer");
    let text = snapshot.to_prometheus();
    let document = serde_json::to_value(&snapshot).expect("a document");
    let shown = document["refused"].as_array().expect("a list");
    let reasons = document["refusals"].as_array().map(Vec::len);
    assert_eq!(reasons, Some(Refusal::ALL.len()));
    for by in Refusal::ALL {
        let word = by.as_str();
        let count = u64::from(handles.iter().any(|(_, it)| *it == by));
        assert_eq!(refusals.total(by).count, count, "{by:?} in {refusals:?}");
        let sample = format!("engine_tasks_refused{{reason=\"{word}\"}} {count}\n");
        assert!(text.contains(&sample), "no {sample} in {text}");
        let one_by_one = shown.iter().filter(|it| it["reason"] == word);
        assert_eq!(one_by_one.count() as u64, count, "{word}");
        if count == 1 {
            assert!(refusals.total(by).since.is_some());
            let age = format!("engine_tasks_refused_oldest_age_seconds{{reason=\"{word}\"}} ");
            assert!(text.contains(&age), "no {age} in {text}");
        }
    }
    // A worker that comes and may take it does, and nothing is said of it any more.
    let (nobody, _) = &handles[1];
    let _more = both("nobody").start();
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let explained = nobody.explain().await.expect("an answer").expect("a run");
        if explained.refusal.is_none() {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "{explained:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! Histories that leave before their retention ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coord_core::{Error, ErrorKind};
use coord_engine::Engine;
use coord_engine::archive::{Archive, Folder};
use coord_engine::client::{Client, Handle};
use coord_engine::flow::{Activity, Context, Query, Workflow};
use coord_engine::model::{Failure, History, Namespace, Queue, RunId, WorkflowId};
use coord_engine::store::{Archival, ClosedRuns, Filter, Load, Reply, Retire, Then, Turn};
use coord_engine::worker::{Attempt, Worker};

use crate::stage::{LONG, Stage, closing, completed, namespace, signal, turn};
use crate::writes::is_done;

const SHOUT: Workflow<String, String> = Workflow::new("tests.shout");
const LOUDER: Activity<String, String> = Activity::new("tests.louder");
const LOUDNESS: Query<(), u32> = Query::new("loudness");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

async fn shout(ctx: Context, what: String) -> Result<String, Failure> {
    ctx.answers(LOUDNESS, |()| 1);
    ctx.activity(LOUDER, &what).await
}

async fn louder(_: Attempt, what: String) -> Result<String, Failure> {
    Ok(what.to_uppercase())
}

async fn close(stage: &Stage, workflow: &str) {
    let task = stage.claim_workflow(workflow).await;
    let close = Turn {
        drained: 1,
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(&task)
    };
    assert!(is_done(&stage.apply(close).await));
}

async fn closed(stage: &Stage, workflow: &str) -> RunId {
    let run = stage.start(workflow).await;
    stage.apply(signal(&run)).await;
    close(stage, workflow).await;
    run
}

fn archival(run: &RunId, events: u64) -> Archival {
    Archival {
        run: run.clone(),
        events,
        place: "elsewhere".to_owned(),
    }
}

fn page(closed_for: Duration, limit: u32) -> ClosedRuns {
    ClosedRuns {
        namespace: namespace(),
        closed_for,
        after: None,
        limit,
    }
}

pub(crate) async fn a_history_leaves_when_all_of_it_is_kept_elsewhere(stage: Stage) {
    let open = stage.start("open").await;
    let run = closed(&stage, "w").await;
    let events = stage.load(&run).await.events.len() as u64;
    let archive = async |archival: Archival| {
        let archived = stage.store.archive(&archival).await;
        archived.expect("an answer")
    };

    assert!(!archive(archival(&open, 1)).await, "it is open");
    assert!(!archive(archival(&run, events + 1)).await, "not all of it");
    assert!(!archive(archival(&stage.ids.run(), 0)).await, "not there");
    assert_eq!(stage.describe(&run).await.archived, None);
    assert!(archive(archival(&run, events)).await);
    assert!(!archive(archival(&run, events)).await, "once");
    assert!(!archive(archival(&run, 0)).await, "once");

    let described = stage.describe(&run).await;
    let archived = described.archived.expect("noted");
    assert_eq!(archived.place, "elsewhere");
    assert!(
        archived.at <= described.now && archived.at >= described.run.closed_at.expect("closed")
    );
    assert_eq!(described.run.closed, Some(completed()));
    assert!(described.attempts.is_empty());
    assert!(stage.load(&run).await.events.is_empty());
    assert_eq!(stage.load(&open).await.events.len(), 1);
}

pub(crate) async fn closed_runs_come_in_pages_and_those_without_history_are_passed_over(
    stage: Stage,
) {
    let runs = [
        closed(&stage, "a").await,
        closed(&stage, "b").await,
        closed(&stage, "c").await,
    ];
    stage.start("open").await;
    let events = stage.load(&runs[1]).await.events.len() as u64;
    let archived = stage.store.archive(&archival(&runs[1], events)).await;
    assert!(archived.expect("an answer"));

    let mut found = Vec::new();
    let mut next = page(Duration::ZERO, 1);
    loop {
        let page = stage.store.unarchived(&next).await.expect("an answer");
        found.extend(page.runs.into_iter().map(|(_, run)| run));
        next.after = page.next;
        if next.after.is_none() {
            break;
        }
    }

    assert_eq!(found, [runs[0].clone(), runs[2].clone()]);
    let young = stage.store.unarchived(&page(LONG, 9)).await;
    assert_eq!(young.expect("an answer").runs, []);
}

pub(crate) async fn a_run_without_its_history_is_removed_when_its_time_has_come(stage: Stage) {
    let (kept, archived) = (closed(&stage, "kept").await, closed(&stage, "gone").await);
    let events = stage.load(&archived).await.events.len() as u64;
    let noted = stage.store.archive(&archival(&archived, events)).await;
    assert!(noted.expect("an answer"));
    let retire = |closed_for, archived| Retire {
        namespace: namespace(),
        closed_for,
        runs: 10,
        archived,
        events: 1000,
    };

    let young = stage.store.retire(&retire(LONG, true)).await;
    let only_archived = stage.store.retire(&retire(Duration::ZERO, true)).await;

    assert_eq!(young.expect("an answer"), 0);
    assert_eq!(only_archived.expect("an answer"), 1);
    assert_eq!(stage.store.survey().await.expect("counted").archived, 0);
    assert_eq!(stage.describe(&kept).await.run.run, kept);
    let all = stage.store.retire(&retire(Duration::ZERO, false)).await;
    assert_eq!(all.expect("an answer"), 1);
}

fn client(engine: &Engine) -> Client {
    engine.client(namespace(), Queue::default())
}

fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker.workflow(SHOUT, shout).activity(LOUDER, louder);
    worker.start()
}

async fn shouted(engine: &Engine, id: &str) -> Handle<String> {
    let id = WorkflowId::new(id).expect("an id");
    let started = client(engine).start(SHOUT, id, &"now".to_owned()).await;
    let handle = started.expect("started").handle;
    let done = handle.result(SOON).await.expect("an answer");
    assert_eq!(done, Some(Ok("NOW".to_owned())));
    handle
}

pub(crate) async fn an_archived_run_says_where_its_history_is_and_keeps_its_result(stage: Stage) {
    let engine = stage.database.engine().await;
    let _worker = worker(&engine);
    let handle = shouted(&engine, "w").await;
    let exported = handle.export().await.expect("a history");
    let folder = tempfile::tempdir().expect("a folder");
    let archive = Folder::new(folder.path());

    let young = engine.archive_closed_runs(&archive, LONG).await;
    assert_eq!(young.expect("passed").archived, 0);
    let passed = engine.archive_closed_runs(&archive, Duration::ZERO).await;
    let passed = passed.expect("passed");
    assert_eq!((passed.archived, passed.failed), (1, 0));

    let described = handle.describe().await.expect("an answer").expect("a run");
    let archived = described.archived.expect("noted");
    let kept = std::fs::read_to_string(&archived.place).expect("the file");
    assert_eq!(History::from_json(&kept).expect("a history"), exported);
    assert_eq!(described.run.history_length, exported.events().len() as u64);
    let result = handle.result(SOON).await.expect("an answer");
    assert_eq!(result, Some(Ok("NOW".to_owned())));
    for error in [
        handle.history().await.map(drop),
        handle.export().await.map(drop),
        handle.query(LOUDNESS, &()).await.map(drop),
    ] {
        let error = error.expect_err("it is not here");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(&archived.place), "{error}");
    }
    let again = engine.archive_closed_runs(&archive, Duration::ZERO).await;
    assert_eq!(again.expect("passed").archived, 0, "once");
    assert_eq!(stage.store.survey().await.expect("counted").archived, 1);
    // And back, once the run itself is gone.
    let id = handle.id().clone();
    client(&engine)
        .keep_closed_runs(Duration::ZERO)
        .await
        .expect("set");
    assert_eq!(engine.retire_closed_runs(|_| {}).await.expect("removed"), 1);
    let history = History::from_json(&kept).expect("a history");
    client(&engine).import(&history).await.expect("imported");
    let back = client(&engine).handle(SHOUT, id);
    assert_eq!(back.history().await.expect("events"), exported.events());
}

/// Keeps nothing, or fails as it is told.
#[derive(Clone, Default)]
struct Moody {
    takes: Arc<AtomicBool>,
    never: Arc<AtomicBool>,
    seen: Arc<AtomicUsize>,
}

impl Archive for Moody {
    fn keep<'a>(&'a self, _: &'a Namespace, history: &'a History) -> Reply<'a, String> {
        self.seen.fetch_add(1, Ordering::SeqCst);
        let run = history.run().to_string();
        let answer = if self.never.load(Ordering::SeqCst) {
            Err(Error::invalid("it is too large"))
        } else if self.takes.load(Ordering::SeqCst) {
            Ok(format!("box/{run}"))
        } else {
            Err(Error::unavailable("the box is shut"))
        };
        Box::pin(std::future::ready(answer))
    }
}

pub(crate) async fn what_an_archive_does_not_take_stays(stage: Stage) {
    let moody = Moody::default();
    let builder = stage.database.builder();
    let engine = builder.archive(moody.clone(), LONG).start().await;
    let engine = engine.expect("it starts");
    let _worker = worker(&engine);
    let handles = [shouted(&engine, "a").await, shouted(&engine, "b").await];
    let pass = || engine.archive_closed_runs(&moody, Duration::ZERO);

    let shut = pass().await.expect_err("it is shut");
    assert_eq!(shut.kind(), ErrorKind::Unavailable);
    assert_eq!(
        moody.seen.load(Ordering::SeqCst),
        1,
        "no use in asking again"
    );
    moody.never.store(true, Ordering::SeqCst);
    let refused = pass().await.expect("passed");
    assert_eq!((refused.archived, refused.failed), (0, 2));
    for handle in &handles {
        assert!(!handle.history().await.expect("all of it").is_empty());
    }
    // What was not handed over is not removed, whatever its age.
    client(&engine)
        .keep_closed_runs(Duration::ZERO)
        .await
        .expect("set");
    assert_eq!(engine.retire_closed_runs(|_| {}).await.expect("removed"), 0);

    moody.never.store(false, Ordering::SeqCst);
    moody.takes.store(true, Ordering::SeqCst);
    let one = handles[0].archive().await.expect("archived");
    assert_eq!(handles[0].archive().await.expect("the same"), one);
    assert!(one.place.starts_with("box/"), "{one:?}");
    let rest = pass().await.expect("passed");
    assert_eq!((rest.archived, rest.failed), (1, 0));
    assert_eq!(engine.retire_closed_runs(|_| {}).await.expect("removed"), 2);
    let left = stage.store.count(&Filter::all(namespace())).await;
    assert_eq!(left.expect("a count"), 0);
}

pub(crate) async fn two_archives_at_once_hand_each_history_over_and_lose_none(stage: Stage) {
    let runs = {
        let mut runs = Vec::new();
        for number in 0..20 {
            runs.push(archivable(&stage, &format!("w{number}")).await);
        }
        runs
    };
    let engine = stage.database.engine().await;
    let (one, other) = (Moody::default(), Moody::default());
    for moody in [&one, &other] {
        moody.takes.store(true, Ordering::SeqCst);
    }

    let (first, second) = tokio::join!(
        engine.archive_closed_runs(&one, Duration::ZERO),
        engine.archive_closed_runs(&other, Duration::ZERO),
    );

    let (first, second) = (first.expect("passed"), second.expect("passed"));
    assert_eq!(first.archived + second.archived, runs.len() as u64);
    for run in &runs {
        assert!(stage.describe(run).await.archived.is_some());
        let load = Load {
            run: run.clone(),
            after: 0,
            limit: 10,
        };
        let loaded = stage.store.load(&[load]).await.expect("loaded");
        let loaded = loaded.runs[0].as_ref().expect("a run");
        assert!(loaded.events.is_empty());
    }
}

/// A closed run whose history is one.
async fn archivable(stage: &Stage, workflow: &str) -> RunId {
    let engine = stage.database.engine().await;
    let client = client(&engine);
    let id = WorkflowId::new(workflow).expect("an id");
    let started = client.start(SHOUT, id, &"now".to_owned()).await;
    let handle = started.expect("started").handle;
    handle.terminate("enough").await.expect("terminated");
    let described = handle.describe().await.expect("an answer").expect("a run");
    engine.shutdown().await.expect("ended");
    described.run.run
}

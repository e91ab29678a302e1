//! Traces through the engine.

use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{Event, EventKind, Failure, Namespace, Queue, Retry, ScheduleId, When};
use coord_engine::store::Sqlite;
use coord_engine::worker::{Attempt, Worker};
use coord_tests::wait::eventually;

use super::*;

const PARENT: Workflow<u32, ()> = Workflow::new("tests.parent");
const CHILD: Workflow<(), ()> = Workflow::new("tests.child");
const WAITING: Workflow<(), ()> = Workflow::new("tests.waiting");
const FLAKY: Activity<(), String> = Activity::new("tests.flaky");
const GO: Signal<()> = Signal::new("go");

/// Begins a child, and goes on as another run so often.
async fn parent(ctx: Context, left: u32) -> Result<(), Failure> {
    ctx.child(CHILD, &()).await?;
    match left {
        0 => Ok(()),
        left => Err(ctx.continue_as_new(&(left - 1))),
    }
}

async fn child(ctx: Context, (): ()) -> Result<(), Failure> {
    let at_once = Retry {
        initial: Duration::from_millis(1),
        ..Retry::default()
    };
    let seen = ctx.activity(FLAKY, &()).retry(at_once).await?;
    assert!(!seen.is_empty());
    Ok(())
}

async fn waiting(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.signal(GO).recv().await
}

/// Fails at first, and then returns the trace in which it runs.
async fn flaky(attempt: Attempt, (): ()) -> Result<String, Failure> {
    if attempt.number() == 1 {
        return Err(Failure::new("out of paper"));
    }
    let current = TraceContext::current().map(|current| current.to_string());
    Ok(current.unwrap_or_default())
}

async fn stage() -> (Engine, Client, Worker) {
    let engine = Engine::start(Sqlite::memory()).await.expect("an engine");
    let worker = engine.worker(Namespace::default(), Queue::default());
    let worker = worker
        .workflow(PARENT, parent)
        .workflow(CHILD, child)
        .workflow(WAITING, waiting)
        .activity(FLAKY, flaky)
        .start();
    let client = engine.client(Namespace::default(), Queue::default());
    (engine, client, worker)
}

fn started(history: &[Event]) -> Option<TraceContext> {
    match &history.first().expect("its start").kind {
        EventKind::Started(started) => started.trace.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_continued_runs_and_attempts_belong_under_the_turns_that_began_them() {
    let traced = Traced::start(&[]).await;
    let (_engine, client, worker) = stage().await;

    let span = called();
    let start = client.start(PARENT, id("a"), &1).into_future();
    let run = span.within(start).await.expect("started").handle;
    let ended = run.result(SOON).await.expect("an answer");
    assert_eq!(ended, Some(Ok(())));
    drop(span);
    worker.shutdown(SOON).await;
    let spans = traced.finish().await;

    let caller = one(&spans, "called");
    let parents = named(&spans, "workflow tests.parent");
    let children = named(&spans, "workflow tests.child");
    let attempts = named(&spans, "activity tests.flaky");
    let runs = |of: &[&Seen]| {
        let runs = of.iter().map(|span| span.notes["coord.run.id"].clone());
        runs.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!((runs(&parents), runs(&children)), (2, 2));
    let is_turn = |turns: &[&Seen], span: &str| turns.iter().any(|turn| turn.span == span);
    let first = &parents[0].notes["coord.run.id"];
    for turn in &parents {
        if turn.notes["coord.run.id"] == *first {
            turn.is_under(CALLERS_TRACE, &caller.span);
        } else {
            let of_first = parents
                .iter()
                .filter(|it| it.notes["coord.run.id"] == *first);
            let of_first: Vec<_> = of_first.copied().collect();
            assert!(is_turn(&of_first, &turn.parent), "{turn:?} of {spans:?}");
        }
    }
    for turn in &children {
        assert!(is_turn(&parents, &turn.parent), "{turn:?} of {spans:?}");
    }
    for attempt in &attempts {
        assert!(
            is_turn(&children, &attempt.parent),
            "{attempt:?} of {spans:?}"
        );
        assert_eq!(attempt.trace, CALLERS_TRACE);
    }
    let ends: Vec<_> = attempts
        .iter()
        .map(|it| (it.notes["coord.attempt"].as_str(), it.failure.is_some()))
        .collect();
    assert_eq!(ends, [("1", true), ("2", false), ("1", true), ("2", false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_carries_the_trace_of_its_sender_to_the_turn_that_takes_it() {
    let traced = Traced::start(&[]).await;
    let (_engine, client, worker) = stage().await;
    let run = client
        .start(WAITING, id("a"), &())
        .await
        .expect("started")
        .handle;
    eventually(SOON, "it waits", || async {
        let history = run.history().await.expect("a history");
        history
            .iter()
            .any(|event| matches!(event.kind, EventKind::SignalWaitOpened(_)))
    })
    .await;

    let span = called();
    let signal = run.signal(GO, &()).into_future();
    span.within(signal).await.expect("sent");
    run.result(SOON).await.expect("an answer");
    let sender = span.context().expect("in a trace").clone();
    drop(span);
    worker.shutdown(SOON).await;
    let history = run.history().await.expect("a history");
    let spans = traced.finish().await;

    let received = history.iter().find_map(|event| match &event.kind {
        EventKind::SignalReceived(signal) => Some(signal.trace.clone()),
        _ => None,
    });
    assert_eq!(received, Some(Some(sender.clone())));
    let linked: Vec<_> = named(&spans, "workflow tests.waiting")
        .into_iter()
        .flat_map(|turn| turn.links.clone())
        .collect();
    let sender = (
        CALLERS_TRACE.to_owned(),
        format!("{:016x}", sender.span_id()),
    );
    assert_eq!(linked, [sender]);
    let own = one(&spans, "start tests.waiting");
    assert_ne!(
        own.trace, CALLERS_TRACE,
        "nobody called when it was started"
    );
    own.is_under(&own.trace, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_of_a_schedule_begins_a_trace_of_its_own() {
    let traced = Traced::start(&[]).await;
    let (_engine, client, worker) = stage().await;
    let schedule = client.schedule(ScheduleId::new("s").expect("an id"));
    let rarely = When::every(Duration::from_hours(24));

    let span = called();
    let fired = span
        .within(async {
            schedule.create(rarely, CHILD, &()).await.expect("created");
            schedule.trigger().await.expect("an answer")
        })
        .await;
    drop(span);
    let coord_engine::client::Triggered::Started(workflow) = fired else {
        panic!("{fired:?}");
    };
    let run = client.handle(CHILD, workflow.clone());
    run.result(SOON).await.expect("an answer");
    let trace = started(&run.history().await.expect("a history"));
    worker.shutdown(SOON).await;
    let spans = traced.finish().await;

    let fire = one(&spans, "fire tests.child");
    fire.is_under(&fire.trace, "");
    assert_ne!(fire.trace, CALLERS_TRACE);
    assert_eq!(fire.notes["coord.schedule.id"], "s");
    assert_eq!(fire.notes["coord.workflow.id"], workflow.to_string());
    let trace = trace.expect("of its own");
    assert_eq!(format!("{:032x}", trace.trace_id()), fire.trace);
    for turn in named(&spans, "workflow tests.child") {
        turn.is_under(&fire.trace, &fire.span);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_time_without_traces_goes_on_without_one() {
    let before = alone().await;
    let (_engine, client, worker) = stage().await;
    let run = client
        .start(WAITING, id("a"), &())
        .await
        .expect("started")
        .handle;
    assert_eq!(started(&run.history().await.expect("a history")), None);
    drop(before);

    let traced = Traced::start(&[]).await;
    run.signal(GO, &()).await.expect("sent");
    let ended = run.result(SOON).await.expect("an answer");
    worker.shutdown(SOON).await;
    let spans = traced.finish().await;

    assert_eq!(ended, Some(Ok(())));
    assert!(
        named(&spans, "workflow tests.waiting").is_empty(),
        "{spans:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_passed_on_where_nothing_is_sent() {
    let _alone = alone().await;
    let (_engine, client, worker) = stage().await;

    let span = called();
    let start = client.start(CHILD, id("a"), &()).into_future();
    let run = span.within(start).await.expect("started").handle;
    run.result(SOON).await.expect("an answer");
    worker.shutdown(SOON).await;

    let history = run.history().await.expect("a history");
    let of_caller = TraceContext::parse(CALLER, None);
    assert_eq!(started(&history), of_caller);
    let scheduled = history.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled(activity) => Some(activity.trace.clone()),
        _ => None,
    });
    assert_eq!(scheduled, Some(of_caller));
}

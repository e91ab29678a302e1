//! Runs that are marked with a build.

use super::*;
use crate::Compatibility;
use crate::compatibility::{FleetValidation, Supported};
use crate::model::BuildId;
use crate::store::WorkerFilter;

const PARENT: Workflow<u32, u32> = Workflow::new("tests.parent");

fn build(name: &str) -> BuildId {
    BuildId::new(name).expect("a build")
}

/// Starts a child, and goes on as another run, once.
async fn parent(ctx: Context, number: u32) -> Result<u32, Failure> {
    let child = id(&format!("child-{number}"));
    let sum = ctx.child(SUM, &vec![number]).id(child).await?;
    if number == 1 {
        return Err(ctx.continue_as_new(&2));
    }
    Ok(sum)
}

async fn engine(store: &Memory, compatibility: Compatibility) -> Engine {
    let builder = Engine::builder(store.clone());
    let started = builder.compatibility(compatibility).start().await;
    started.expect("a store in memory")
}

fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(namespace(), queue());
    let worker = worker.workflow(SUM, sum).workflow(PARENT, parent);
    worker.activity(DOUBLE, double).start()
}

#[tokio::test(start_paused = true)]
async fn a_mark_goes_on_to_children_and_to_the_runs_that_follow() {
    let engine = engine(&Memory::new(), Compatibility::of(build("one"))).await;
    let client = engine.client(namespace(), queue());
    let _worker = worker(&engine);
    let started = client.start(PARENT, id("a"), &1).await.expect("started");

    let ended = started.handle.result(MINUTE).await.expect("an answer");

    assert_eq!(ended, Some(Ok(4)));
    for name in ["a", "child-1", "child-2"] {
        let described = client.handle(PARENT, id(name)).describe().await;
        let run = described.expect("an answer").expect("a run").run;
        assert_eq!(run.build, Some(build("one")), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_build_is_neither_begun_nor_asked_here() {
    let store = Memory::new();
    let one = engine(&store, Compatibility::of(build("one"))).await;
    let client = one.client(namespace(), queue());
    let _worker = worker(&one);
    let pinned = client
        .start(SUM, id("pinned"), &vec![1])
        .build(build("two"));
    let pinned = pinned.await.expect("started").handle;
    let any = client.start(SUM, id("any"), &vec![1]).any_build();
    let any = any.await.expect("started").handle;

    assert_eq!(any.result(MINUTE).await.expect("an answer"), Some(Ok(2)));
    assert_eq!(pinned.result(MINUTE).await.expect("an answer"), None);
    let described = pinned.describe().await.expect("an answer").expect("a run");
    assert_eq!(described.tasks[0].attempt, 0);
    let asked = pinned.query(COUNT, &()).await.expect_err("not here");
    assert!(asked.to_string().contains("of build two"), "{asked}");

    // A process without marks leaves it alone as well; one that supports all does not.
    let none = engine(&store, Compatibility::default()).await;
    let unmarked = worker(&none);
    assert_eq!(pinned.result(MINUTE).await.expect("an answer"), None);
    unmarked.shutdown(Duration::ZERO).await;
    let all = Compatibility::default().supporting(Supported::All);
    let all = engine(&store, all).await;
    let _worker = worker(&all);
    assert_eq!(pinned.result(MINUTE).await.expect("an answer"), Some(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_no_live_worker_supports_is_refused_by_who_is_told_so() {
    let store = Memory::new();
    let strict = Compatibility::of(build("two")).validating(FleetValidation::Fail);
    let strict = engine(&store, strict).await.client(namespace(), queue());
    // Nobody is there yet: the first worker may be on its way.
    strict
        .start(SUM, id("first"), &vec![])
        .await
        .expect("started");
    let one = engine(&store, Compatibility::of(build("one"))).await;
    let _worker = worker(&one);
    while one
        .workers(&WorkerFilter::default())
        .await
        .expect("an answer")
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let refused = strict.start(SUM, id("second"), &vec![]).await;
    let batch = strict.start_batch([
        strict.start(SUM, id("third"), &vec![]),
        strict.start(SUM, id("fourth"), &vec![]).any_build(),
    ]);
    let batch = batch.await.expect("an answer");

    let refused = refused.err().expect("refused");
    assert_eq!(refused.kind(), coord_core::ErrorKind::Unavailable);
    assert!(
        refused.to_string().contains("supports build two"),
        "{refused}"
    );
    let there = strict.handle(SUM, id("second")).describe().await;
    assert!(there.expect("an answer").is_none());
    assert!(batch[0].is_err() && batch[1].is_ok());
    // Whoever only warns starts it, and it waits.
    let two = engine(&store, Compatibility::of(build("two"))).await;
    let lax = two.client(namespace(), queue());
    lax.start(SUM, id("second"), &vec![])
        .await
        .expect("started");
    assert_eq!(two.blocked_runs().await.expect("an answer").runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn new_runs_are_marked_with_the_promoted_build_whoever_starts_them() {
    let store = Memory::new();
    let one = engine(&store, Compatibility::of(build("one"))).await;
    let unmarked = engine(&store, Compatibility::default()).await;
    let mark = async |engine: &Engine| {
        let client = engine.client(namespace(), queue());
        // A little later it is asked again which one is promoted.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let started = client.start(SUM, engine.core().ids.workflow(), &vec![]);
        let handle = started.await.expect("started").handle;
        let described = handle.describe().await.expect("an answer");
        described.expect("a run").run.build
    };
    let client = one.client(namespace(), queue());
    assert_eq!(mark(&one).await, Some(build("one")));

    client.promote_build(build("two")).await.expect("promoted");
    assert_eq!(mark(&one).await, Some(build("two")));
    assert_eq!(mark(&unmarked).await, None, "who has no marks makes none");
    let refused = client
        .drain_build(build("two"))
        .await
        .expect_err("promoted");
    assert_eq!(refused.kind(), coord_core::ErrorKind::Invalid);

    client
        .promote_build(build("three"))
        .await
        .expect("promoted");
    client
        .roll_back_build(build("three"))
        .await
        .expect("another");
    assert_eq!(mark(&one).await, Some(build("two")));
}

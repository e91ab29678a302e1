//! What goes when it was kept for long enough.

use std::time::Duration;

use coord_engine::model::{Attributes, Marks, ParentClose, ParentLink, RunId};
use coord_engine::store::{
    Deliver, Filter, Load, Outcome, Retire, Start, Target, Tenant, Then, Turn,
};

use crate::stage::{LONG, Stage, closing, completed, namespace, signal, signal_request, turn};
use crate::writes::is_done;

async fn retire(stage: &Stage, closed_for: Duration, runs: u32) -> u64 {
    let retire = Retire {
        namespace: namespace(),
        closed_for,
        runs,
        archived: false,
        events: 1000,
    };
    stage.store.retire(&retire).await.expect("removed")
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

async fn is_there(stage: &Stage, run: &RunId) -> bool {
    let target = Target::Run(run.clone());
    let described = stage.store.describe(&target).await.expect("an answer");
    described.is_some()
}

pub(crate) async fn a_closed_run_goes_with_all_that_belongs_to_it(stage: Stage) {
    let start = Start {
        marks: Marks {
            attributes: Some(Attributes::new().with("customer", "ann").expect("one")),
            memo: serde_json::json!({"a": 1}).as_object().cloned(),
        },
        ..stage.new_run("w")
    };
    let run = start.run.clone();
    stage.apply(start).await;
    let command = |run: &RunId| Deliver {
        request: Some(signal_request("one")),
        ..signal(run)
    };
    assert!(is_done(&stage.apply(command(&run)).await));
    close(&stage, "w").await;

    assert_eq!(retire(&stage, Duration::ZERO, 10).await, 1);

    assert!(!is_there(&stage, &run).await);
    let load = Load {
        run: run.clone(),
        after: 0,
        limit: 10,
    };
    let loaded = stage.store.load(&[load]).await.expect("loaded");
    assert_eq!(loaded.runs, [None]);
    assert_eq!(
        stage
            .store
            .count(&Filter::all(namespace()))
            .await
            .expect("a count"),
        0
    );
    assert_eq!(retire(&stage, Duration::ZERO, 10).await, 0);
    // The id is free, and its receipts are gone with it.
    let next = stage.start("w").await;
    assert!(is_done(&stage.apply(command(&next)).await));
    let described = stage.describe(&next).await;
    assert!(described.attributes.is_empty() && described.memo.is_empty());
}

pub(crate) async fn an_open_run_and_a_young_one_stay(stage: Stage) {
    let (open, young) = (stage.start("open").await, stage.start("young").await);
    stage.apply(signal(&young)).await;
    close(&stage, "young").await;

    assert_eq!(retire(&stage, LONG, 10).await, 0);

    assert!(is_there(&stage, &young).await);
    assert_eq!(retire(&stage, Duration::ZERO, 10).await, 1);
    assert!(is_there(&stage, &open).await);
    assert_eq!(stage.claim_workflow("open").await.task.run, open);
}

pub(crate) async fn a_portion_takes_no_more_than_was_said(stage: Stage) {
    for name in ["a", "b", "c"] {
        let run = stage.start(name).await;
        stage.apply(signal(&run)).await;
        close(&stage, name).await;
    }

    assert_eq!(retire(&stage, Duration::ZERO, 2).await, 2);
    assert_eq!(retire(&stage, Duration::ZERO, 2).await, 1);
}

pub(crate) async fn a_child_outlives_the_parent_that_is_removed(stage: Stage) {
    let parent = stage.start("parent").await;
    let task = stage.claim_workflow("parent").await;
    let link = ParentLink {
        run: parent.clone(),
        step: 1,
        on_close: ParentClose::Abandon,
    };
    let child = Start {
        parent: Some(link),
        ..stage.new_run("child")
    };
    let child_run = child.run.clone();
    let end = Turn {
        children: vec![child],
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(&task)
    };
    assert!(is_done(&stage.apply(end).await));

    assert_eq!(retire(&stage, Duration::ZERO, 10).await, 1);

    let described = stage.describe(&child_run).await;
    assert_eq!(described.run.parent, Some(parent));
    stage.apply(signal(&child_run)).await;
    close(&stage, "child").await;
    assert_eq!(retire(&stage, Duration::ZERO, 10).await, 1);
}

pub(crate) async fn a_namespace_has_its_own_retention(stage: Stage) {
    let elsewhere = coord_engine::model::Namespace::new("elsewhere").expect("a name");
    let other = Start {
        namespace: elsewhere.clone(),
        ..stage.new_run("w")
    };
    assert!(matches!(stage.apply(other).await, Outcome::Started { .. }));
    stage.start("w").await;

    for retention in [LONG, Duration::from_micros(7)] {
        stage.store.keep(&elsewhere, retention).await.expect("kept");
    }

    let tenant = |namespace, retention| Tenant {
        namespace,
        retention,
        oldest_closed: None,
    };
    let expected = [
        tenant(elsewhere, Some(Duration::from_micros(7))),
        tenant(namespace(), None),
    ];
    assert_eq!(stage.store.tenants().await.expect("tenants"), expected);
}

pub(crate) async fn what_is_past_its_retention_goes_by_hand(stage: Stage) {
    let run = stage.start("w").await;
    stage.apply(signal(&run)).await;
    close(&stage, "w").await;
    let engine = stage.database.engine().await;
    assert_eq!(engine.retire_closed_runs(|_| {}).await.expect("removed"), 0);
    let client = engine.client(namespace(), coord_engine::model::Queue::default());
    client.keep_closed_runs(Duration::ZERO).await.expect("set");

    assert_eq!(engine.retire_closed_runs(|_| {}).await.expect("removed"), 1);

    assert!(!is_there(&stage, &run).await);
}

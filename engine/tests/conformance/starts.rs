//! How runs begin.

use coord_engine::model::{Closed, TaskKind};
use coord_engine::store::{OnDuplicate, Outcome, Start, Store, Target, Then, Turn, Write};

use crate::stage::{Stage, closing, namespace, request};
use crate::writes::{is_done, join_all};

pub(crate) async fn an_id_is_started_once(stage: Stage) {
    let starts: Vec<_> = (0..8).map(|_| stage.new_run("w")).collect();
    let start = async |start: &Start, store: &dyn Store| {
        let write = Write::Start(Box::new(start.clone()));
        store.apply(&[write]).await.expect("applied").outcomes
    };
    let mut tasks = Vec::new();
    for (place, one) in starts.iter().enumerate() {
        let store = if place.is_multiple_of(2) {
            &stage.store
        } else {
            &stage.other
        };
        tasks.push(start(one, &**store));
    }
    let outcomes = join_all(tasks).await;
    let created: Vec<_> = outcomes
        .iter()
        .filter(|it| matches!(it[0], Outcome::Started { created: true, .. }))
        .collect();

    assert_eq!(created.len(), 1, "{outcomes:?}");
    let refused = stage.apply(stage.new_run("w")).await;
    let Outcome::Refused { current } = refused else {
        panic!("{refused:?}");
    };
    let existing = Start {
        on_duplicate: OnDuplicate::ReturnExisting,
        ..stage.new_run("w")
    };
    assert_eq!(
        stage.apply(existing).await,
        Outcome::Started {
            run: current,
            created: false
        }
    );
    let claim = stage.claim_of(TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

pub(crate) async fn a_name_of_a_lost_turn_is_free_again(stage: Stage) {
    stage.start("parent").await;
    let late = stage.claim_and_expire("parent").await;
    let late = Turn {
        children: vec![stage.new_run("child")],
        ..crate::stage::turn(&late)
    };
    assert_eq!(stage.apply(late.clone()).await, Outcome::Lost);
    let free = stage.new_run("child");

    let outcomes = stage
        .batch([
            Write::Turn(Box::new(late)),
            Write::Start(Box::new(free.clone())),
        ])
        .await;

    assert_eq!(
        outcomes[1],
        Outcome::Started {
            run: free.run.clone(),
            created: true
        }
    );
    let current = Target::Current(namespace(), free.workflow);
    let described = stage.store.describe(&current).await.expect("described");
    assert_eq!(described.expect("there").run.run, free.run);
}

pub(crate) async fn a_repeated_start_created_its_run(stage: Stage) {
    let start = stage.new_run("w");
    let created = Outcome::Started {
        run: start.run.clone(),
        created: true,
    };
    assert_eq!(stage.apply(start.clone()).await, created);
    assert_eq!(stage.apply(start.clone()).await, created);

    // Also when the instance has gone on to another run.
    let task = stage.claim_workflow("w").await;
    let next = Start {
        number: 2,
        ..stage.new_run("w")
    };
    let mut closing = closing(Closed::ContinuedAsNew(next.run.clone()));
    (closing.next, closing.to_parent) = (Some(next), None);
    let turn = Turn {
        then: Then::Close(Box::new(closing)),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));

    assert_eq!(stage.apply(start.clone()).await, created);
    assert_eq!(stage.load(&start.run).await.events.len(), 1);
}

pub(crate) async fn a_start_that_is_requested_again_is_answered_as_the_first_time(stage: Stage) {
    let start = |id: &str| Start {
        request: Some(request(id)),
        ..stage.new_run("w")
    };
    let first = start("one");
    let created = Outcome::Started {
        run: first.run.clone(),
        created: true,
    };
    assert_eq!(stage.apply(first).await, created);

    // It is another run that is asked for, under the same request.
    assert_eq!(stage.apply(start("one")).await, created);

    let other = stage.apply(start("two")).await;
    assert!(matches!(other, Outcome::Refused { .. }), "{other:?}");
    let claim = stage.claim_of(TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

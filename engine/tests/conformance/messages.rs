//! News for runs.

use std::num::NonZeroU32;

use coord_engine::model::{Closed, Due, Failure, RunStatus, TaskKind, Wait, WorkflowId};
use coord_engine::store::{Deliver, Outcome, Start, Store, Target, Terminate, Then, Turn, Write};

use crate::stage::{LONG, Stage, closing, namespace, record, request, signal_request};
use crate::writes::{is_done, seq};

pub(crate) async fn news_for_a_run_with_a_task_adds_none(stage: Stage) {
    let run = stage.start("w").await;
    let signals = (0..3).map(|_| Write::Deliver(Box::new(crate::stage::signal(&run))));

    stage.batch(signals).await;

    assert_eq!(stage.describe(&run).await.tasks.len(), 1);
    let claim = stage.claim_of(TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

pub(crate) async fn news_during_a_turn_is_never_forgotten(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let first = stage.apply(crate::stage::signal(&run)).await;
    let second = stage.apply(crate::stage::signal(&run)).await;
    assert_eq!((seq(&first), seq(&second)), (1, 2));

    let turn = Turn {
        drained: 1,
        then: Then::Wait {
            due: Some(Due::After(LONG)),
            wait: Some(Wait::Timer),
        },
        ..crate::stage::turn(&task)
    };
    assert_eq!(seq(&stage.apply(turn).await), 2);

    let task = stage.claim_workflow("w").await;
    let inbox = stage.load(&run).await.inbox;
    assert_eq!(inbox.iter().map(|it| it.seq).collect::<Vec<_>>(), [2]);
    // With nothing left, the next instant counts again.
    let turn = Turn {
        drained: 2,
        then: Then::Wait {
            due: Some(Due::After(LONG)),
            wait: Some(Wait::Timer),
        },
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    let waiting = stage.describe(&run).await;
    assert_eq!(waiting.run.status, RunStatus::Waiting);
    assert_eq!(waiting.run.wait, Some(Wait::Timer));
    let claim = stage.claim_of(TaskKind::Workflow, "w", 1);
    let claimed = stage.claim(&claim).await;
    assert!(claimed.tasks.is_empty());
    assert_eq!(claimed.next_due, Some(waiting.tasks[0].available_at));
    // And news makes it due at once.
    assert!(is_done(&stage.apply(crate::stage::signal(&run)).await));
    stage.claim_workflow("w").await;
}

pub(crate) async fn places_in_an_inbox_are_dense_whoever_writes(stage: Stage) {
    let run = stage.start("w").await;
    let send = async |store: &dyn Store| {
        for _ in 0..10 {
            let signals: Vec<_> = (0..3)
                .map(|_| Write::Deliver(Box::new(crate::stage::signal(&run))))
                .collect();
            store.apply(&signals).await.expect("delivered");
        }
    };

    tokio::join!(
        send(&*stage.store),
        send(&*stage.other),
        send(&*stage.store)
    );

    let places: Vec<_> = stage
        .load(&run)
        .await
        .inbox
        .iter()
        .map(|it| it.seq)
        .collect();
    assert_eq!(places, (1..=90).collect::<Vec<_>>());
}

pub(crate) async fn a_continued_run_loses_no_message(stage: Stage) {
    let first = stage.new_run("w");
    stage.apply(first.clone()).await;
    let current = Target::Current(namespace(), WorkflowId::new("w").expect("an id"));
    let signal = |id: &str| Deliver {
        target: current.clone(),
        request: Some(signal_request(id)),
        ..crate::stage::signal(&first.run)
    };
    let task = stage.claim_workflow("w").await;
    for id in ["1", "2", "3"] {
        assert!(is_done(&stage.apply(signal(id)).await));
    }

    let next = Start {
        number: 2,
        ..stage.new_run("w")
    };
    let mut closing = closing(Closed::ContinuedAsNew(next.run.clone()));
    (closing.next, closing.to_parent) = (Some(next.clone()), None);
    let turn = Turn {
        records: vec![record("ContinuedAsNew", 2)],
        drained: 1,
        then: Then::Close(Box::new(closing)),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));

    assert_eq!(seq(&stage.apply(signal("4")).await), 4);
    let repeated = stage.apply(signal("2")).await;
    assert_eq!(
        repeated,
        Outcome::Repeated {
            run: first.run.clone()
        }
    );
    let places: Vec<_> = stage
        .load(&next.run)
        .await
        .inbox
        .iter()
        .map(|it| it.seq)
        .collect();
    assert_eq!(places, [2, 3, 4]);
    assert_eq!(stage.load(&first.run).await.inbox, []);
    let described = stage.store.describe(&current).await.expect("described");
    assert_eq!(described.expect("there").run.run, next.run);
    assert_eq!(stage.claim_workflow("w").await.task.run, next.run);
}

pub(crate) async fn a_message_beyond_what_may_wait_is_refused(stage: Stage) {
    let first = stage.new_run("w");
    stage.apply(first.clone()).await;
    let current = Target::Current(namespace(), WorkflowId::new("w").expect("an id"));
    let signal = |id: &str| Deliver {
        target: current.clone(),
        request: Some(signal_request(id)),
        at_most: NonZeroU32::new(3),
        ..crate::stage::signal(&first.run)
    };
    let both = [signal("1"), signal("2")].map(|it| Write::Deliver(Box::new(it)));
    assert!(stage.batch(both).await.iter().all(is_done));
    // Within one batch, too.
    let both = [signal("3"), signal("4")].map(|it| Write::Deliver(Box::new(it)));
    let outcomes = stage.batch(both).await;
    assert!(is_done(&outcomes[0]));
    assert_eq!(outcomes[1], Outcome::Full);
    assert_eq!(stage.load(&first.run).await.inbox.len(), 3);
    let repeated = Outcome::Repeated {
        run: first.run.clone(),
    };
    assert_eq!(stage.apply(signal("2")).await, repeated, "it was sent");
    // What nobody bounds is delivered all the same.
    assert!(is_done(
        &stage.apply(crate::stage::signal(&first.run)).await
    ));

    // Three are taken, of which one is received; with the one that is not taken there are three.
    let received = |seq| record("SignalReceived", seq);
    let task = stage.claim_workflow("w").await;
    let turn = Turn {
        records: vec![received(2), received(3), received(4)],
        drained: 3,
        buffered: Some(2),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    assert_eq!(stage.apply(signal("4")).await, Outcome::Full);
    // Another one is received, and this is said by the turn alone.
    let task = stage.claim_workflow("w").await;
    let turn = Turn {
        history_length: 4,
        drained: 3,
        buffered: Some(1),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    assert!(is_done(&stage.apply(signal("4")).await), "it is sent again");
    assert_eq!(stage.apply(signal("5")).await, Outcome::Full);

    // The run that continues it has what it left: one in its history, two in its inbox.
    let next = Start {
        number: 2,
        records: vec![record("Started", 1), received(2)],
        ..stage.new_run("w")
    };
    let mut closing = closing(Closed::ContinuedAsNew(next.run.clone()));
    (closing.next, closing.to_parent) = (Some(next.clone()), None);
    let task = stage.claim_workflow("w").await;
    let turn = Turn {
        history_length: 4,
        records: vec![record("ContinuedAsNew", 5)],
        drained: 3,
        then: Then::Close(Box::new(closing)),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    assert_eq!(stage.apply(signal("5")).await, Outcome::Full);
    let wider = Deliver {
        at_most: NonZeroU32::new(4),
        ..signal("5")
    };
    assert!(is_done(&stage.apply(wider).await));
}

pub(crate) async fn a_repeated_command_is_carried_out_once(stage: Stage) {
    let run = stage.start("w").await;
    let signal = Deliver {
        request: Some(signal_request("r")),
        ..crate::stage::signal(&run)
    };
    let twice = [
        Write::Deliver(Box::new(signal.clone())),
        Write::Deliver(Box::new(signal.clone())),
    ];
    let repeated = Outcome::Repeated { run: run.clone() };
    let outcomes = stage.batch(twice).await;
    assert!(is_done(&outcomes[0]));
    assert_eq!(outcomes[1], repeated);

    let terminate = Terminate {
        target: Target::Run(run.clone()),
        record: record("Terminated", 0),
        closing: closing(Closed::Terminated(Failure::new("enough"))),
        // The same id serves another kind of command.
        request: Some(request("r")),
    };
    assert!(is_done(&stage.apply(terminate.clone()).await));

    assert_eq!(stage.apply(terminate).await, repeated);
    assert_eq!(
        stage.apply(signal).await,
        repeated,
        "also when it is closed"
    );
}

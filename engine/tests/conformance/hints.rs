//! What tells others that there is something to do.

use std::time::Duration;

use coord_engine::model::{Due, TaskKind};
use coord_engine::store::{Ready, Then, Turn, Write};

use crate::stage::{Stage, activity, namespace, record, signal, turn};

pub(crate) async fn a_batch_says_what_it_leaves_to_be_claimed(stage: Stage) {
    let ready = async |write: Write| {
        let applied = stage.store.apply(&[write]).await.expect("applied");
        let tell = |ready: Ready| {
            assert_eq!(ready.namespace, namespace());
            let wait = ready.due.since(applied.now);
            (ready.kind, ready.queue.to_string(), wait)
        };
        applied.ready.into_iter().map(tell).collect::<Vec<_>>()
    };
    let start = stage.new_run("w");
    let run = start.run.clone();
    let now = |kind: TaskKind, queue: &str| (kind, queue.to_owned(), Duration::ZERO);

    let started = ready(Write::Start(Box::new(start))).await;
    assert_eq!(started, [now(TaskKind::Workflow, "w")]);

    let task = stage.claim_workflow("w").await;
    let during = ready(Write::Deliver(Box::new(signal(&run)))).await;
    assert_eq!(during, [], "the turn under way finds it");

    let scheduled = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![activity(1, "elsewhere")],
        ..turn(&task)
    };
    let turned = ready(Write::Turn(Box::new(scheduled))).await;
    let both = [
        now(TaskKind::Activity, "elsewhere"),
        now(TaskKind::Workflow, "w"),
    ];
    assert_eq!(turned.len(), 2, "{turned:?}");
    assert!(both.iter().all(|one| turned.contains(one)), "{turned:?}");

    let task = stage.claim_workflow("w").await;
    let waits = Turn {
        history_length: 2,
        drained: 1,
        then: Then::Wait {
            due: Some(Due::After(Duration::from_mins(1))),
            wait: None,
        },
        ..turn(&task)
    };
    let slept = ready(Write::Turn(Box::new(waits))).await;
    let [(TaskKind::Workflow, queue, wait)] = slept.as_slice() else {
        panic!("{slept:?}")
    };
    assert_eq!(queue, "w");
    assert!(*wait > Duration::from_secs(50), "{wait:?}");

    for _ in 0..2 {
        // The second time it is due already; but a claim may have passed it by while it was locked.
        let delivered = ready(Write::Deliver(Box::new(signal(&run)))).await;
        assert_eq!(delivered, [now(TaskKind::Workflow, "w")]);
    }
    let activity = stage.claim_activity("elsewhere").await;
    let settled = ready(Write::Settle(crate::stage::settle(&activity))).await;
    assert_eq!(settled, [now(TaskKind::Workflow, "w")]);
}

pub(crate) async fn hints_are_read_in_their_order_by_all(stage: Stage) {
    assert_eq!(stage.other.hints(None).await.expect("read").messages, []);
    let before = stage.other.hints(None).await.expect("read").last;
    for message in ["one\nwf:a:b", "two", "three"] {
        stage.store.hint(message).await.expect("left");
    }

    let hints = stage.other.hints(Some(before)).await.expect("read");

    let messages: Vec<_> = hints
        .messages
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(messages, ["one\nwf:a:b", "two", "three"]);
    assert_eq!(hints.last, hints.messages[2].0);
    let after_two = stage.store.hints(Some(hints.messages[1].0)).await;
    assert_eq!(after_two.expect("read").messages, hints.messages[2..]);
    let after_all = stage.store.hints(Some(hints.last)).await.expect("read");
    assert_eq!((after_all.last, after_all.messages.len()), (hints.last, 0));
}

pub(crate) async fn old_hints_go(stage: Stage) {
    let many = "INSERT INTO workflow_wakes (message)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80)
        SELECT 'x' FROM n AS a, n AS b";
    if !stage.database.execute(many).await {
        return;
    }
    let oldest = async || {
        let first = stage.store.hints(Some(0)).await.expect("read");
        first.messages.first().expect("some are there").0
    };
    let mut left = 0;
    while oldest().await == 1 {
        assert!(left <= 500, "after so many new ones the old ones go");
        stage.store.hint("y").await.expect("left");
        left += 1;
    }

    let last = stage.store.hints(None).await.expect("read").last;
    assert!(last - oldest().await >= 4999, "the last ones stay");
}

//! What becomes of writes.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_engine::model::{
    Attempt, AttemptEnd, Closed, Due, Failure, ParentClose, ParentLink, RunStatus, Timeouts, Wait,
    WorkflowId,
};
use coord_engine::store::{
    Append, BlockedReason, ClaimedTask, Deliver, Fence, Held, Holder, Lease, NewActivity,
    OnDuplicate, Outcome, PutBack, PutBackHow, Settle, Start, Target, Terminate, Then, Turn, Write,
};

use crate::stage::{
    LONG, Stage, closing, completed, held, namespace, owner, record, request, settle,
    signal_request, workflow_task,
};

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

pub(crate) async fn a_failed_call_leaves_nothing(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let claimed = stage.claim_activity("w").await;
    let settle = Settle {
        attempt: Some(attempt(&stage, &claimed).await),
        ..settle(&claimed)
    };
    let writes = [
        Write::Start(Box::new(stage.new_run("other"))),
        Write::Deliver(Box::new(stage.signal(&run))),
        Write::Settle(settle.clone()),
    ];
    let hide = "ALTER TABLE activity_attempts RENAME TO hidden";
    if !stage.database.execute(hide).await {
        return;
    }

    // Its last statement fails.
    let error = stage
        .store
        .apply(&writes)
        .await
        .expect_err("a table is missing");

    let back = "ALTER TABLE hidden RENAME TO activity_attempts";
    assert!(stage.database.execute(back).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(stage.load(&run).await.inbox, []);
    stage.start("other").await;
    assert!(is_done(&stage.apply(settle).await));
}

async fn attempt(stage: &Stage, claimed: &ClaimedTask) -> Attempt {
    Attempt {
        id: claimed.task.attempt_id.clone().expect("an id"),
        task: claimed.task.id.clone(),
        run: claimed.task.run.clone(),
        number: claimed.task.attempt,
        owner: Some(owner("a")),
        end: AttemptEnd::Failed,
        failure: Failure::new("away"),
        ended_at: stage.now().await,
    }
}

pub(crate) async fn a_lost_write_does_not_take_its_batch_along(stage: Stage) {
    let (lost, kept) = (stage.start("lost").await, stage.start("kept").await);
    let late = stage.claim_and_expire("lost").await;
    let good = stage.claim_workflow("kept").await;
    let late = Turn {
        children: vec![stage.new_run("child")],
        records: vec![record("Late", 2)],
        ..stage.turn(&late)
    };
    let good = Turn {
        records: vec![record("Good", 2)],
        ..stage.turn(&good)
    };

    let outcomes = stage
        .batch([Write::Turn(Box::new(late)), Write::Turn(Box::new(good))])
        .await;

    assert_eq!(outcomes[0], Outcome::Lost);
    assert!(is_done(&outcomes[1]));
    assert_eq!(stage.load(&lost).await.events.len(), 1);
    assert_eq!(stage.load(&kept).await.events.len(), 2);
}

pub(crate) async fn an_expired_lease_writes_nothing(stage: Stage) {
    let run = stage.start("w").await;
    let late = stage.claim_and_expire("w").await;
    let append = Append {
        held: held(&late),
        run: run.clone(),
        records: vec![record("Late", 2)],
    };
    let put_back = PutBack {
        held: held(&late),
        how: PutBackHow::Untouched,
    };

    assert_eq!(stage.apply(append).await, Outcome::Lost);
    assert_eq!(stage.apply(stage.turn(&late)).await, Outcome::Lost);
    assert_eq!(stage.apply(put_back).await, Outcome::Lost);
    assert_eq!(stage.load(&run).await.events.len(), 1);
}

pub(crate) async fn a_late_owner_writes_nothing_after_a_takeover(stage: Stage) {
    let run = stage.start("w").await;
    let late = stage.claim_and_expire("w").await;
    assert_eq!(stage.sweep().await.ready, 1);
    let next = stage.claim_workflow("w").await;
    assert!(next.task.epoch > late.task.epoch);

    let late = Turn {
        records: vec![record("Late", 2)],
        ..stage.turn(&late)
    };
    let good = Turn {
        records: vec![record("Good", 2)],
        ..stage.turn(&next)
    };

    assert_eq!(stage.apply(late).await, Outcome::Lost);
    assert!(is_done(&stage.apply(good).await));
    assert_eq!(stage.load(&run).await.events[1].kind, "Good");
}

pub(crate) async fn an_epoch_never_comes_twice(stage: Stage) {
    let run = stage.start("w").await;
    let mut last = 0;
    for _ in 0..3 {
        let task = stage.claim_workflow("w").await;
        assert!(task.task.epoch > last, "a claim after a turn");
        last = task.task.epoch;
        let put_back = PutBack {
            held: held(&task),
            how: PutBackHow::Untouched,
        };
        assert!(is_done(&stage.apply(put_back).await));
        let task = stage.claim_workflow("w").await;
        assert!(task.task.epoch > last, "a claim after a task was put back");
        last = task.task.epoch;
        // The task goes with the turn, and comes again with the signal.
        assert!(is_done(
            &stage
                .apply(Turn {
                    drained: stage.describe(&run).await.run.inbox_seq,
                    ..stage.turn(&task)
                })
                .await
        ));
        assert!(stage.describe(&run).await.tasks.is_empty());
        assert!(is_done(&stage.apply(stage.signal(&run)).await));
    }
}

const TOUCH_RUNS: &str = "UPDATE workflow_runs SET updated_at = updated_at";

pub(crate) async fn a_lease_is_whole_after_a_lock_wait(stage: Stage) {
    let ttl = Duration::from_secs(5);
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let lease = Lease {
        owner: owner("a"),
        ttl,
    };
    let activity = NewActivity {
        lease: Some((lease, stage.attempt())),
        ..stage.activity(1, "w")
    };
    let turn = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![activity],
        then: Then::Keep,
        ..stage.turn(&task)
    };
    let Some(holding) = stage.database.hold(TOUCH_RUNS).await else {
        return;
    };

    let (outcome, released) = tokio::join!(stage.apply(turn), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        holding.let_go().await
    });

    assert!(is_done(&outcome));
    let activity = coord_engine::model::TaskId::of(&run, 1);
    let renewal = coord_engine::store::Renewal {
        owner: owner("a"),
        ttl: Duration::from_millis(1),
        items: vec![coord_engine::store::RenewalItem {
            task: activity,
            epoch: 1,
            beat: None,
        }],
    };
    let renewed = stage.store.renew(&renewal).await.expect("an answer");
    let end = renewed.items[0].expect("held").lease_expires_at.as_micros();
    assert!(
        end >= released + 5_000_000,
        "the lease ends {end}, the lock was held until {released}"
    );
}

pub(crate) async fn a_fence_is_judged_after_a_lock_wait(stage: Stage) {
    let run = stage.start("w").await;
    let claim = coord_engine::store::Claim {
        ttl: Duration::from_millis(400),
        ..stage.claim_of(coord_engine::model::TaskKind::Workflow, "w", 1)
    };
    let task = stage.claim(&claim).await.tasks.pop().expect("due");
    let turn = Turn {
        records: vec![record("Late", 2)],
        ..stage.turn(&task)
    };
    let Some(holding) = stage.database.hold(TOUCH_RUNS).await else {
        return;
    };

    let (outcome, _) = tokio::join!(stage.apply(turn), async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        holding.let_go().await
    });

    assert_eq!(outcome, Outcome::Lost);
    assert_eq!(stage.load(&run).await.events.len(), 1);
}

pub(crate) async fn news_for_a_run_with_a_task_adds_none(stage: Stage) {
    let run = stage.start("w").await;
    let signals = (0..3).map(|_| Write::Deliver(Box::new(stage.signal(&run))));

    stage.batch(signals).await;

    assert_eq!(stage.describe(&run).await.tasks.len(), 1);
    let claim = stage.claim_of(coord_engine::model::TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

pub(crate) async fn news_during_a_turn_is_never_forgotten(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let first = stage.apply(stage.signal(&run)).await;
    let second = stage.apply(stage.signal(&run)).await;
    assert_eq!((seq(&first), seq(&second)), (1, 2));

    let turn = Turn {
        drained: 1,
        then: Then::Wait {
            due: Some(Due::After(LONG)),
            wait: Some(Wait::Timer),
        },
        ..stage.turn(&task)
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
        ..stage.turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    let waiting = stage.describe(&run).await;
    assert_eq!(waiting.run.status, RunStatus::Waiting);
    assert_eq!(waiting.run.wait, Some(Wait::Timer));
    let claim = stage.claim_of(coord_engine::model::TaskKind::Workflow, "w", 1);
    let claimed = stage.claim(&claim).await;
    assert!(claimed.tasks.is_empty());
    assert_eq!(claimed.next_due, Some(waiting.tasks[0].available_at));
    // And news makes it due at once.
    assert!(is_done(&stage.apply(stage.signal(&run)).await));
    stage.claim_workflow("w").await;
}

fn seq(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Done { inbox_seq, .. } | Outcome::Taken { inbox_seq, .. } => *inbox_seq,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn places_in_an_inbox_are_dense_whoever_writes(stage: Stage) {
    let run = stage.start("w").await;
    let send = async |store: &dyn coord_engine::store::Store| {
        for _ in 0..10 {
            let signals: Vec<_> = (0..3)
                .map(|_| Write::Deliver(Box::new(stage.signal(&run))))
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

pub(crate) async fn a_closed_run_changes_no_more(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    stage.apply(stage.signal(&run)).await;
    let task = stage.claim_workflow("w").await;
    let close = Turn {
        history_length: 2,
        records: vec![record("Completed", 3)],
        then: Then::Close(Box::new(closing(completed()))),
        ..stage.turn(&task)
    };
    assert!(is_done(&stage.apply(close.clone()).await));

    assert_eq!(stage.apply(close).await, Outcome::Lost);
    assert_eq!(stage.apply(stage.signal(&run)).await, Outcome::Closed);
    assert_eq!(stage.apply(settle(&activity)).await, Outcome::Lost);
    let closed = stage.describe(&run).await;
    assert_eq!(closed.tasks, []);
    assert_eq!(closed.run.closed, Some(completed()));
    assert_eq!(closed.run.history_length, 3);
    assert_eq!(stage.load(&run).await.inbox, []);
}

/// A parent with a child of each policy, all open; the parent's task is claimed.
async fn family(stage: &Stage) -> (Start, Vec<Start>) {
    let parent = stage.new_run("parent");
    stage.apply(parent.clone()).await;
    let task = stage.claim_workflow("parent").await;
    let children: Vec<_> = [
        ParentClose::Terminate,
        ParentClose::RequestCancel,
        ParentClose::Abandon,
    ]
    .into_iter()
    .zip(7..)
    .map(|(on_close, step)| Start {
        parent: Some(ParentLink {
            run: parent.run.clone(),
            step,
            on_close,
        }),
        ..stage.new_run(on_close.as_str())
    })
    .collect();
    let turn = Turn {
        children: children.clone(),
        not_started: Some(record("ChildFailed", 0)),
        ..stage.turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    (parent, children)
}

pub(crate) async fn a_close_reaches_parent_and_children(stage: Stage) {
    let (parent, children) = family(&stage).await;
    let child = stage.claim_workflow("abandon").await;
    let close = Turn {
        records: vec![record("Completed", 2)],
        then: Then::Close(Box::new(closing(completed()))),
        ..stage.turn(&child)
    };
    assert!(is_done(&stage.apply(close).await));
    let told = stage.load(&parent.run).await.inbox;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].kind.as_str(), told[0].step),
        ("ChildCompleted", Some(9))
    );

    let parent = stage.claim_workflow("parent").await;
    let close = Turn {
        records: vec![record("Completed", 2)],
        then: Then::Close(Box::new(closing(completed()))),
        ..stage.turn(&parent)
    };
    assert!(is_done(&stage.apply(close).await));

    for (child, told) in children
        .iter()
        .zip([Some("Terminated"), Some("CancelRequested"), None])
    {
        let inbox = stage.load(&child.run).await.inbox;
        assert_eq!(inbox.first().map(|it| it.kind.as_str()), told);
    }
}

pub(crate) async fn a_child_whose_id_is_taken_is_answered_to_its_parent(stage: Stage) {
    stage.start("terminate").await;

    let (parent, _) = family(&stage).await;

    let inbox = stage.load(&parent.run).await.inbox;
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (inbox[0].kind.as_str(), inbox[0].step),
        ("ChildFailed", Some(7))
    );
    stage.claim_workflow("parent").await;
}

pub(crate) async fn a_continued_run_loses_no_message(stage: Stage) {
    let first = stage.new_run("w");
    stage.apply(first.clone()).await;
    let current = Target::Current(namespace(), WorkflowId::new("w").expect("an id"));
    let signal = |id: &str| Deliver {
        target: current.clone(),
        request: signal_request(id),
        ..stage.signal(&first.run)
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
        ..stage.turn(&task)
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

pub(crate) async fn an_id_is_started_once(stage: Stage) {
    let starts: Vec<_> = (0..8).map(|_| stage.new_run("w")).collect();
    let start = async |start: &Start, store: &dyn coord_engine::store::Store| {
        let write = Write::Start(Box::new(start.clone()));
        store.apply(&[write]).await.expect("applied").outcomes
    };
    let mut tasks = Vec::new();
    for (place, one) in starts.iter().enumerate() {
        let store = if place % 2 == 0 {
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
    let claim = stage.claim_of(coord_engine::model::TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

/// All of `futures`, side by side.
pub(crate) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    std::future::poll_fn(|context| {
        let mut all = true;
        for (future, done) in &mut waiting {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => all = false,
                }
            }
        }
        if all {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

pub(crate) async fn a_name_of_a_lost_turn_is_free_again(stage: Stage) {
    stage.start("parent").await;
    let late = stage.claim_and_expire("parent").await;
    let late = Turn {
        children: vec![stage.new_run("child")],
        ..stage.turn(&late)
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
        ..stage.turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));

    assert_eq!(stage.apply(start.clone()).await, created);
    assert_eq!(stage.load(&start.run).await.events.len(), 1);
}

pub(crate) async fn a_repeated_command_is_carried_out_once(stage: Stage) {
    let run = stage.start("w").await;
    let signal = Deliver {
        request: signal_request("r"),
        ..stage.signal(&run)
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

pub(crate) async fn an_append_that_is_repeated_adds_nothing(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let append = |count: u64| Append {
        held: held(&task),
        run: run.clone(),
        records: (2..2 + count).map(|seq| record("Step", seq)).collect(),
    };
    assert!(is_done(&stage.apply(append(2)).await));
    assert!(is_done(&stage.apply(append(3)).await));

    let loaded = stage.load(&run).await;
    let numbers: Vec<_> = loaded.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(loaded.run.history_length, 1, "as of the last turn");
}

pub(crate) async fn an_activity_and_its_run_are_committed_together(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    let lease = Lease {
        owner: owner("a"),
        ttl: LONG,
    };
    let turn = Turn {
        fence: Fence::Activity(held(&activity)),
        history_length: 2,
        records: vec![record("ActivityCompleted", 3)],
        then: Then::Take(lease),
        ..stage.turn(&activity)
    };

    let taken = stage.apply(turn.clone()).await;

    let Outcome::Taken { epoch, .. } = taken else {
        panic!("{taken:?}");
    };
    assert_eq!(stage.apply(turn).await, Outcome::Lost, "it happened");
    let held = Held {
        task: workflow_task(&run),
        epoch,
        holder: Holder::Owner(owner("a")),
    };
    let close = Turn {
        fence: Fence::Task(held),
        history_length: 3,
        records: vec![record("Completed", 4)],
        then: Then::Close(Box::new(closing(completed()))),
        ..stage.turn(&activity)
    };
    assert!(is_done(&stage.apply(close).await));
    assert_eq!(stage.load(&run).await.events.len(), 4);
}

pub(crate) async fn a_turn_on_top_of_news_is_stale(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    stage.apply(stage.signal(&run)).await;
    let turn = Turn {
        fence: Fence::Activity(held(&activity)),
        history_length: 2,
        records: vec![record("ActivityCompleted", 3)],
        ..stage.turn(&activity)
    };
    assert_eq!(
        stage.apply(turn.clone()).await,
        Outcome::Stale,
        "a message waits"
    );

    // An owner that was lost left an event behind.
    let task = stage.claim_workflow("w").await;
    let append = Append {
        held: held(&task),
        run: run.clone(),
        records: vec![record("Step", 3)],
    };
    assert!(is_done(&stage.apply(append).await));
    let turn = Turn { drained: 1, ..turn };
    assert_eq!(
        stage.apply(turn.clone()).await,
        Outcome::Stale,
        "its task is leased"
    );
    let put_back = PutBack {
        held: held(&task),
        how: PutBackHow::Untouched,
    };
    assert!(is_done(&stage.apply(put_back).await));
    assert_eq!(
        stage.apply(turn.clone()).await,
        Outcome::Stale,
        "its history is longer"
    );

    let turn = Turn {
        history_length: 3,
        records: vec![record("ActivityCompleted", 4)],
        ..turn
    };
    assert!(is_done(&stage.apply(turn).await));
}

pub(crate) async fn a_run_that_is_set_aside_is_resumed(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let put_back = PutBack {
        held: held(&task),
        how: PutBackHow::Blocked {
            reason: BlockedReason::Replay,
            error: "another step".to_owned(),
        },
    };
    assert!(is_done(&stage.apply(put_back).await));
    stage.apply(stage.signal(&run)).await;
    let aside = stage.describe(&run).await;
    assert_eq!(aside.tasks[0].blocked.as_deref(), Some("replay"));
    assert_eq!(aside.tasks[0].last_error.as_deref(), Some("another step"));
    let claim = stage.claim_of(coord_engine::model::TaskKind::Workflow, "w", 1);
    assert!(stage.claim(&claim).await.tasks.is_empty());

    let resume = Write::Resume(Target::Run(run.clone()));
    assert!(is_done(&stage.apply(resume.clone()).await));

    assert_eq!(stage.apply(resume).await, Outcome::NotFound);
    assert_eq!(stage.claim_workflow("w").await.task.attempt, 1);
}

pub(crate) async fn a_terminated_run_ends_after_what_was_appended(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let append = Append {
        held: held(&task),
        run: run.clone(),
        records: vec![record("Step", 2)],
    };
    assert!(is_done(&stage.apply(append.clone()).await));
    let terminate = Terminate {
        target: Target::Run(run.clone()),
        record: record("Terminated", 0),
        closing: closing(Closed::Terminated(Failure::new("enough"))),
        request: None,
    };

    assert!(is_done(&stage.apply(terminate).await));

    assert_eq!(stage.apply(append).await, Outcome::Lost);
    let loaded = stage.load(&run).await;
    let last = loaded.events.last().expect("an end");
    assert_eq!((last.seq, last.kind.as_str()), (3, "Terminated"));
    assert_eq!(loaded.run.history_length, 3);
    let closed = Closed::Terminated(Failure::new("enough"));
    assert_eq!(loaded.run.closed, Some(closed));
}

pub(crate) async fn a_failed_attempt_is_kept_and_comes_again(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let first = stage.claim_activity("w").await;
    let attempt = attempt(&stage, &first).await;
    let put_back = PutBack {
        held: held(&first),
        how: PutBackHow::Retry {
            due: Due::Now,
            error: "away".to_owned(),
            attempt: Some(attempt.clone()),
        },
    };

    assert!(is_done(&stage.apply(put_back).await));

    let second = stage.claim_activity("w").await;
    assert_eq!(second.task.attempt, 2);
    assert_ne!(second.task.attempt_id, first.task.attempt_id);
    let described = stage.describe(&run).await;
    assert_eq!(described.attempts, [attempt]);
    assert_eq!(described.tasks[0].last_error.as_deref(), Some("away"));
    assert!(is_done(&stage.apply(settle(&second)).await));
    assert_eq!(stage.load(&run).await.inbox[0].step, Some(1));
}

pub(crate) async fn a_value_that_the_database_refuses_is_invalid(stage: Stage) {
    let run = stage.start("w").await;
    let good = Write::Deliver(Box::new(stage.signal(&run)));
    // PostgreSQL takes no zero in a text, MariaDB no name that is longer than its column.
    let bad = Write::Deliver(Box::new(Deliver {
        record: record(&"x\0".repeat(40), 0),
        ..stage.signal(&run)
    }));

    let applied = stage.store.apply(&[good.clone(), bad.clone()]).await;

    if stage.database.locks_rows() {
        let error = applied.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert_eq!(stage.load(&run).await.inbox, []);
        let error = stage.store.apply(&[bad]).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    }
    assert!(is_done(&stage.batch([good]).await[0]));
}

//! What a claim entitles to, and until when.

use std::time::Duration;

use coord_engine::model::{TaskId, TaskKind, Timeouts};
use coord_engine::store::{
    Append, Claim, Fence, Held, Holder, Lease, NewActivity, Outcome, PutBack, PutBackHow, Renewal,
    RenewalItem, Then, Turn,
};

use crate::stage::{LONG, Stage, closing, completed, held, owner, record, workflow_task};
use crate::writes::is_done;

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
    assert_eq!(stage.apply(crate::stage::turn(&late)).await, Outcome::Lost);
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
        ..crate::stage::turn(&late)
    };
    let good = Turn {
        records: vec![record("Good", 2)],
        ..crate::stage::turn(&next)
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
                    ..crate::stage::turn(&task)
                })
                .await
        ));
        assert!(stage.describe(&run).await.tasks.is_empty());
        assert!(is_done(&stage.apply(crate::stage::signal(&run)).await));
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
        ..crate::stage::activity(1, "w")
    };
    let turn = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![activity],
        then: Then::Keep,
        ..crate::stage::turn(&task)
    };
    let Some(holding) = stage.database.hold(TOUCH_RUNS).await else {
        return;
    };

    let (outcome, released) = tokio::join!(stage.apply(turn), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        holding.let_go().await
    });

    assert!(is_done(&outcome));
    let activity = TaskId::of(&run, 1);
    let renewal = Renewal {
        owner: owner("a"),
        ttl: Duration::from_millis(1),
        items: vec![RenewalItem {
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
    let claim = Claim {
        ttl: Duration::from_millis(400),
        ..stage.claim_of(TaskKind::Workflow, "w", 1)
    };
    let task = stage.claim(&claim).await.tasks.pop().expect("due");
    let turn = Turn {
        records: vec![record("Late", 2)],
        ..crate::stage::turn(&task)
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

pub(crate) async fn an_activity_and_its_run_are_committed_together(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    let lease = Lease {
        owner: owner("a"),
        ttl: LONG,
    };
    let turn = Turn {
        fence: Fence::Activities(vec![held(&activity)]),
        history_length: 2,
        records: vec![record("ActivityCompleted", 3)],
        then: Then::Take(lease),
        ..crate::stage::turn(&activity)
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
        ..crate::stage::turn(&activity)
    };
    assert!(is_done(&stage.apply(close).await));
    assert_eq!(stage.load(&run).await.events.len(), 4);
}

pub(crate) async fn activities_end_together_with_their_run_or_not_at_all(stage: Stage) {
    let run = stage.start_with_activities("w", [1, 2, 3]).await;
    let claim = stage.claim_of(TaskKind::Activity, "w", 3);
    let activities = stage.claim(&claim).await.tasks;
    let ended: Vec<_> = activities.iter().map(held).collect();
    let turn = |ended: Vec<Held>, history_length, first| Turn {
        fence: Fence::Activities(ended),
        history_length,
        records: vec![
            record("ActivityCompleted", first),
            record("ActivityCompleted", first + 1),
        ],
        ..crate::stage::turn(&activities[0])
    };
    let late = Held {
        epoch: ended[2].epoch + 1,
        ..ended[2].clone()
    };

    let of_nobody = stage.apply(turn(Vec::new(), 4, 5)).await;
    let with_a_lost_one = stage.apply(turn(vec![ended[0].clone(), late], 4, 5)).await;

    assert_eq!(of_nobody, Outcome::Lost);
    assert_eq!(with_a_lost_one, Outcome::Lost);
    assert_eq!(stage.describe(&run).await.tasks.len(), 3, "none has ended");
    assert_eq!(stage.load(&run).await.events.len(), 4);

    let two = turn(ended[..2].to_vec(), 4, 5);
    assert!(is_done(&stage.apply(two.clone()).await));
    assert_eq!(stage.apply(two).await, Outcome::Lost, "it happened");
    let described = stage.describe(&run).await;
    let left: Vec<_> = described.tasks.iter().map(|task| &task.task).collect();
    assert_eq!(left, [&ended[2].task]);

    // The others ended along with the run's own end leave nothing.
    let close = Turn {
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(ended[2..].to_vec(), 6, 7)
    };
    assert!(is_done(&stage.apply(close).await));
    assert!(stage.describe(&run).await.tasks.is_empty());
    assert_eq!(stage.load(&run).await.events.len(), 8);
}

pub(crate) async fn a_turn_on_top_of_news_is_stale(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    stage.apply(crate::stage::signal(&run)).await;
    let turn = Turn {
        fence: Fence::Activities(vec![held(&activity)]),
        history_length: 2,
        records: vec![record("ActivityCompleted", 3)],
        ..crate::stage::turn(&activity)
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

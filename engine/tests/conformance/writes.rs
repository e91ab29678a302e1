//! What becomes of writes.

use coord_core::ErrorKind;
use coord_engine::model::{Attempt, AttemptEnd, Due, Failure, TaskKind, Timeouts};
use coord_engine::store::{
    Append, BlockedReason, ClaimedTask, Deliver, Outcome, PutBack, PutBackHow, Settle, Target,
    Turn, Write,
};

use crate::stage::{Stage, held, owner, record, settle};

pub(crate) fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

pub(crate) fn seq(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Done { inbox_seq, .. } | Outcome::Taken { inbox_seq, .. } => *inbox_seq,
        other => panic!("{other:?}"),
    }
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
        Write::Deliver(Box::new(crate::stage::signal(&run))),
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
        ..crate::stage::turn(&late)
    };
    let good = Turn {
        records: vec![record("Good", 2)],
        ..crate::stage::turn(&good)
    };

    let outcomes = stage
        .batch([Write::Turn(Box::new(late)), Write::Turn(Box::new(good))])
        .await;

    assert_eq!(outcomes[0], Outcome::Lost);
    assert!(is_done(&outcomes[1]));
    assert_eq!(stage.load(&lost).await.events.len(), 1);
    assert_eq!(stage.load(&kept).await.events.len(), 2);
}

pub(crate) async fn a_value_that_the_database_refuses_is_invalid(stage: Stage) {
    let run = stage.start("w").await;
    let good = Write::Deliver(Box::new(crate::stage::signal(&run)));
    // PostgreSQL takes no zero in a text, MariaDB no name that is longer than its column.
    let bad = Write::Deliver(Box::new(Deliver {
        record: record(&"x\0".repeat(40), 0),
        ..crate::stage::signal(&run)
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
    stage.apply(crate::stage::signal(&run)).await;
    let aside = stage.describe(&run).await;
    assert_eq!(aside.tasks[0].blocked.as_deref(), Some("replay"));
    assert_eq!(aside.tasks[0].last_error.as_deref(), Some("another step"));
    let claim = stage.claim_of(TaskKind::Workflow, "w", 1);
    assert!(stage.claim(&claim).await.tasks.is_empty());

    let resume = Write::Resume(Target::Run(run.clone()));
    assert!(is_done(&stage.apply(resume.clone()).await));

    assert_eq!(stage.apply(resume).await, Outcome::NotFound);
    assert_eq!(stage.claim_workflow("w").await.task.attempt, 1);
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

//! Leases: given, kept, ended.

use std::collections::HashSet;
use std::time::Duration;

use coord_engine::model::{
    BuildId, Due, Payload, Priority, TaskKind, Timeouts, Timestamp, TypeName,
};
use coord_engine::store::{
    Claim, Claimed, ClaimedTask, Held, Holder, Outcome, PutBack, PutBackHow, Renewal, RenewalItem,
    Settle, Start, Write,
};

use crate::stage::{LONG, Stage, held, owner, queue, record, settle};
use crate::writes::join_all;

pub(crate) async fn claims_go_by_priority_and_age(stage: Stage) {
    let start = |workflow: &str, priority: u8, due: i64| Start {
        queue: queue("q"),
        priority: Priority::new(priority).expect("a priority"),
        due: Due::At(Timestamp::from_micros(due)),
        ..stage.new_run(workflow)
    };
    for (workflow, priority, due) in [
        ("late", 5, 30),
        ("early", 5, 10),
        ("urgent", 0, 40),
        ("idle", 9, 1),
        ("never", 0, i64::MAX / 4),
    ] {
        stage.apply(start(workflow, priority, due)).await;
    }
    // Of two that became due at the same instant, the smaller id goes first.
    let twins = [start("twin", 7, 20), start("other twin", 7, 20)];
    for twin in &twins {
        stage.apply(twin.clone()).await;
    }

    let mut order = Vec::new();
    for limit in [2, 5] {
        let claim = stage.claim_of(TaskKind::Workflow, "q", limit);
        let tasks = stage.claim(&claim).await.tasks;
        order.extend(tasks.into_iter().map(|it| it.task.workflow.to_string()));
    }

    assert_eq!(
        order,
        ["urgent", "early", "late", "twin", "other twin", "idle"]
    );
}

pub(crate) async fn two_claims_never_share_a_task(stage: Stage) {
    let starts = (0..60).map(|number| {
        Write::Start(Box::new(Start {
            queue: queue("q"),
            ..stage.new_run(&format!("w{number}"))
        }))
    });
    stage.batch(starts).await;
    let claim_all = async |store: &dyn coord_engine::store::Store| {
        let mut got = Vec::new();
        loop {
            let claim = stage.claim_of(TaskKind::Workflow, "q", 4);
            let tasks = store.claim(&claim).await.expect("an answer").tasks;
            if tasks.is_empty() {
                return got;
            }
            got.extend(tasks.into_iter().map(|it| it.task.id));
        }
    };

    // The same owner in all of them: only the claim tells them apart.
    let claims = vec![
        claim_all(&*stage.store),
        claim_all(&*stage.other),
        claim_all(&*stage.store),
        claim_all(&*stage.other),
    ];
    let got: Vec<_> = join_all(claims).await.into_iter().flatten().collect();

    let different: HashSet<_> = got.iter().cloned().collect();
    assert_eq!(different.len(), got.len(), "a task was given twice");
    let rest = stage.claim_of(TaskKind::Workflow, "q", 100);
    let rest = stage.claim(&rest).await.tasks.len();
    assert_eq!(got.len() + rest, 60);
}

pub(crate) async fn a_claim_takes_no_more_than_its_limit(stage: Stage) {
    for number in 0..3 {
        let start = Start {
            queue: queue("q"),
            priority: Priority::new(number).expect("a priority"),
            ..stage.new_run(&format!("w{number}"))
        };
        stage.apply(start).await;
    }

    let claim = stage.claim_of(TaskKind::Workflow, "q", 2);

    assert_eq!(stage.claim(&claim).await.tasks.len(), 2);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

pub(crate) async fn a_claim_takes_of_each_kind_what_it_wants(stage: Stage) {
    stage.start_with_activity("w", Timeouts::default()).await;
    for number in 0..3 {
        let start = Start {
            queue: queue("w"),
            ..stage.new_run(&format!("w{number}"))
        };
        stage.apply(start).await;
    }
    let later = Start {
        queue: queue("w"),
        due: Due::After(LONG),
        ..stage.new_run("later")
    };
    stage.apply(later).await;
    let claim = |kinds: &[(TaskKind, u32)]| Claim {
        wanted: kinds
            .iter()
            .map(|(kind, limit)| stage.wanted_of(*kind, *limit))
            .collect(),
        ..stage.claim_of(TaskKind::Workflow, "w", 1)
    };
    let of = |claimed: &Claimed, kind: TaskKind| {
        let tasks = claimed.tasks.iter();
        tasks.filter(|it| it.task.kind == kind).count()
    };

    let both = [(TaskKind::Workflow, 2), (TaskKind::Activity, 5)];
    let first = stage.claim(&claim(&both)).await;
    let second = stage.claim(&claim(&both)).await;
    let third = stage.claim(&claim(&both)).await;
    let activities = stage.claim(&claim(&[(TaskKind::Activity, 5)])).await;

    assert_eq!(of(&first, TaskKind::Workflow), 2);
    assert_eq!(of(&first, TaskKind::Activity), 1);
    let activity = first
        .tasks
        .iter()
        .find(|it| it.task.kind == TaskKind::Activity);
    let activity = activity.expect("an activity");
    assert!(activity.task.attempt_id.is_some() && activity.scheduled.is_some());
    // Of each kind that had none it is said when there will be one.
    assert_eq!(first.next_due, None);
    assert_eq!(of(&second, TaskKind::Workflow), 1);
    assert_eq!(second.tasks.len(), 1);
    assert_eq!(second.next_due, None);
    assert!(third.tasks.is_empty());
    let wait = third.next_due.expect("an instant").since(third.now);
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
    assert_eq!(activities.next_due, None, "it is of the other kind");
}

pub(crate) async fn a_claim_takes_only_what_it_knows(stage: Stage) {
    let build = |name: &str| BuildId::new(name).expect("a build");
    let start = |workflow: &str, name: &str, build: Option<BuildId>| Start {
        queue: queue("q"),
        name: TypeName::new(name).expect("a name"),
        build,
        ..stage.new_run(workflow)
    };
    stage.apply(start("strange", "strange", None)).await;
    stage.apply(start("old", "work", Some(build("1")))).await;
    stage.apply(start("new", "work", Some(build("2")))).await;
    stage.apply(start("any", "work", None)).await;

    let of_build = Claim {
        builds: Some(vec![build("2")]),
        ..stage.claim_of(TaskKind::Workflow, "q", 9)
    };
    let of_all = stage.claim_of(TaskKind::Workflow, "q", 9);
    let names = async |claim: &Claim| {
        let tasks = stage.claim(claim).await.tasks;
        let names: HashSet<_> = tasks
            .into_iter()
            .map(|it| it.task.workflow.to_string())
            .collect();
        names
    };

    assert_eq!(
        names(&of_build).await,
        HashSet::from(["new".to_owned(), "any".to_owned()])
    );
    assert_eq!(names(&of_all).await, HashSet::from(["old".to_owned()]));
    let activities = stage.claim_of(TaskKind::Activity, "q", 9);
    assert!(stage.claim(&activities).await.tasks.is_empty());
}

pub(crate) async fn a_claim_passes_locked_rows_by(stage: Stage) {
    for workflow in ["locked", "free"] {
        let start = Start {
            queue: queue("q"),
            ..stage.new_run(workflow)
        };
        stage.apply(start).await;
    }
    if !stage.database.locks_rows() {
        return;
    }
    let lock = "UPDATE workflow_tasks SET created_at = created_at WHERE workflow_id = 'locked'";
    let holding = stage.database.hold(lock).await.expect("row locks");

    let claim = stage.claim_of(TaskKind::Workflow, "q", 2);
    let passed = stage.claim(&claim).await.tasks;

    assert_eq!(passed.len(), 1);
    assert_eq!(passed[0].task.workflow.as_str(), "free");
    holding.let_go().await;
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
}

pub(crate) async fn an_empty_claim_says_when_to_come_again(stage: Stage) {
    let claim = stage.claim_of(TaskKind::Workflow, "w", 1);
    assert_eq!(stage.claim(&claim).await.next_due, None);
    let start = Start {
        due: Due::After(LONG),
        ..stage.new_run("w")
    };
    stage.apply(start).await;

    let claimed = stage.claim(&claim).await;

    let wait = claimed.next_due.expect("an instant").since(claimed.now);
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
}

pub(crate) async fn a_claimed_activity_comes_with_what_scheduled_it(stage: Stage) {
    let timeouts = Timeouts {
        start_to_close: Some(Duration::from_secs(9)),
        heartbeat: Some(Duration::from_secs(30)),
        ..Timeouts::default()
    };
    stage.start_with_activity("w", timeouts).await;

    let claimed = stage.claim_activity("w").await;

    assert_eq!(claimed.scheduled, Some(record("ActivityScheduled", 2)));
    assert_eq!((claimed.task.step, claimed.task.attempt), (Some(1), 1));
    assert!(claimed.task.attempt_id.is_some());
    let now = stage.now().await;
    let left = claimed.task.deadline_at.since(now);
    assert!(
        left > Duration::from_secs(4) && left <= Duration::from_secs(9),
        "{left:?}"
    );
}

#[allow(
    clippy::option_option,
    reason = "the field's type: a heartbeat may carry nothing"
)]
fn renewal(task: &Held, ttl: Duration, beat: Option<Option<Payload>>) -> Renewal {
    Renewal {
        owner: owner("a"),
        ttl,
        items: vec![RenewalItem {
            task: task.task.clone(),
            epoch: task.epoch,
            beat,
        }],
    }
}

pub(crate) async fn a_late_renewal_revives_nothing(stage: Stage) {
    let run = stage.start("w").await;
    let late = held(&stage.claim_and_expire("w").await);

    let renewed = stage.store.renew(&renewal(&late, LONG, None)).await;

    assert_eq!(renewed.expect("an answer").items, [None]);
    assert_eq!(stage.sweep().await.ready, 1);
    let task = held(&stage.claim_workflow("w").await);
    stage.apply(crate::stage::signal(&run)).await;
    let mut both = renewal(&task, LONG * 2, None);
    both.items.extend(renewal(&late, LONG, None).items);
    let renewed = stage.store.renew(&both).await.expect("an answer");
    let still = renewed.items[0].expect("held");
    assert_eq!(still.inbox_seq, 1);
    assert_eq!(still.lease_expires_at, renewed.now.plus(LONG * 2));
    assert_eq!(renewed.items[1], None);
    let thief = Renewal {
        owner: owner("b"),
        ..renewal(&task, LONG, None)
    };
    assert_eq!(
        stage.store.renew(&thief).await.expect("an answer").items,
        [None]
    );
}

pub(crate) async fn a_heartbeat_carries_progress_to_the_next_attempt(stage: Stage) {
    let timeouts = Timeouts {
        heartbeat: Some(Duration::from_secs(40)),
        ..Timeouts::default()
    };
    stage.start_with_activity("w", timeouts).await;
    let claimed = stage.claim_activity("w").await;
    let progress = Payload {
        codec: "raw".into(),
        bytes: [0_u8, 200].as_slice().into(),
    };
    let beat = renewal(&held(&claimed), LONG, Some(Some(progress.clone())));
    stage.store.renew(&beat).await.expect("renewed");
    // One without a heartbeat leaves what the last one carried.
    let silent = renewal(&held(&claimed), LONG, None);
    stage.store.renew(&silent).await.expect("renewed");

    let put_back = PutBack {
        held: held(&claimed),
        how: PutBackHow::Untouched,
    };
    stage.apply(put_back).await;

    assert_eq!(stage.claim_activity("w").await.progress, Some(progress));
}

pub(crate) async fn a_task_that_is_taken_back_too_often_is_set_aside(stage: Stage) {
    let run = stage.start("w").await;
    for _ in 0..2 {
        stage.claim_and_expire("w").await;
        let swept = stage.sweep().await;
        assert_eq!(swept.ready, 1);
        assert_eq!(swept.queues.len(), 1);
    }
    stage.claim_and_expire("w").await;

    let swept = stage.sweep().await;

    assert_eq!((swept.ready, swept.poisoned.len()), (0, 1));
    let task = stage.describe(&run).await.tasks.remove(0);
    assert_eq!(
        (task.status.as_str(), task.blocked.as_deref()),
        ("blocked", Some("poison"))
    );
    assert_eq!((task.attempt, task.recoveries), (3, 3));
}

pub(crate) async fn a_task_of_a_slow_owner_that_lives_is_never_poison(stage: Stage) {
    let run = stage.start("w").await;
    crate::fleet::register(&stage, "a", LONG, false).await;
    for _ in 0..5 {
        stage.claim_and_expire("w").await;
        assert_eq!(stage.sweep().await.ready, 1);
    }

    let task = stage.describe(&run).await.tasks.remove(0);

    assert_eq!((task.status.as_str(), task.recoveries), ("ready", 0));
}

pub(crate) async fn an_overdue_activity_is_ended_by_anybody(stage: Stage) {
    let timeouts = |span| Timeouts {
        start_to_close: Some(span),
        ..Timeouts::default()
    };
    stage.start_with_activity("slow", timeouts(LONG)).await;
    let slow = stage.claim_activity("slow").await;
    let run = stage
        .start_with_activity("w", timeouts(Duration::from_millis(30)))
        .await;
    let claimed = stage.claim_activity("w").await;
    let by_deadline = |task: &ClaimedTask, epoch| Settle {
        held: Held {
            task: task.task.id.clone(),
            epoch,
            holder: Holder::Overdue,
        },
        ..settle(task)
    };
    stage.pass(claimed.task.deadline_at).await;

    let overdue = stage.store.overdue(9).await.expect("an answer");

    assert_eq!(overdue.len(), 1);
    assert_eq!(overdue[0].task, claimed.task);
    assert_eq!(overdue[0].scheduled, record("ActivityScheduled", 2));
    assert_eq!(overdue[0].owner, Some(owner("a")));
    let epoch = claimed.task.epoch;
    let early = stage.apply(by_deadline(&slow, slow.task.epoch)).await;
    assert_eq!(early, Outcome::Lost, "its time is not over");
    let other = stage.apply(by_deadline(&claimed, epoch + 1)).await;
    assert_eq!(other, Outcome::Lost, "another claim");
    // Its lease has not ended, and does not help.
    let ended = stage.apply(by_deadline(&claimed, epoch)).await;
    assert!(matches!(ended, Outcome::Done { .. }), "{ended:?}");
    assert_eq!(stage.apply(settle(&claimed)).await, Outcome::Lost);
    assert_eq!(stage.load(&run).await.inbox.len(), 1);
}

pub(crate) async fn a_task_put_back_untouched_burns_no_attempt(stage: Stage) {
    stage.start("w").await;
    let first = stage.claim_workflow("w").await;
    let put_back = PutBack {
        held: held(&first),
        how: PutBackHow::Untouched,
    };

    stage.apply(put_back).await;

    let second = stage.claim_workflow("w").await;
    assert_eq!((first.task.attempt, second.task.attempt), (1, 1));
}

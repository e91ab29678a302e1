//! What stands and is brought to go on: much at once, tasks that were lost, and runs that were set
//! aside.

use std::time::Duration;

use coord_engine::flow::{Activity, Context, Workflow, join};
use coord_engine::model::{
    Due, EventKind, Failure, Queue, RunId, TaskKind, Timeouts, Timestamp, Wait,
};
use coord_engine::store::{
    Claim, NewActivity, Outcome, Restore, Start, Sweep, Target, Then, Turn, Unattended, Write,
};

use coord_engine::worker::Attempt;

use crate::stage::{
    LONG, Stage, activity, closing, completed, namespace, queue, record, settle, signal, turn,
    workflow_task,
};

const SHORT: Duration = Duration::from_millis(50);

async fn start_many(stage: &Stage, queue: &Queue, count: u32) {
    for portion in 0..count.div_ceil(100) {
        let numbers = portion * 100..count.min(portion * 100 + 100);
        let starts = numbers.map(|number| {
            Write::Start(Box::new(Start {
                queue: queue.clone(),
                ..stage.new_run(&format!("{queue}-{number}"))
            }))
        });
        stage.batch(starts).await;
    }
}

/// Claims all of a queue, and returns when these leases have ended.
async fn claim_and_leave(stage: &Stage, of: &Queue, count: usize) {
    let mut last = Timestamp::default();
    let mut claimed = 0;
    while claimed < count {
        let claim = Claim {
            ttl: SHORT,
            ..stage.claim_of(TaskKind::Workflow, of.as_str(), 100)
        };
        let tasks = stage.claim(&claim).await.tasks;
        claimed += tasks.len();
        last = tasks
            .iter()
            .map(|task| task.task.lease_expires_at)
            .fold(last, Ord::max);
    }
    stage.pass(last).await;
}

pub(crate) async fn much_of_one_queue_keeps_no_other_waiting(stage: Stage) {
    let (much, little) = (queue("much"), queue("little"));
    start_many(&stage, &much, 300).await;
    start_many(&stage, &little, 5).await;
    claim_and_leave(&stage, &much, 300).await;
    claim_and_leave(&stage, &little, 5).await;
    let sweep = Sweep {
        limit: 20,
        poison_after: 9,
    };

    let swept = stage.store.sweep(&sweep).await.expect("an answer");

    assert_eq!(swept.ready, 20);
    let claim = stage.claim_of(TaskKind::Workflow, "little", 9);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 5);
    let claim = stage.claim_of(TaskKind::Workflow, "much", 99);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 15);
}

pub(crate) async fn what_is_left_of_many_is_taken_back_to_the_last_one(stage: Stage) {
    const MANY: u32 = 1200;
    let queue = queue("q");
    start_many(&stage, &queue, MANY).await;
    claim_and_leave(&stage, &queue, MANY as usize).await;
    let (mut portions, mut ready) = (0, 0);

    loop {
        let swept = stage.sweep().await;
        portions += 1;
        ready += swept.ready;
        if swept.ready == 0 {
            break;
        }
    }

    assert_eq!((portions, ready), (MANY / 100 + 1, u64::from(MANY)));
    let mut again = 0;
    loop {
        let claim = stage.claim_of(TaskKind::Workflow, "q", 100);
        let claimed = stage.claim(&claim).await.tasks.len();
        again += claimed;
        if claimed == 0 {
            break;
        }
    }
    assert_eq!(again, MANY as usize);
}

/// Who looks through everything, in pages of one.
async fn lacking(stage: &Stage) -> Vec<RunId> {
    let mut page = Unattended {
        namespace: namespace(),
        after: None,
        limit: 1,
    };
    let mut lacking = Vec::new();
    loop {
        let found = stage.store.unattended(&page).await.expect("an answer");
        lacking.extend(found.runs);
        match found.next {
            Some(next) => page.after = Some(next),
            None => return lacking,
        }
    }
}

/// A run that waits in one of the ways that there are.
async fn waits(stage: &Stage, id: &str, due: Option<Due>, wait: Wait) -> RunId {
    let run = stage.start(id).await;
    let task = stage.claim_workflow(id).await;
    let waits = Turn {
        then: Then::Wait {
            due,
            wait: Some(wait),
        },
        ..turn(&task)
    };
    assert!(matches!(stage.apply(waits).await, Outcome::Done { .. }));
    run
}

pub(crate) async fn a_run_that_lost_its_task_goes_on(stage: Stage) {
    let begins = stage.start("begins").await;
    let under_way = stage.start("under-way").await;
    let held = stage.claim_workflow("under-way").await;
    let has_news = waits(&stage, "has-news", None, Wait::Signal).await;
    stage.apply(signal(&has_news)).await;
    let sleeps = waits(&stage, "sleeps", Some(Due::After(LONG)), Wait::Timer).await;
    if !stage.database.execute("DELETE FROM workflow_tasks").await {
        return;
    }
    let mut lost = vec![begins, under_way.clone(), has_news, sleeps];
    lost.sort();

    let mut found = lacking(&stage).await;
    found.sort();
    assert_eq!(found, lost);
    for run in &lost {
        let repair = Write::Repair(run.clone());
        let repaired = stage.apply(repair.clone()).await;
        assert!(matches!(repaired, Outcome::Done { .. }), "{repaired:?}");
        assert_eq!(stage.apply(repair).await, Outcome::NotFound, "once");
    }

    assert_eq!(lacking(&stage).await, []);
    for id in ["begins", "under-way", "has-news", "sleeps"] {
        let task = stage.claim_workflow(id).await;
        assert!(task.task.epoch > held.task.epoch, "{id}");
    }
    // Who had the lost one writes nothing more, and the history is as it was.
    assert_eq!(stage.apply(turn(&held)).await, Outcome::Lost);
    assert_eq!(stage.load(&under_way).await.events.len(), 1);
}

pub(crate) async fn a_run_that_lacks_nothing_is_left_alone(stage: Stage) {
    let closed = stage.start("closed").await;
    let task = stage.claim_workflow("closed").await;
    let closes = Turn {
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(&task)
    };
    stage.apply(closes).await;
    let runs = [
        closed,
        stage.start("begins").await,
        waits(&stage, "signal", None, Wait::Signal).await,
        waits(&stage, "sleeps", Some(Due::After(LONG)), Wait::Timer).await,
        stage
            .start_with_activity("works", Timeouts::default())
            .await,
    ];

    assert_eq!(lacking(&stage).await, []);
    for run in &runs {
        let repaired = stage.apply(Write::Repair(run.clone())).await;
        assert_eq!(repaired, Outcome::NotFound);
    }
}

pub(crate) async fn a_run_whose_activity_took_processes_down_is_resumed(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let scheduled = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![NewActivity { ..activity(1, "w") }],
        ..turn(&task)
    };
    stage.apply(scheduled).await;
    for _ in 0..3 {
        let claim = Claim {
            ttl: SHORT,
            ..stage.claim_of(TaskKind::Activity, "w", 1)
        };
        let claimed = stage.claim(&claim).await.tasks.pop().expect("it is due");
        stage.pass(claimed.task.lease_expires_at).await;
        stage.sweep().await;
    }
    let aside = stage.describe(&run).await.tasks.remove(0);
    assert_ne!(aside.task, workflow_task(&run));
    assert_eq!(
        (aside.status.as_str(), aside.blocked.as_deref()),
        ("blocked", Some("poison"))
    );

    let resume = Write::Resume(Target::Current(namespace(), id("w")));
    let resumed = stage.apply(resume.clone()).await;

    assert!(matches!(resumed, Outcome::Done { .. }), "{resumed:?}");
    assert_eq!(stage.apply(resume).await, Outcome::NotFound);
    let again = stage.claim_activity("w").await;
    assert_eq!(again.task.attempt, 1);
    assert!(matches!(
        stage.apply(settle(&again)).await,
        Outcome::Done { .. }
    ));
}

fn id(text: &str) -> coord_engine::model::WorkflowId {
    coord_engine::model::WorkflowId::new(text).expect("an id")
}

/// Whoever sweeps looks again at what it has found, under the lock: what has ended meanwhile stays
/// as it is.
pub(crate) async fn what_ends_while_somebody_looks_is_not_taken_back(stage: Stage) {
    crate::fleet::register(&stage, "a", LONG, false).await;
    for number in 0..60 {
        let id = format!("w{number}");
        stage.start(&id).await;
        let claim = Claim {
            ttl: Duration::from_millis(2 + number % 7),
            ..stage.claim_of(TaskKind::Workflow, &id, 1)
        };
        let task = stage.claim(&claim).await.tasks.pop().expect("it is due");
        let ends = async {
            let closes = Turn {
                then: Then::Close(Box::new(closing(completed()))),
                ..turn(&task)
            };
            stage.apply(closes).await
        };
        let sweeps = async {
            let sweep = Sweep {
                limit: 9,
                poison_after: 9,
            };
            stage.other.sweep(&sweep).await.expect("an answer").ready
        };

        let (ended, swept) = tokio::join!(ends, sweeps);

        let run = &task.task.run;
        let is_closed = stage.describe(run).await.run.closed_at.is_some();
        match ended {
            Outcome::Done { .. } => assert!(is_closed && swept == 0, "{id}"),
            Outcome::Lost => {
                assert!(!is_closed, "{id}");
                // It is taken back now or by the next look, once.
                let later = stage.sweep().await.ready;
                assert_eq!(swept + later, 1, "{id}");
                let again = stage.claim_workflow(&id).await;
                let closes = Turn {
                    then: Then::Close(Box::new(closing(completed()))),
                    ..turn(&again)
                };
                assert!(matches!(stage.apply(closes).await, Outcome::Done { .. }));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A run that waits for an activity, as its history says.
async fn waits_for_activity(stage: &Stage, id: &str) -> (RunId, NewActivity) {
    let run = stage.start(id).await;
    let task = stage.claim_workflow(id).await;
    let activity = activity(1, id);
    let scheduled = Turn {
        records: vec![record("ActivityScheduled", 2)],
        activities: vec![activity.clone()],
        then: Then::Wait {
            due: None,
            wait: Some(Wait::Activity),
        },
        ..turn(&task)
    };
    assert!(matches!(stage.apply(scheduled).await, Outcome::Done { .. }));
    (run, activity)
}

pub(crate) async fn an_activity_that_lost_its_task_goes_on(stage: Stage) {
    let (lost, activity) = waits_for_activity(&stage, "lost").await;
    let held = stage.claim_activity("lost").await;
    let (whole, of_whole) = waits_for_activity(&stage, "whole").await;
    let delete = "DELETE FROM workflow_tasks WHERE workflow_id = 'lost'";
    if !stage.database.execute(delete).await {
        return;
    }
    let restore = |run: &RunId, activity: &NewActivity, history_length| {
        Write::Restore(Box::new(Restore {
            run: run.clone(),
            history_length,
            activity: activity.clone(),
            attempts: 1,
        }))
    };
    let page = Unattended {
        namespace: namespace(),
        after: None,
        limit: 100,
    };

    let found = stage.store.unattended(&page).await.expect("an answer");
    assert_eq!(found.runs, []);
    assert_eq!(found.of_activities, std::slice::from_ref(&lost));
    for (run, activity, length, why) in [
        (&whole, &of_whole, 2, "it has its task"),
        (&lost, &activity, 1, "it has gone on since"),
    ] {
        let refused = stage.apply(restore(run, activity, length)).await;
        assert_eq!(refused, Outcome::NotFound, "{why}");
    }
    let restored = stage.apply(restore(&lost, &activity, 2)).await;
    assert!(matches!(restored, Outcome::Done { .. }), "{restored:?}");
    let again = stage.apply(restore(&lost, &activity, 2)).await;
    assert_eq!(again, Outcome::NotFound, "once");

    // Who had the lost one writes nothing more.
    assert_eq!(stage.apply(settle(&held)).await, Outcome::Lost);
    let again = stage.claim_activity("lost").await;
    assert!(again.task.epoch > held.task.epoch);
    assert_eq!(again.task.attempt, 2);
    assert!(again.scheduled.is_some());
    let settled = stage.apply(settle(&again)).await;
    assert!(matches!(settled, Outcome::Done { .. }), "{settled:?}");
    let found = stage.store.unattended(&page).await.expect("an answer");
    assert_eq!(found.of_activities, []);
    let late = stage.apply(restore(&lost, &activity, 2)).await;
    assert_eq!(late, Outcome::NotFound, "its result waits to be heard");
}

const BOTH: Workflow<(), u32> = Workflow::new("tests.both");
const ONE: Activity<u32, u32> = Activity::new("tests.one");

async fn both(ctx: Context, (): ()) -> Result<u32, Failure> {
    let (one, other) = join(ctx.activity(ONE, &1), ctx.activity(ONE, &2)).await;
    Ok(one? + other?)
}

async fn one(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number)
}

pub(crate) async fn a_run_whose_activities_lost_their_tasks_ends(stage: Stage) {
    let first = stage.database.builder().without_recovery().start().await;
    let first = first.expect("it starts");
    let worker = first.worker(namespace(), Queue::default());
    let turns = worker.workflow(BOTH, both).start();
    let client = first.client(namespace(), Queue::default());
    let started = client.start(BOTH, id("w"), &()).await;
    let handle = started.expect("started").handle;
    let waits = async || {
        let described = handle.describe().await.expect("an answer").expect("a run");
        described.run.wait == Some(Wait::Activity)
    };
    while !waits().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if !stage.database.execute("DELETE FROM workflow_tasks").await {
        return;
    }

    // The first look of one that looks after the others.
    let second = stage.database.engine().await;
    let worker = second.worker(namespace(), Queue::default());
    let activities = worker.activity(ONE, one).start();

    let done = handle.result(Duration::from_mins(1)).await;
    assert_eq!(done.expect("an answer"), Some(Ok(3)));
    let events = handle.history().await.expect("a history");
    let scheduled = events.iter();
    let scheduled = scheduled.filter(|event| matches!(event.kind, EventKind::ActivityScheduled(_)));
    assert_eq!(scheduled.count(), 2, "nothing is made up");
    assert!(turns.shutdown(Duration::from_mins(1)).await);
    assert!(activities.shutdown(Duration::from_mins(1)).await);
}

//! Schedules.

use std::time::Duration;

use coord_engine::model::{
    Action, Backfill, Buffered, Cause, Closed, Failure, Overlap, Payload, Priority, Schedule,
    ScheduleId, ScheduleRecord, ScheduleState, Timestamp, TypeName, When,
};
use coord_engine::store::{
    DueSchedules, Fire, OnDuplicate, Outcome, ScheduleDescription, ScheduleKey, ScheduleWrite,
    Start, Target, Terminate, Write,
};

use crate::stage::{Stage, TYPE, closing, namespace, queue, record as event};

fn id(text: &str) -> ScheduleId {
    ScheduleId::new(text).expect("an id")
}

pub(crate) fn key(text: &str) -> ScheduleKey {
    ScheduleKey {
        namespace: namespace(),
        id: id(text),
    }
}

/// A schedule that was never written, and is never due.
pub(crate) fn new(name: &str) -> ScheduleRecord {
    let action = Action {
        name: TypeName::new(TYPE).expect("a name"),
        queue: queue(name),
        priority: Priority::default(),
        fairness: None,
        within: Some(Duration::from_mins(5)),
        memo: serde_json::Map::from_iter([("for".to_owned(), "ä".into())]),
        input: Payload {
            codec: "raw".into(),
            bytes: [0_u8, 255, 10, 39].as_slice().into(),
        },
    };
    ScheduleRecord {
        namespace: namespace(),
        id: id(name),
        revision: 0,
        schedule: Schedule::new(When::cron("0 3 * * *", "Europe/Berlin"), action),
        state: ScheduleState::default(),
        next_fire_at: Timestamp::NEVER,
        look_at: Timestamp::NEVER,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

pub(crate) fn write(record: ScheduleRecord) -> ScheduleWrite {
    ScheduleWrite {
        record,
        cancels: Vec::new(),
        terminates: Vec::new(),
        fires: Vec::new(),
    }
}

/// So many seconds after some day.
fn instant(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_900_000_000_000_000).plus(Duration::from_secs(seconds))
}

impl Stage {
    pub(crate) async fn schedule(&self, write: ScheduleWrite) -> Outcome {
        self.apply(Write::Schedule(Box::new(write))).await
    }

    fn fire(&self, record: &ScheduleRecord, at: Timestamp) -> Fire {
        let workflow = record.workflow(at).expect("an id");
        Fire {
            at,
            cause: Cause::Schedule,
            start: Start {
                on_duplicate: OnDuplicate::ReturnExisting,
                ..self.new_run(workflow.as_str())
            },
        }
    }

    async fn described(&self, name: &str) -> ScheduleDescription {
        let described = self.store.describe_schedule(&key(name)).await;
        described.expect("an answer").expect("a schedule")
    }

    pub(crate) async fn due(&self) -> Vec<ScheduleKey> {
        let due = DueSchedules {
            limit: 100,
            after: None,
        };
        let page = self.store.due_schedules(&due).await.expect("an answer");
        page.schedules.into_iter().map(|(key, _)| key).collect()
    }
}

pub(crate) async fn a_schedule_reads_as_it_was_written(stage: Stage) {
    let mut wanted = new("s");
    wanted.schedule.overlap = Overlap::CancelOther;
    wanted.schedule.from = Some(instant(1));
    wanted.schedule.jitter = Duration::from_millis(1500);
    wanted.state = ScheduleState {
        version: 7,
        paused: true,
        note: "weil’s regnet".to_owned(),
        decided: instant(2),
        left: Some(3),
        buffered: vec![Buffered {
            at: instant(3),
            cause: Cause::Trigger,
        }],
        backfills: vec![Backfill {
            decided: instant(1),
            until: instant(9),
            overlap: Overlap::BufferAll,
        }],
        fires: 5,
        missed: 6,
        skipped: 8,
        ..ScheduleState::default()
    };
    let before = stage.now().await;

    assert_eq!(
        stage.schedule(write(wanted.clone())).await,
        Outcome::Scheduled { revision: 1 }
    );

    let read = stage.described("s").await.record;
    assert!(read.created_at >= before && read.created_at == read.updated_at);
    wanted.revision = 1;
    (wanted.created_at, wanted.updated_at) = (read.created_at, read.updated_at);
    assert_eq!(read, wanted);
    wanted.state.paused = false;
    stage.schedule(write(wanted.clone())).await;
    let again = stage.described("s").await.record;
    wanted.revision = 2;
    wanted.updated_at = again.updated_at;
    assert_eq!(again, wanted);
}

pub(crate) async fn a_schedule_is_created_once(stage: Stage) {
    stage.schedule(write(new("s"))).await;

    assert_eq!(stage.schedule(write(new("s"))).await, Outcome::Stale);
    let mut unknown = new("t");
    unknown.revision = 1;
    assert_eq!(stage.schedule(write(unknown)).await, Outcome::NotFound);
}

/// Four of two processes decide each occurrence at once, over and over.
pub(crate) async fn an_occurrence_fires_once_whoever_decides_it(stage: Stage) {
    const ROUNDS: u64 = 10;
    stage.schedule(write(new("s"))).await;
    for round in 0..ROUNDS {
        let mut record = stage.described("s").await.record;
        let at = instant(round);
        record.state.fires += 1;
        record.state.running = vec![at];
        let mut deciding = tokio::task::JoinSet::new();
        for number in 0..4 {
            let decided = ScheduleWrite {
                fires: vec![stage.fire(&record, at)],
                ..write(record.clone())
            };
            let store = if number % 2 == 0 {
                stage.store.clone()
            } else {
                stage.other.clone()
            };
            deciding.spawn(async move {
                let writes = [Write::Schedule(Box::new(decided))];
                let applied = store.apply(&writes).await.expect("no conflict is seen");
                applied.outcomes[0].clone()
            });
        }
        let outcomes = deciding.join_all().await;
        let is_through = |it: &&Outcome| matches!(it, Outcome::Scheduled { .. });
        assert_eq!(
            outcomes.iter().filter(is_through).count(),
            1,
            "{outcomes:?}"
        );
        assert!(
            outcomes
                .iter()
                .all(|it| is_through(&it) || *it == Outcome::Stale)
        );
    }

    let described = stage.described("s").await;
    let fired: Vec<_> = described.fires.iter().map(|fire| fire.at).collect();
    assert_eq!(fired, (0..ROUNDS).rev().map(instant).collect::<Vec<_>>());
    for fire in described.fires {
        let current = Target::Current(namespace(), fire.workflow);
        let run = stage.store.describe(&current).await.expect("an answer");
        assert_eq!(run.expect("a run").run.run, fire.run);
    }
}

pub(crate) async fn an_occurrence_that_has_fired_starts_nothing_more(stage: Stage) {
    let record = new("s");
    let first = ScheduleWrite {
        fires: vec![stage.fire(&record, instant(1))],
        ..write(record)
    };
    stage.schedule(first).await;
    let before = stage.described("s").await;
    let again = ScheduleWrite {
        fires: vec![stage.fire(&before.record, instant(1))],
        ..write(before.record.clone())
    };

    assert_eq!(
        stage.schedule(again).await,
        Outcome::Scheduled { revision: 2 }
    );

    assert_eq!(stage.described("s").await.fires, before.fires);
}

pub(crate) async fn an_open_workflow_is_known_to_its_schedule(stage: Stage) {
    let mut record = new("s");
    record.state.running = vec![instant(1), instant(2), instant(3)];
    record.look_at = Timestamp::default();
    let fires = [1, 2].map(|second| stage.fire(&record, instant(second)));
    let (open, closed) = (fires[0].start.clone(), fires[1].start.clone());
    let fired = ScheduleWrite {
        fires: fires.to_vec(),
        ..write(record)
    };
    stage.schedule(fired).await;
    let end = Closed::Terminated(Failure::new("enough"));
    let ended = Terminate {
        target: Target::Run(closed.run),
        record: event("Terminated", 0),
        closing: closing(end),
        request: None,
    };
    stage.apply(ended).await;

    let described = stage.described("s").await;

    assert_eq!(described.record.state.running, [instant(1)]);
    assert_eq!(described.fires.len(), 2);
    assert_eq!(described.fires[1].run, open.run);
    let due = DueSchedules {
        limit: 1,
        after: None,
    };
    let page = stage.store.due_schedules(&due).await.expect("an answer");
    let record = page.schedules[0].1.as_ref().expect("it reads");
    assert_eq!(record.state.running, [instant(1)]);
}

pub(crate) async fn what_a_schedule_ends_ends_with_its_write_or_not_at_all(stage: Stage) {
    let mut record = new("s");
    record.state.fires = 1;
    let fire = stage.fire(&record, instant(1));
    let run = fire.start.run.clone();
    let fired = ScheduleWrite {
        fires: vec![fire],
        ..write(record.clone())
    };
    stage.schedule(fired).await;
    let ending = |record: &ScheduleRecord| {
        let workflow = record.workflow(instant(1)).expect("an id");
        let end = Closed::Terminated(Failure::new("the next one is due"));
        ScheduleWrite {
            terminates: vec![Terminate {
                target: Target::Current(namespace(), workflow),
                record: event("Terminated", 0),
                closing: closing(end),
                request: None,
            }],
            fires: vec![stage.fire(record, instant(2))],
            ..write(record.clone())
        }
    };

    assert_eq!(stage.schedule(ending(&record)).await, Outcome::Stale);
    assert!(stage.describe(&run).await.run.status.is_open());
    (record.revision, record.state.fires) = (1, 2);
    assert_eq!(
        stage.schedule(ending(&record)).await,
        Outcome::Scheduled { revision: 2 }
    );

    assert!(!stage.describe(&run).await.run.status.is_open());
    let latest = stage.described("s").await.fires.remove(0);
    assert!(stage.describe(&latest.run).await.run.status.is_open());
}

pub(crate) async fn the_latest_fires_are_kept(stage: Stage) {
    let mut record = new("s");
    for batch in 0..3 {
        let fires = (0..45).map(|number| stage.fire(&record, instant(batch * 45 + number)));
        let fires: Vec<_> = fires.collect();
        record.state.fires += 45;
        let outcome = stage
            .schedule(ScheduleWrite {
                fires,
                ..write(record.clone())
            })
            .await;
        record.revision += 1;
        let revision = record.revision;
        assert_eq!(outcome, Outcome::Scheduled { revision });
    }

    let fired: Vec<_> = stage
        .described("s")
        .await
        .fires
        .iter()
        .map(|it| it.at)
        .collect();

    assert_eq!(fired.len(), 100);
    assert_eq!((fired[0], fired[99]), (instant(134), instant(35)));
}

pub(crate) async fn a_deleted_schedule_leaves_nothing(stage: Stage) {
    let record = new("s");
    let fired = ScheduleWrite {
        fires: vec![stage.fire(&record, instant(1))],
        ..write(record)
    };
    let run = fired.fires[0].start.run.clone();
    stage.schedule(fired).await;

    let gone = stage.apply(Write::Unschedule(key("s"))).await;

    assert_eq!(gone, Outcome::Scheduled { revision: 1 });
    let described = stage.store.describe_schedule(&key("s")).await;
    assert_eq!(described.expect("an answer"), None);
    assert!(stage.describe(&run).await.run.status.is_open());
    assert_eq!(
        stage.apply(Write::Unschedule(key("s"))).await,
        Outcome::NotFound
    );
    stage.schedule(write(new("s"))).await;
    assert_eq!(stage.described("s").await.fires, []);
}

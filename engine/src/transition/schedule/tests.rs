use proptest::prelude::*;

mod overlaps;

use super::*;
use crate::model::{Action, Payload, Priority, Queue, TypeName, When};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// So many minutes after a whole hour.
fn at(minutes: u64) -> Timestamp {
    Timestamp::from_micros(1_799_999_100_000_000 / 3_600_000_000 * 3_600_000_000)
        .plus(Duration::from_secs(60 * minutes))
}

fn schedule(overlap: Overlap) -> Schedule {
    let action = Action {
        name: TypeName::new("work").expect("a name"),
        queue: Queue::default(),
        priority: Priority::default(),
        fairness: None,
        within: None,
        memo: serde_json::Map::new(),
        input: Payload::json(&()).expect("json"),
    };
    Schedule {
        overlap,
        ..Schedule::new(When::every(MINUTE), action)
    }
}

fn begun(schedule: Schedule) -> ScheduleRecord {
    let id = ScheduleId::new("s").expect("an id");
    let plan = create(Namespace::default(), id, schedule, at(0)).expect("a schedule");
    plan.record
}

fn minutely(overlap: Overlap) -> ScheduleRecord {
    begun(schedule(overlap))
}

fn instants(plan: &Plan) -> Vec<Timestamp> {
    plan.fires.iter().map(|fire| fire.at).collect()
}

fn due(record: ScheduleRecord, now: Timestamp) -> Plan {
    advance(record, now).expect("a plan")
}

/// As the store reads it when all its workflows have ended.
fn ended(mut record: ScheduleRecord) -> ScheduleRecord {
    record.state.running.clear();
    record
}

#[test]
fn an_occurrence_fires_at_its_instant_and_not_before() {
    let record = minutely(Overlap::Skip);
    assert_eq!(record.next_fire_at, at(1));
    let early = due(record.clone(), before(at(1)));
    assert_eq!(early.fires, []);
    assert_eq!(early.record, record);

    let plan = due(record, at(1));

    assert_eq!(instants(&plan), [at(1)]);
    assert_eq!(plan.record.next_fire_at, at(2));
}

#[test]
fn what_was_decided_is_not_decided_again() {
    let plan = due(minutely(Overlap::AllowAll), at(3));
    assert_eq!(instants(&plan), [at(1), at(2), at(3)]);

    let again = due(plan.record, at(3));

    assert_eq!(again.fires, []);
}

#[test]
fn an_occurrence_fires_until_the_end_of_its_catch_up_window() {
    let late = Schedule {
        catch_up: MINUTE,
        ..schedule(Overlap::AllowAll)
    };

    let on_the_edge = due(begun(late.clone()), at(3));
    assert_eq!(instants(&on_the_edge), [at(2), at(3)]);
    assert_eq!(on_the_edge.missed, 1);

    let beyond = due(begun(late), at(3).plus(Duration::from_micros(1)));
    assert_eq!(instants(&beyond), [at(3)]);
    assert_eq!(beyond.record.state.missed, 2);
}

#[test]
fn a_long_absence_is_made_up_in_steps_that_lose_nothing() {
    let mut record = minutely(Overlap::AllowAll);
    record.schedule.catch_up = Duration::from_hours(24);
    let (mut fires, mut steps) = (Vec::new(), 0);
    loop {
        let plan = due(ended(record), at(250));
        fires.extend(instants(&plan));
        steps += 1;
        record = plan.record;
        if !plan.is_partial {
            break;
        }
        assert!(record.look_at <= at(250));
    }

    assert_eq!(fires, (1..=250).map(at).collect::<Vec<_>>());
    assert_eq!(steps, 3);
}

#[test]
fn bounds_take_their_first_instant_and_not_their_last() {
    let bounded = Schedule {
        from: Some(at(2)),
        until: Some(at(4)),
        ..schedule(Overlap::AllowAll)
    };
    let record = begun(bounded);
    assert_eq!(record.next_fire_at, at(2));

    let plan = due(record, at(10));

    assert_eq!(instants(&plan), [at(2), at(3)]);
    assert_eq!(plan.record.next_fire_at, Timestamp::NEVER);
}

#[test]
fn a_limit_counts_what_fires_by_itself() {
    let limited = Schedule {
        limit: Some(2),
        ..schedule(Overlap::AllowAll)
    };
    let triggered = trigger(begun(limited), at(0), at(0)).expect("a plan");
    assert_eq!(triggered.record.state.left, Some(2));

    let plan = due(triggered.record, at(5));

    assert_eq!(instants(&plan), [at(1), at(2)]);
    assert_eq!(plan.record.next_fire_at, Timestamp::NEVER);
}

#[test]
fn a_paused_schedule_fires_by_hand_only_and_makes_nothing_up() {
    let paused = pause(minutely(Overlap::AllowAll), "holidays", at(0)).expect("a plan");
    assert_eq!(paused.record.look_at, Timestamp::NEVER);
    let now = at(3).plus(SECOND);
    assert_eq!(due(paused.record.clone(), now).fires, []);

    let triggered = trigger(paused.record, now, now).expect("a plan");
    assert_eq!(instants(&triggered), [now]);
    let resumed = resume(triggered.record, "back", now).expect("a plan");

    assert_eq!(instants(&due(resumed.record, at(4))), [at(4)]);
}

#[test]
fn what_is_buffered_waits_while_the_schedule_is_paused() {
    let first = due(minutely(Overlap::BufferOne), at(1));
    let waiting = due(first.record, at(2));
    let paused = pause(waiting.record, "", at(2)).expect("a plan");
    let still = due(ended(paused.record), at(3));
    assert_eq!(still.fires, []);

    let resumed = resume(still.record, "", at(3)).expect("a plan");

    assert_eq!(instants(&due(resumed.record, at(3))), [at(2)]);
}

#[test]
fn a_span_is_made_up_from_its_first_instant_to_before_its_last() {
    let mut record = minutely(Overlap::Skip);
    record.state.decided = at(10);

    let span = (at(2), at(5));
    let plan = backfill(record, span, Overlap::AllowAll, at(10)).expect("a plan");

    assert_eq!(instants(&plan), [at(2), at(3), at(4)]);
    assert_eq!(plan.record.state.backfills, []);
}

#[test]
fn a_span_that_is_made_up_one_by_one_waits_without_a_buffer() {
    let mut record = minutely(Overlap::Skip);
    record.state.decided = at(10);
    let span = (at(2), at(5));
    let first = backfill(record, span, Overlap::BufferAll, at(10)).expect("a plan");
    assert_eq!(instants(&first), [at(2)]);
    assert_eq!(first.record.state.buffered, []);
    assert_eq!(due(first.record.clone(), at(10)).fires, []);

    let next = due(ended(first.record), at(10));

    assert_eq!(instants(&next), [at(3)]);
}

#[test]
fn an_update_loses_nothing_that_was_due_and_begins_anew_from_there() {
    let record = minutely(Overlap::AllowAll);
    let hourly = Schedule {
        when: When::every(Duration::from_hours(1)),
        ..schedule(Overlap::AllowAll)
    };

    let plan = update(record, hourly, at(2)).expect("a plan");

    assert_eq!(instants(&plan), [at(1), at(2)]);
    assert_eq!(plan.record.next_fire_at, at(60));
    assert_eq!(plan.record.state.version, 2);
}

#[test]
fn what_cannot_be_is_invalid() {
    let refused = |when| {
        let id = ScheduleId::new("s").expect("an id");
        let schedule = Schedule {
            when,
            ..schedule(Overlap::Skip)
        };
        let error = create(Namespace::default(), id, schedule, at(0)).expect_err("refused");
        error.kind() == coord_core::ErrorKind::Invalid
    };
    let short = SECOND
        .checked_sub(Duration::from_millis(1))
        .expect("above zero");

    assert!(refused(When::every(short)));
    assert!(refused(When::cron("0 0 30 2 *", "UTC")));
    assert!(refused(When::cron("0 0 * * *", "Mars/Olympus")));
    assert!(
        ScheduleId::new("x".repeat(200))
            .expect("an id")
            .workflow(at(0))
            .is_ok()
    );
    assert!(
        ScheduleId::new("x".repeat(201))
            .expect("an id")
            .workflow(at(0))
            .is_err()
    );
}

fn whens() -> impl Strategy<Value = When> {
    let crons = prop::sample::select(vec!["*/7 * * * *", "30 2 * * *", "0,30 2,3 * * *"]);
    let zones = prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe"]);
    prop_oneof![
        (crons, zones).prop_map(|(cron, zone)| When::cron(cron, zone)),
        (60_u64..10_000).prop_map(|seconds| When::every(Duration::from_secs(seconds))),
    ]
}

fn overlaps() -> impl Strategy<Value = Overlap> {
    prop::sample::select(vec![
        Overlap::Skip,
        Overlap::BufferOne,
        Overlap::BufferAll,
        Overlap::AllowAll,
        Overlap::CancelOther,
        Overlap::TerminateOther,
    ])
}

proptest! {
    /// However the scheduler's looks fall, and whoever takes them: no occurrence is decided twice,
    /// none is forgotten, and none fires before its instant.
    #[test]
    fn every_occurrence_is_decided_once(
        when in whens(),
        overlap in overlaps(),
        jitter in 0_u64..400,
        looks in prop::collection::vec((1_u64..20_000, any::<bool>()), 1..30),
    ) {
        let mut record = begun(Schedule {
            when,
            jitter: Duration::from_secs(jitter),
            catch_up: Duration::from_hours(1000),
            ..schedule(overlap)
        });
        let (begin, mut now) = (at(0), at(0));
        let mut fired = Vec::new();
        for (seconds, do_end) in looks {
            now = now.plus(Duration::from_secs(seconds));
            loop {
                if do_end {
                    record.state.running.clear();
                }
                let plan = due(record, now);
                for fire in &plan.fires {
                    prop_assert!(fire.at <= now);
                    fired.push(fire.at);
                }
                record = plan.record;
                if !plan.is_partial {
                    break;
                }
            }
            prop_assert!(record.next_fire_at > now, "all that is due is decided");
        }

        let mut once = fired.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), fired.len());
        let calendar = record.schedule.when.calendar().expect("valid");
        let mut occurrences = 0;
        let mut millis = begin.as_micros() / 1000;
        while let Some(next) = calendar.next(millis).filter(|it| it * 1000 <= record.state.decided.as_micros()) {
            (millis, occurrences) = (next, occurrences + 1);
        }
        let state = &record.state;
        let accounted = state.fires + state.skipped + state.buffered.len() as u64;
        prop_assert_eq!(occurrences, accounted);
    }

    #[test]
    fn jitter_is_the_same_for_everybody_and_ends_before_the_next_occurrence(
        minutes in 0_u64..1_000_000,
        most in 1_u64..600,
    ) {
        let mut record = minutely(Overlap::Skip);
        record.schedule.jitter = Duration::from_secs(most);
        record.state.decided = at(minutes);

        let one = due(record.clone(), at(minutes)).record.next_fire_at;
        let other = due(record, at(minutes)).record.next_fire_at;

        prop_assert_eq!(one, other);
        let late = one.since(at(minutes + 1));
        prop_assert!(late < MINUTE.min(Duration::from_secs(most)), "{:?}", late);
        prop_assert!(one >= at(minutes + 1));
    }
}

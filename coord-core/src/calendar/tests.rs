use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

fn at(text: &str) -> i64 {
    let time: Timestamp = text.parse().expect("a valid time");
    time.as_millisecond()
}

fn cron(expression: &str, zone: &str) -> Calendar {
    Calendar::cron(expression, zone).expect("a valid calendar")
}

/// All instants after `from` and up to `to`.
fn instants(calendar: &Calendar, from: &str, to: &str) -> Vec<String> {
    let (mut time, end) = (at(from), at(to));
    let mut found = Vec::new();
    while let Some(next) = calendar.next(time).filter(|next| *next <= end) {
        found.push(Calendar::text(next));
        time = next;
    }
    found
}

#[test]
fn an_expression_is_read_in_its_zone() {
    let calendar = cron("0 9 * * MON-FRI", "Europe/Berlin");

    // 2030-01-04 is a Friday; Berlin is an hour ahead in winter and two in summer.
    assert_eq!(
        instants(&calendar, "2030-01-03T12:00:00Z", "2030-01-07T12:00:00Z"),
        ["2030-01-04T08:00:00Z", "2030-01-07T08:00:00Z"]
    );
    assert_eq!(
        calendar.next(at("2030-07-01T00:00:00Z")),
        Some(at("2030-07-01T07:00:00Z"))
    );
}

#[test]
fn seconds_are_an_optional_first_field() {
    assert_eq!(
        cron("*/20 * * * * *", "UTC").next(at("2030-01-01T00:00:20.500Z")),
        Some(at("2030-01-01T00:00:40Z"))
    );
}

#[test]
fn an_instant_is_not_after_itself_and_is_the_latest_at_itself() {
    let calendar = cron("0 * * * *", "UTC");
    let noon = at("2030-01-01T12:00:00Z");

    assert_eq!(calendar.next(noon), Some(at("2030-01-01T13:00:00Z")));
    assert_eq!(calendar.latest(noon), Some(noon));
    assert_eq!(calendar.latest(noon - 1), Some(at("2030-01-01T11:00:00Z")));
    assert_eq!(calendar.next(noon - 1), Some(noon));
}

/// Berlin skips 02:00 to 03:00 on 2030-03-31, at 01:00 UTC.
mod in_a_skipped_hour {
    use super::*;

    #[test]
    fn a_fixed_time_runs_once_at_the_first_instant_after_it() {
        assert_eq!(
            instants(
                &cron("30 2 * * *", "Europe/Berlin"),
                "2030-03-30T12:00:00Z",
                "2030-04-01T12:00:00Z"
            ),
            ["2030-03-31T01:00:00Z", "2030-04-01T00:30:00Z"]
        );
    }

    #[test]
    fn a_fixed_time_that_falls_together_with_another_runs_once_for_both() {
        assert_eq!(
            instants(
                &cron("0,30 2,3 * * *", "Europe/Berlin"),
                "2030-03-31T00:00:00Z",
                "2030-03-31T06:00:00Z"
            ),
            ["2030-03-31T01:00:00Z", "2030-03-31T01:30:00Z"]
        );
    }

    #[test]
    fn a_step_goes_on_as_time_passes() {
        assert_eq!(
            instants(
                &cron("*/30 * * * *", "Europe/Berlin"),
                "2030-03-31T00:15:00Z",
                "2030-03-31T01:45:00Z"
            ),
            [
                "2030-03-31T00:30:00Z",
                "2030-03-31T01:00:00Z",
                "2030-03-31T01:30:00Z"
            ]
        );
    }
}

/// In Berlin 02:00 to 03:00 comes twice on 2030-10-27, the second time from 01:00 UTC.
mod in_an_hour_that_comes_twice {
    use super::*;

    #[test]
    fn a_fixed_time_runs_the_first_time_only() {
        assert_eq!(
            instants(
                &cron("30 2 * * *", "Europe/Berlin"),
                "2030-10-26T12:00:00Z",
                "2030-10-28T12:00:00Z"
            ),
            ["2030-10-27T00:30:00Z", "2030-10-28T01:30:00Z"]
        );
    }

    #[test]
    fn a_step_runs_both_times() {
        assert_eq!(
            instants(
                &cron("*/30 * * * *", "Europe/Berlin"),
                "2030-10-27T00:15:00Z",
                "2030-10-27T02:15:00Z"
            ),
            [
                "2030-10-27T00:30:00Z",
                "2030-10-27T01:00:00Z",
                "2030-10-27T01:30:00Z",
                "2030-10-27T02:00:00Z"
            ]
        );
    }
}

#[test]
fn an_interval_has_the_same_instants_everywhere() {
    let calendar = Calendar::every(Duration::from_millis(200), Duration::ZERO).expect("in range");

    assert_eq!(calendar.next(1000), Some(1200));
    assert_eq!(calendar.next(1199), Some(1200));
    assert_eq!(calendar.latest(1199), Some(1000));
    assert_eq!(calendar.latest(1200), Some(1200));
    assert_eq!(calendar.latest(-1), Some(-200));
}

#[test]
fn an_offset_moves_every_instant() {
    let (interval, offset) = (Duration::from_millis(200), Duration::from_millis(50));
    let calendar = Calendar::every(interval, offset).expect("in range");

    assert_eq!(calendar.next(1000), Some(1050));
    assert_eq!(calendar.next(1050), Some(1250));
    assert_eq!(calendar.latest(1049), Some(850));
    assert_eq!(calendar.latest(1050), Some(1050));
}

#[test]
fn both_limits_of_an_interval_hold() {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let refused = |interval, offset| match Calendar::every(interval, offset) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::Invalid,
    };

    assert!(!refused(MILLISECOND, Duration::ZERO));
    let latest = LONGEST.checked_sub(MILLISECOND).expect("above zero");
    assert!(!refused(LONGEST, latest));
    assert!(refused(Duration::ZERO, Duration::ZERO));
    assert!(refused(LONGEST + MILLISECOND, Duration::ZERO));
    assert!(refused(Duration::from_micros(10_500), Duration::ZERO));
    assert!(refused(LONGEST, LONGEST));
    assert!(refused(LONGEST, Duration::from_micros(1)));
}

#[test]
fn what_can_never_run_is_invalid() {
    for (expression, zone) in [
        ("", "UTC"),
        ("61 * * * *", "UTC"),
        ("0 0 30 2 *", "UTC"),
        ("0 0 1 1 * 2020", "UTC"),
        ("* * * *", "UTC"),
        ("0 9 * * *", "Europe/Atlantis"),
    ] {
        let error = Calendar::cron(expression, zone)
            .map(|_| ())
            .expect_err(expression);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{expression}");
    }
}

#[test]
fn a_day_that_comes_every_eighth_year_is_found() {
    // 2100 is no leap year.
    assert_eq!(
        cron("0 0 29 2 *", "UTC").next(at("2096-03-01T00:00:00Z")),
        Some(at("2104-02-29T00:00:00Z"))
    );
}

fn calendars() -> impl Strategy<Value = Calendar> {
    let expressions = prop::sample::select(vec![
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0,30 2,3 * * *",
        "15 */2 * * *",
        "0 0 1 * *",
        "0 9 * * MON-FRI",
        "*/13 * * * * *",
    ]);
    let zones = prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
    ]);
    prop_oneof![
        (expressions, zones).prop_map(|(expression, zone)| cron(expression, zone)),
        (10_u64..100_000_000, 0_u64..10).prop_map(|(millis, offset)| {
            let (millis, offset) = (Duration::from_millis(millis), Duration::from_millis(offset));
            Calendar::every(millis, offset).expect("in range")
        }),
    ]
}

/// Times near the changes of clocks in 2030, and any others until 2100.
fn times() -> impl Strategy<Value = i64> {
    const HOUR: i64 = 3_600_000;
    let changes = prop::sample::select(vec![
        "2030-03-31T01:00:00Z",
        "2030-10-27T01:00:00Z",
        "2030-03-10T07:00:00Z",
        "2030-11-03T06:00:00Z",
        "2030-04-06T15:00:00Z",
        "2030-10-05T15:30:00Z",
    ]);
    prop_oneof![
        (changes, -3 * HOUR..3 * HOUR).prop_map(|(change, shift)| at(change) + shift),
        0_i64..4_102_444_800_000,
    ]
}

proptest! {
    #[test]
    fn forwards_and_backwards_find_the_same_instants(calendar in calendars(), time in times()) {
        let next = calendar.next(time).expect("before the end of the calendar");
        let latest = calendar.latest(time).expect("after its beginning");

        prop_assert!(latest <= time && time < next);
        prop_assert_eq!(calendar.latest(next), Some(next));
        prop_assert_eq!(calendar.latest(next - 1), Some(latest));
        prop_assert_eq!(calendar.next(latest), Some(next));
    }

    #[test]
    fn a_time_reads_back_as_it_is_written(time in times()) {
        prop_assert_eq!(at(&Calendar::text(time)), time);
    }
}

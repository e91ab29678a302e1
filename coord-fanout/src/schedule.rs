//! When a job is to run.

use std::fmt;
use std::time::Duration;

use coord_core::{Error, Result};
use croner::Cron;
use croner::parser::{CronParser, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The shortest interval: some round trips, so that a tick can be finished before the next one.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest interval, a leap year; what is rarer is a cron expression.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// An instant of a schedule, in whole milliseconds of UTC since 1970.
///
/// It is computed from the schedule alone, so all nodes and all retries name a tick by the same
/// one; the time at which the tick really ran is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickTime(i64);

impl TickTime {
    pub(crate) const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// How long after `earlier` this is; nothing when it is before.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for TickTime {
    /// As RFC 3339 in UTC: `2030-03-31T01:00:00Z`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(time) => fmt::Display::fmt(&time, formatter),
            Err(_) => write!(formatter, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for TickTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// When a job runs: by a cron expression in a time zone, or at a fixed interval.
///
/// ```
/// use coord_fanout::Schedule;
/// use std::time::Duration;
///
/// let mornings = Schedule::cron("0 9 * * MON-FRI", "Europe/Berlin")?;
/// let often = Schedule::every(Duration::from_secs(30))?;
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Schedule(Kind);

#[derive(Clone)]
enum Kind {
    /// Boxed, since a table of instants is large.
    Cron {
        cron: Box<Cron>,
        zone: TimeZone,
    },
    Every {
        millis: i64,
    },
}

impl Schedule {
    /// By a cron `expression` of five fields, or six with seconds in front, on the clocks of
    /// `zone`, an IANA name such as `Europe/Berlin` or `UTC`.
    ///
    /// Where clocks change, the rules of Vixie cron hold, as croner implements them. An
    /// expression with fixed hours and minutes (`30 2 * * *`) runs once a day: in an hour that is
    /// skipped, at the first instant after it; in an hour that comes twice, the first time only.
    /// One with a wildcard or step (`*/15 * * * *`) follows the time that passes: it has no
    /// instants in a skipped hour, and all of them both times in an hour that comes twice.
    ///
    /// The zones are those of the operating system, or a copy of this build where it has none.
    /// Nodes that disagree about a zone's rules disagree about instants until all are updated.
    ///
    /// # Errors
    /// `Invalid` for an expression that cannot be read or never comes true (`0 0 30 2 *`), and
    /// for an unknown zone.
    pub fn cron(expression: &str, zone: &str) -> Result<Self> {
        let wrong = |text: String, source| Error::invalid(text).with_source(source);
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| {
            wrong(
                format!("the cron expression {expression:?} cannot be read"),
                Box::new(error) as Box<dyn std::error::Error + Send + Sync>,
            )
        })?;
        let zone = TimeZone::get(zone).map_err(|error| {
            wrong(
                format!("{zone:?} is no IANA time zone that is known here"),
                Box::new(error),
            )
        })?;
        let cron = Box::new(cron);
        let schedule = Self(Kind::Cron { cron, zone });
        if schedule.next(TickTime(0)).is_none() {
            return Err(Error::invalid(format!(
                "the cron expression {expression:?} never comes true"
            )));
        }
        Ok(schedule)
    }

    /// Every `interval`, from 10 ms to 366 days in whole milliseconds, counted from 1970 in UTC,
    /// so that all nodes have the same instants.
    ///
    /// # Errors
    /// `Invalid` for any other interval.
    pub fn every(interval: Duration) -> Result<Self> {
        if !(SHORTEST..=LONGEST).contains(&interval)
            || !interval.subsec_nanos().is_multiple_of(1_000_000)
        {
            return Err(Error::invalid(format!(
                "an interval of {interval:?} is not in 10 ms to 366 days in whole milliseconds"
            )));
        }
        Ok(Self(Kind::Every {
            millis: millis(interval),
        }))
    }

    /// The first instant after `time`; none where the calendar ends.
    pub(crate) fn next(&self, time: TickTime) -> Option<TickTime> {
        match &self.0 {
            Kind::Every { millis } => {
                let next = time.0.div_euclid(*millis).checked_add(1)?;
                next.checked_mul(*millis).map(TickTime)
            }
            Kind::Cron { cron, zone } => {
                let next = cron.find_next_occurrence(&zoned(time, zone)?, false).ok()?;
                Some(TickTime(next.timestamp().as_millisecond()))
            }
        }
    }

    /// The last instant at or before `time`; none where the calendar begins.
    pub(crate) fn latest(&self, time: TickTime) -> Option<TickTime> {
        match &self.0 {
            Kind::Every { millis } => {
                Some(TickTime(time.0.div_euclid(*millis).checked_mul(*millis)?))
            }
            Kind::Cron { cron, zone } => {
                let latest = cron
                    .find_previous_occurrence(&zoned(time, zone)?, true)
                    .ok()?;
                Some(TickTime(latest.timestamp().as_millisecond()))
            }
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cron { cron, zone } => {
                let zone = zone.iana_name().unwrap_or("?");
                write!(formatter, "{:?} in {zone}", cron.as_str())
            }
            Kind::Every { millis } => write!(formatter, "every {millis} ms"),
        }
    }
}

fn zoned(time: TickTime, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_millisecond(time.0).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> TickTime {
        let time: Timestamp = text.parse().expect("a valid time");
        TickTime(time.as_millisecond())
    }

    fn cron(expression: &str, zone: &str) -> Schedule {
        Schedule::cron(expression, zone).expect("a valid schedule")
    }

    /// All instants after `from` and up to `to`.
    fn instants(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
        let (mut time, end) = (at(from), at(to));
        let mut found = Vec::new();
        while let Some(next) = schedule.next(time).filter(|next| *next <= end) {
            found.push(next.to_string());
            time = next;
        }
        found
    }

    #[test]
    fn an_expression_is_read_in_its_zone() {
        let schedule = cron("0 9 * * MON-FRI", "Europe/Berlin");

        // 2030-01-04 is a Friday; Berlin is an hour ahead in winter and two in summer.
        assert_eq!(
            instants(&schedule, "2030-01-03T12:00:00Z", "2030-01-07T12:00:00Z"),
            ["2030-01-04T08:00:00Z", "2030-01-07T08:00:00Z"]
        );
        assert_eq!(
            schedule.next(at("2030-07-01T00:00:00Z")),
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
        let schedule = cron("0 * * * *", "UTC");
        let noon = at("2030-01-01T12:00:00Z");

        assert_eq!(schedule.next(noon), Some(at("2030-01-01T13:00:00Z")));
        assert_eq!(schedule.latest(noon), Some(noon));
        assert_eq!(
            schedule.latest(TickTime(noon.0 - 1)),
            Some(at("2030-01-01T11:00:00Z"))
        );
        assert_eq!(schedule.next(TickTime(noon.0 - 1)), Some(noon));
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
        let schedule = Schedule::every(Duration::from_millis(200)).expect("in range");

        assert_eq!(schedule.next(TickTime(1000)), Some(TickTime(1200)));
        assert_eq!(schedule.next(TickTime(1199)), Some(TickTime(1200)));
        assert_eq!(schedule.latest(TickTime(1199)), Some(TickTime(1000)));
        assert_eq!(schedule.latest(TickTime(1200)), Some(TickTime(1200)));
        assert_eq!(schedule.latest(TickTime(-1)), Some(TickTime(-200)));
    }

    #[test]
    fn both_limits_of_an_interval_hold() {
        let refused = |interval| matches!(Schedule::every(interval), Err(e) if e.kind() == ErrorKind::Invalid);

        assert!(!refused(SHORTEST));
        assert!(!refused(LONGEST));
        assert!(refused(
            SHORTEST
                .checked_sub(Duration::from_millis(1))
                .expect("above zero")
        ));
        assert!(refused(LONGEST + Duration::from_millis(1)));
        assert!(refused(Duration::from_micros(10_500)));
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
            let error = Schedule::cron(expression, zone)
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

    fn schedules() -> impl Strategy<Value = Schedule> {
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
            (10_u64..100_000_000).prop_map(|millis| {
                Schedule::every(Duration::from_millis(millis)).expect("in range")
            }),
        ]
    }

    /// Times near the changes of clocks in 2030, and any others until 2100.
    fn times() -> impl Strategy<Value = TickTime> {
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
            (changes, -3 * HOUR..3 * HOUR)
                .prop_map(|(change, shift)| TickTime(at(change).0 + shift)),
            (0_i64..4_102_444_800_000).prop_map(TickTime),
        ]
    }

    proptest! {
        #[test]
        fn forwards_and_backwards_find_the_same_instants(schedule in schedules(), time in times()) {
            let next = schedule.next(time).expect("before the end of the calendar");
            let latest = schedule.latest(time).expect("after its beginning");

            prop_assert!(latest <= time && time < next);
            prop_assert_eq!(schedule.latest(next), Some(next));
            prop_assert_eq!(schedule.latest(TickTime(next.0 - 1)), Some(latest));
            prop_assert_eq!(schedule.next(latest), Some(next));
        }

        #[test]
        fn a_time_reads_back_as_it_is_written(time in times()) {
            prop_assert_eq!(at(&time.to_string()), time);
        }
    }
}

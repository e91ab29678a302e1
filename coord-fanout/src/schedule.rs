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
mod tests;

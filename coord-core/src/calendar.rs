//! The instants of a schedule: by a cron expression in a time zone, or at a fixed interval.

use std::fmt;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::{Error, Result};

/// The longest interval, a leap year; what is rarer is a cron expression.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// The instants at which something is to happen, without a beginning or an end.
///
/// An instant is in whole milliseconds of UTC since 1970. It follows from the calendar alone, so all
/// processes, and all retries of one, name an occurrence by the same instant.
///
/// The zones are those of the operating system, or a copy of this build where it has none.
/// Processes that disagree about a zone's rules disagree about instants until all are updated.
///
/// ```
/// use coord_core::Calendar;
/// use std::time::Duration;
///
/// let hourly = Calendar::every(Duration::from_secs(3600), Duration::from_secs(300))?;
/// assert_eq!(hourly.next(0), Some(300_000)); // five past
/// let mornings = Calendar::cron("0 9 * * MON-FRI", "Europe/Berlin")?;
/// assert!(mornings.next(0).is_some());
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Calendar(Kind);

#[derive(Clone)]
enum Kind {
    /// Boxed, since a table of instants is large.
    Cron {
        cron: Box<Cron>,
        zone: TimeZone,
    },
    Every {
        millis: i64,
        offset: i64,
    },
}

impl Calendar {
    /// By a cron `expression` of five fields, or six with seconds in front, on the clocks of
    /// `zone`, an IANA name such as `Europe/Berlin` or `UTC`.
    ///
    /// Where clocks change, the rules of Vixie cron hold, as croner implements them. An
    /// expression with fixed hours and minutes (`30 2 * * *`) comes once a day: in an hour that is
    /// skipped, at the first instant after it; in an hour that comes twice, the first time only.
    /// One with a wildcard or step (`*/15 * * * *`) follows the time that passes: it has no
    /// instants in a skipped hour, and all of them both times in an hour that comes twice.
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
        let calendar = Self(Kind::Cron { cron, zone });
        if calendar.next(0).is_none() {
            return Err(Error::invalid(format!(
                "the cron expression {expression:?} never comes true"
            )));
        }
        Ok(calendar)
    }

    /// Every `interval`, up to 366 days in whole milliseconds, counted from `offset` after the
    /// beginning of 1970 in UTC, so that all processes have the same instants.
    ///
    /// # Errors
    /// `Invalid` for any other interval, and for an offset that is not in whole milliseconds or not
    /// below the interval.
    pub fn every(interval: Duration, offset: Duration) -> Result<Self> {
        let is_whole = |span: Duration| span.subsec_nanos().is_multiple_of(1_000_000);
        if interval.is_zero() || interval > LONGEST || !is_whole(interval) {
            return Err(Error::invalid(format!(
                "an interval of {interval:?} is not in 1 ms to 366 days in whole milliseconds"
            )));
        }
        if offset >= interval || !is_whole(offset) {
            return Err(Error::invalid(format!(
                "an offset of {offset:?} is not below {interval:?} in whole milliseconds"
            )));
        }
        Ok(Self(Kind::Every {
            millis: interval.as_millis() as i64,
            offset: offset.as_millis() as i64,
        }))
    }

    /// The first instant after `millis`; none where the calendar ends.
    pub fn next(&self, millis: i64) -> Option<i64> {
        match &self.0 {
            Kind::Every {
                millis: every,
                offset,
            } => {
                let next = millis.checked_sub(*offset)?.div_euclid(*every);
                next.checked_add(1)?
                    .checked_mul(*every)?
                    .checked_add(*offset)
            }
            Kind::Cron { cron, zone } => {
                let next = cron
                    .find_next_occurrence(&zoned(millis, zone)?, false)
                    .ok()?;
                Some(next.timestamp().as_millisecond())
            }
        }
    }

    /// The last instant at or before `millis`; none where the calendar begins.
    pub fn latest(&self, millis: i64) -> Option<i64> {
        match &self.0 {
            Kind::Every {
                millis: every,
                offset,
            } => {
                let latest = millis.checked_sub(*offset)?.div_euclid(*every);
                latest.checked_mul(*every)?.checked_add(*offset)
            }
            Kind::Cron { cron, zone } => {
                let latest = cron.find_previous_occurrence(&zoned(millis, zone)?, true);
                Some(latest.ok()?.timestamp().as_millisecond())
            }
        }
    }

    /// `millis` as RFC 3339 in UTC: `2030-03-31T01:00:00Z`; outside of the calendar, its number.
    pub fn text(millis: i64) -> String {
        match Timestamp::from_millisecond(millis) {
            Ok(time) => time.to_string(),
            Err(_) => format!("{millis} ms"),
        }
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cron { cron, zone } => {
                let zone = zone.iana_name().unwrap_or("?");
                write!(formatter, "{:?} in {zone}", cron.as_str())
            }
            Kind::Every { millis, offset: 0 } => write!(formatter, "every {millis} ms"),
            Kind::Every { millis, offset } => {
                write!(formatter, "every {millis} ms, {offset} ms late")
            }
        }
    }
}

fn zoned(millis: i64, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_millisecond(millis).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests;

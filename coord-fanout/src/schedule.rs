//! When a job is to run.

use std::fmt;
use std::time::Duration;

use coord_core::{Calendar, Error, Result};

/// The shortest interval: some round trips, so that a tick can be finished before the next one.
const SHORTEST: Duration = Duration::from_millis(10);

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
        formatter.write_str(&Calendar::text(self.0))
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
pub struct Schedule(Calendar);

impl Schedule {
    /// By a cron `expression` of five fields, or six with seconds in front, on the clocks of
    /// `zone`, an IANA name such as `Europe/Berlin` or `UTC`. [`Calendar::cron`] says what happens
    /// where clocks change, and whose rules of zones hold.
    ///
    /// # Errors
    /// `Invalid` for an expression that cannot be read or never comes true (`0 0 30 2 *`), and
    /// for an unknown zone.
    pub fn cron(expression: &str, zone: &str) -> Result<Self> {
        Calendar::cron(expression, zone).map(Self)
    }

    /// Every `interval`, from 10 ms to 366 days in whole milliseconds, counted from 1970 in UTC,
    /// so that all nodes have the same instants.
    ///
    /// # Errors
    /// `Invalid` for any other interval.
    pub fn every(interval: Duration) -> Result<Self> {
        if interval < SHORTEST {
            return Err(Error::invalid(format!(
                "an interval of {interval:?} is shorter than 10 ms"
            )));
        }
        Calendar::every(interval, Duration::ZERO).map(Self)
    }

    /// The first instant after `time`; none where the calendar ends.
    pub(crate) fn next(&self, time: TickTime) -> Option<TickTime> {
        self.0.next(time.0).map(TickTime)
    }

    /// The last instant at or before `time`; none where the calendar begins.
    pub(crate) fn latest(&self, time: TickTime) -> Option<TickTime> {
        self.0.latest(time.0).map(TickTime)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn an_interval_too_short_for_a_tick_is_invalid() {
        let refused = Schedule::every(Duration::from_millis(9)).map(|_| ());

        assert_eq!(refused.expect_err("too short").kind(), ErrorKind::Invalid);
        assert!(Schedule::every(SHORTEST).is_ok());
    }
}

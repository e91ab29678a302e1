//! What is limited, and how.

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{Error, Name, Result};

use crate::fixed::Fixed;
use crate::gcra::{Gcra, MAX_AHEAD_US};
use crate::rule::Rule;
use crate::sliding::Sliding;

/// The most permits of a quota or a burst: beyond it the scripts' arithmetic would round.
const MAX_PERMITS: u32 = 1_000_000_000;
/// The longest period, a leap year.
const MAX_PERIOD: Duration = Duration::from_hours(366 * 24);
/// The shortest period; a higher rate has more permits in a longer period.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// So many permits in so much time: up to 10^9 in 1 ms to 366 days, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    permits: u32,
    period_us: u64,
}

impl Quota {
    /// `permits` in every `period`; fractions of a microsecond round up.
    ///
    /// # Errors
    /// `Invalid` for no permits or more than 10^9, and for a period out of 1 ms to 366 days.
    pub fn new(permits: u32, period: Duration) -> Result<Self> {
        if !(1..=MAX_PERMITS).contains(&permits) {
            return Err(Error::invalid(format!(
                "a quota of {permits} permits is not in 1 to {MAX_PERMITS}"
            )));
        }
        if !(MIN_PERIOD..=MAX_PERIOD).contains(&period) {
            return Err(Error::invalid(format!(
                "a period of {period:?} is not in 1 ms to 366 days"
            )));
        }
        // A year in nanoseconds is below 2^55.
        let period_us = period.as_nanos().div_ceil(1000) as u64;
        Ok(Self { permits, period_us })
    }

    /// `permits` in every second.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn per_second(permits: u32) -> Result<Self> {
        Self::new(permits, Duration::from_secs(1))
    }

    /// `permits` in every minute.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn per_minute(permits: u32) -> Result<Self> {
        Self::new(permits, Duration::from_mins(1))
    }

    /// `permits` in every hour.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn per_hour(permits: u32) -> Result<Self> {
        Self::new(permits, Duration::from_hours(1))
    }

    /// `permits` in every 24 hours.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn per_day(permits: u32) -> Result<Self> {
        Self::new(permits, Duration::from_hours(24))
    }

    /// How many permits.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// In how much time.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }
}

/// A quota, by which algorithm it is held, and the name under which it is counted and shown.
///
/// Its numbers travel with every call, so there is nothing to create or to change in Redis: a
/// limit that is made again with the same numbers goes on where it was, and one with other numbers
/// judges what was drawn so far by the new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    name: Name,
    quota: Quota,
    rule: Rule,
}

impl Limit {
    /// Permits that come back one by one, evenly, at the rate of `quota`; up to `burst` of them
    /// may be taken at once by a subject that has saved them up.
    ///
    /// In any span of time at most `burst` and what the rate gives in it pass. This is the
    /// algorithm to take unless another one is wanted: it is exact, and a subject that is denied
    /// never waits longer than it has to.
    ///
    /// # Errors
    /// `Invalid` for a burst out of 1 to 10^9, and for one that takes more than ten years to
    /// come back.
    pub fn gcra(name: Name, quota: Quota, burst: u32) -> Result<Self> {
        if !(1..=MAX_PERMITS).contains(&burst) {
            return Err(Error::invalid(format!(
                "limit {name}: a burst of {burst} permits is not in 1 to {MAX_PERMITS}"
            )));
        }
        let ahead_us = u128::from(burst) * u128::from(quota.period_us) / u128::from(quota.permits);
        if ahead_us >= u128::from(MAX_AHEAD_US) {
            return Err(Error::invalid(format!(
                "limit {name}: a burst of {burst} permits takes more than ten years to come back"
            )));
        }
        let rule = Rule::Gcra(Gcra::new(quota.permits, quota.period_us, burst));
        Ok(Self { name, quota, rule })
    }

    /// At most the quota's permits in its period, counted by two windows of which the older one
    /// weighs by the part that the span until now still covers.
    ///
    /// No burst at a window's edge: whoever took all permits at the end of one gets the next as
    /// the weight falls. The weight takes the older window's permits as spread evenly: where they
    /// were all taken at its end, up to twice the quota may still pass in a span of one period.
    /// Where that must not be, take [`gcra`](Self::gcra).
    pub fn sliding_window(name: Name, quota: Quota) -> Self {
        let rule = Rule::Sliding(Sliding {
            quota: quota.permits,
            window_us: quota.period_us,
        });
        Self { name, quota, rule }
    }

    /// At most the quota's permits in a window, which the first of them opens and which lasts one
    /// period. Then all come back at once.
    ///
    /// The cheapest, and what people expect of "a thousand a day". Around the end of one window
    /// and the start of the next, up to twice the quota pass in a span of one period.
    pub fn fixed_window(name: Name, quota: Quota) -> Self {
        let rule = Rule::Fixed(Fixed {
            quota: quota.permits,
            window_us: quota.period_us,
        });
        Self { name, quota, rule }
    }

    /// Under which name it is counted and shown.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Its arithmetic.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The most permits that may be taken at once.
    pub fn capacity(&self) -> u32 {
        self.rule.capacity()
    }

    /// The share of one of so many instances: at least one permit.
    pub(crate) fn share(&self, instances: NonZeroU32) -> Rule {
        let part = |permits: u32| (permits / instances).max(1);
        match self.rule {
            Rule::Gcra(gcra) => {
                // Below 2^45 times 2^32: saturating, since nobody has so many instances.
                let period_us = self.quota.period_us.saturating_mul(instances.get().into());
                Rule::Gcra(Gcra::new(self.quota.permits, period_us, part(gcra.burst())))
            }
            Rule::Sliding(sliding) => Rule::Sliding(Sliding {
                quota: part(sliding.quota),
                ..sliding
            }),
            Rule::Fixed(fixed) => Rule::Fixed(Fixed {
                quota: part(fixed.quota),
                ..fixed
            }),
        }
    }
}

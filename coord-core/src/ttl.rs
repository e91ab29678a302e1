//! The life of a lease.

use std::fmt;
use std::time::Duration;

use crate::{Error, Result};

/// The life that the server gives a lease or a lock: whole milliseconds from 10 ms to 24 h.
///
/// A shorter life would end before the answer arrives, a longer one is not a lease but a record.
/// Fractions of a millisecond round up, so that no lease is granted for less than was asked.
/// Cooldowns, cache entries and deduplication windows have wider types of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// The shortest life: 10 ms, some round trips on a fast network.
    pub const MIN: Self = Self(10);
    /// The longest life: 24 h.
    pub const MAX: Self = Self(24 * 60 * 60 * 1000);
    /// The default life, 30 s: long enough to ride out a failover, short enough to wait for.
    pub const DEFAULT: Self = Self(30_000);

    /// A life of `duration`, rounded up to whole milliseconds.
    ///
    /// # Errors
    /// `Invalid` below 10 ms or above 24 h.
    pub fn new(duration: Duration) -> Result<Self> {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        u64::try_from(millis)
            .ok()
            .map(Self)
            .filter(|ttl| (Self::MIN..=Self::MAX).contains(ttl))
            .ok_or_else(|| Error::invalid(format!("a TTL of {duration:?} is not in 10 ms to 24 h")))
    }

    /// A life of `millis` milliseconds.
    ///
    /// # Errors
    /// `Invalid` below 10 ms or above 24 h.
    pub fn from_millis(millis: u64) -> Result<Self> {
        Self::new(Duration::from_millis(millis))
    }

    /// The life in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The life as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = Error;

    fn try_from(duration: Duration) -> Result<Self> {
        Self::new(duration)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ms", self.0)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ttl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn fractions_of_a_millisecond_round_up() {
        let ttl = Ttl::new(Duration::from_micros(10_001)).expect("in range");

        assert_eq!(ttl.as_millis(), 11);
    }

    #[test]
    fn both_limits_are_allowed_and_one_step_beyond_them_is_invalid() {
        let refused = |duration| Ttl::new(duration).expect_err("out of range").kind();

        assert_eq!(Ttl::from_millis(10).expect("lower limit"), Ttl::MIN);
        assert_eq!(Ttl::from_millis(86_400_000).expect("upper limit"), Ttl::MAX);
        assert_eq!(refused(Duration::from_millis(9)), ErrorKind::Invalid);
        assert_eq!(refused(Duration::ZERO), ErrorKind::Invalid);
        assert_eq!(
            refused(Duration::from_nanos(86_400_000_000_001)),
            ErrorKind::Invalid
        );
        assert_eq!(refused(Duration::MAX), ErrorKind::Invalid);
    }

    #[test]
    fn the_fraction_that_rounds_up_to_the_lower_limit_is_allowed() {
        assert_eq!(
            Ttl::new(Duration::from_micros(9_001)).expect("rounds up"),
            Ttl::MIN
        );
    }
}

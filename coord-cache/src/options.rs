//! How a cache keeps its entries.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use coord_core::{Error, Result};

/// How long an entry lives: whole milliseconds from 10 ms to 366 days.
///
/// A shorter life would end before the answer arrives; a longer one is a record, and belongs into
/// a database. Fractions of a millisecond round up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(u64);

impl Life {
    /// The shortest life: 10 ms.
    pub const MIN: Self = Self(10);
    /// The longest life: 366 days.
    pub const MAX: Self = Self(366 * 24 * 60 * 60 * 1000);

    /// A life of `duration`.
    ///
    /// # Errors
    /// `Invalid` below 10 ms or above 366 days.
    pub fn new(duration: Duration) -> Result<Self> {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        u64::try_from(millis)
            .ok()
            .map(Self)
            .filter(|life| (Self::MIN..=Self::MAX).contains(life))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "a life of {duration:?} is not in 10 ms to 366 days"
                ))
            })
    }

    pub(crate) const fn as_millis(self) -> u64 {
        self.0
    }

    pub(crate) const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ms", self.0)
    }
}

/// How a cache keeps its entries. The default: five minutes, no negative entries, nothing stale,
/// no early refresh, no near cache.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    pub(crate) ttl: Life,
    pub(crate) negative: Option<Life>,
    pub(crate) stale: Option<Life>,
    pub(crate) early: bool,
    pub(crate) near: Option<Near>,
    pub(crate) load_timeout: Duration,
    pub(crate) max_bytes: usize,
    pub(crate) compress_from: usize,
    pub(crate) schema: u16,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    pub(crate) entries: usize,
    pub(crate) life: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            ttl: Life(5 * 60 * 1000),
            negative: None,
            stale: None,
            early: false,
            near: None,
            load_timeout: Duration::from_secs(10),
            max_bytes: 1 << 20,
            compress_from: 4 << 10,
            schema: 0,
        }
    }
}

impl CacheOptions {
    /// How long an entry is fresh; 5 min by default. Each entry's own life is up to a tenth
    /// shorter, at random, so that what was stored together does not end together.
    #[must_use]
    pub fn ttl(mut self, ttl: Life) -> Self {
        self.ttl = ttl;
        self
    }

    /// For how long it is kept that the loader found nothing; by default it is not, and every
    /// miss loads again. Keep it short: nobody is told when the thing comes to be.
    #[must_use]
    pub fn negative(mut self, ttl: Life) -> Self {
        self.negative = Some(ttl);
        self
    }

    /// For how long after its TTL an entry is still served: at once, while one instance loads it
    /// anew in the background, and on, while that fails. By default not at all.
    #[must_use]
    pub fn stale(mut self, window: Life) -> Self {
        self.stale = Some(window);
        self
    }

    /// Loads an entry anew shortly before its end, in the background, the earlier and the likelier
    /// the longer its load takes, so that hot entries never miss. Off by default.
    #[must_use]
    pub fn early_refresh(mut self) -> Self {
        self.early = true;
        self
    }

    /// Keeps up to `entries` decoded values in the process, each for at most `life`; by default
    /// none. They are dropped when their keys change, whoever changes them, and altogether while
    /// the news of changes are interrupted; `life` bounds what a silent interruption may serve.
    #[must_use]
    pub fn near(mut self, entries: NonZeroUsize, life: Life) -> Self {
        self.near = Some(Near {
            entries: entries.get(),
            life: life.as_duration(),
        });
        self
    }

    /// How long one load may take; 10 s by default. Then its callers get `Timeout`, and the next
    /// caller loads anew. Whoever waits for another process waits for up to 5 s more, since that
    /// may have died.
    ///
    /// # Errors
    /// `Invalid` below 1 ms or above an hour.
    pub fn load_timeout(mut self, timeout: Duration) -> Result<Self> {
        if timeout < Duration::from_millis(1) || timeout > Duration::from_hours(1) {
            let message = format!("a load timeout of {timeout:?} is not in 1 ms to 1 h");
            return Err(Error::invalid(message));
        }
        self.load_timeout = timeout;
        Ok(self)
    }

    /// The most bytes that an encoded value may have; 1 MiB by default, which holds the shared
    /// connection up for some milliseconds. A larger one is refused by `set` with `Invalid`, and
    /// handed out but not stored by `get_or_fetch`.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// From how many bytes on an encoded value is compressed (LZ4); 4 KiB by default, below which
    /// the wire gains little. `usize::MAX` never compresses.
    #[must_use]
    pub fn compress_from(mut self, bytes: usize) -> Self {
        self.compress_from = bytes;
        self
    }

    /// The number of what a value looks like; 0 by default. Raise it along with a change that
    /// older or newer releases cannot read: what has another number counts as a miss.
    #[must_use]
    pub fn schema(mut self, schema: u16) -> Self {
        self.schema = schema;
        self
    }

    /// Whether it matters how much life an entry has left.
    pub(crate) fn is_timed(&self) -> bool {
        self.stale.is_some() || self.early || self.near.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_and_the_longest_life_are_taken_and_what_is_beyond_refused() {
        let life = |micros| Life::new(Duration::from_micros(micros));

        assert_eq!(life(10_000).expect("the shortest"), Life::MIN);
        assert!(life(9_000).is_err());
        assert_eq!(life(10_001).expect("rounded up").as_millis(), 11);
        assert!(Life::new(Life::MAX.as_duration()).is_ok());
        assert!(Life::new(Life::MAX.as_duration() + Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_load_has_a_limit_in_which_it_can_end() {
        let limit = |limit| CacheOptions::default().load_timeout(limit);

        assert!(limit(Duration::ZERO).is_err());
        assert!(limit(Duration::from_millis(1)).is_ok());
        assert!(limit(Duration::MAX).is_err());
    }
}

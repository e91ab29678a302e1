//! Instants as the database tells them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant in microseconds since 1970, UTC, on the clock of the database.
///
/// Stored and compared as an integer, so that no database rounds it to another instant.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// An instant that does not come. Far enough from the end of the integer that a duration can
    /// still be added to it.
    pub const NEVER: Self = Self(1 << 62);

    /// The instant `micros` after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The instant `span` later; `NEVER` when that is out of reach.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span))).min(Self::NEVER)
    }

    /// The span since `earlier`, or zero.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whether this instant comes at all.
    pub fn comes(self) -> bool {
        self < Self::NEVER
    }
}

/// A span in whole microseconds, at most [`Timestamp::NEVER`]; part of one counts as a whole one,
/// so that a positive span never becomes zero.
pub fn micros(span: Duration) -> i64 {
    let micros = span.as_nanos().div_ceil(1000);
    i64::try_from(micros)
        .unwrap_or(Timestamp::NEVER.0)
        .min(Timestamp::NEVER.0)
}

/// Spans in JSON, as whole microseconds.
pub(super) mod span {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        span: &Duration,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_i64(super::micros(*span))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }

    /// The same for a span that may not be set.
    pub(in super::super) mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serializer};

        #[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
        pub(in super::super::super) fn serialize<S: Serializer>(
            span: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match span {
                Some(span) => super::serialize(span, to),
                None => to.serialize_none(),
            }
        }

        pub(in super::super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
        }
    }
}

/// When a task may be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// As soon as the transaction is committed.
    Now,
    /// At an instant of the database's clock.
    At(Timestamp),
    /// So long after the transaction, on the database's clock.
    After(Duration),
}

impl Due {
    /// The one integer that carries it into a statement: `d > 0` is the instant, anything else a
    /// span to add to the clock of the database, negated.
    ///
    /// In SQL: `CASE WHEN d > 0 THEN d ELSE now - d END`.
    pub fn encode(self) -> i64 {
        match self {
            Self::Now => 0,
            // The instant zero is long past, and so is the one after it.
            Self::At(instant) => instant.as_micros().max(1),
            Self::After(span) => -micros(span),
        }
    }

    /// The instant that it means at `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(instant) => instant,
            Self::After(span) => now.plus(span),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_rounded_up_to_whole_microseconds() {
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_micros(1)), 1);
        assert_eq!(micros(Duration::from_nanos(1001)), 2);
    }

    #[test]
    fn the_longest_span_is_never_and_overflows_nothing() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);

        assert_eq!(now.plus(Duration::MAX), Timestamp::NEVER);
        assert!(!now.plus(Duration::MAX).comes());
        assert!(
            now.as_micros()
                .checked_sub(Due::After(Duration::MAX).encode())
                .is_some()
        );
    }

    #[test]
    fn the_encoding_means_what_the_value_means() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let in_sql = |due: Due| match due.encode() {
            instant @ 1.. => instant,
            span => now.as_micros() - span,
        };

        for due in [Due::Now, Due::At(now), Due::After(Duration::from_secs(3))] {
            assert_eq!(in_sql(due), due.resolve(now).as_micros());
        }
    }
}

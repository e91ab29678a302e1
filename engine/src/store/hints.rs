//! Hints that processes leave for each other.

/// Hints, as they are read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// The number of the last one; what was asked for when there is none.
    pub last: i64,
    /// Each with its number, in their order. Numbers grow, with gaps; one may become visible after
    /// others with larger numbers.
    pub messages: Vec<(i64, String)>,
}

/// How many are read at once.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const PAGE: i64 = 1000;
/// How many are kept, at least.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
const KEPT: i64 = 5000;
/// After how many new ones the old ones go.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
const EVERY: i64 = 500;

impl Hints {
    /// `messages` that were read after `after`.
    pub(crate) fn read(after: Option<i64>, messages: Vec<(i64, String)>) -> Self {
        let last = messages.last().map(|(number, _)| *number);
        Self {
            last: last.or(after).unwrap_or(0),
            messages,
        }
    }
}

/// Up to which number they go, now that `number` is there.
///
/// Servers that write side by side each give out every tenth number, or every second one.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const fn to_drop(number: i64) -> Option<i64> {
    if number % EVERY < 10 && number > KEPT {
        Some(number - KEPT)
    } else {
        None
    }
}

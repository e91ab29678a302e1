//! The three algorithms as one: what a limit decides, given its state and the time.

use std::time::Duration;

use crate::fixed::{Fixed, Used, Window};
use crate::gcra::{Ahead, Drawn, Gcra};
use crate::sliding::{Counts, Sliding, Windows};

/// The arithmetic of a limit. It does no I/O and reads no clock; the scripts do the same in Lua,
/// and are tested against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// See [`Limit::gcra`](crate::Limit::gcra).
    Gcra(Gcra),
    /// See [`Limit::sliding_window`](crate::Limit::sliding_window).
    Sliding(Sliding),
    /// See [`Limit::fixed_window`](crate::Limit::fixed_window).
    Fixed(Fixed),
}

/// What is stored of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Of a [`Rule::Gcra`].
    Gcra(Drawn),
    /// Of a [`Rule::Sliding`].
    Sliding(Windows),
    /// Of a [`Rule::Fixed`].
    Fixed(Window),
}

/// What a state means at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Of a [`Rule::Gcra`].
    Gcra(Ahead),
    /// Of a [`Rule::Sliding`].
    Sliding(Counts),
    /// Of a [`Rule::Fixed`].
    Fixed(Used),
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Whether the permits were taken.
    pub fits: bool,
    /// The level as it was found.
    pub before: Level,
    /// What is stored from now on; nothing when that is as new.
    pub state: Option<State>,
}

impl Rule {
    /// Takes `permits` at `now_us`, or gives them back when they are negative. A state of another
    /// algorithm counts as none.
    pub fn take(&self, state: Option<State>, now_us: u64, permits: i64) -> Taken {
        let before = self.level(state, now_us);
        let fits = self.fits(before, permits);
        let after = if fits {
            self.plus(before, permits)
        } else {
            before
        };
        Taken {
            fits,
            before,
            state: self.state(after, now_us),
        }
    }

    /// The most permits that fit at once.
    pub fn capacity(&self) -> u32 {
        match self {
            Self::Gcra(gcra) => gcra.burst(),
            Self::Sliding(Sliding { quota, .. }) | Self::Fixed(Fixed { quota, .. }) => *quota,
        }
    }

    /// Permits that fit at `level`.
    pub fn remaining(&self, level: Level) -> u32 {
        match (self, level) {
            (Self::Gcra(gcra), Level::Gcra(ahead)) => gcra.remaining(ahead),
            (Self::Sliding(sliding), Level::Sliding(counts)) => sliding.remaining(counts),
            (Self::Fixed(fixed), Level::Fixed(used)) => fixed.remaining(used),
            _ => self.capacity(),
        }
    }

    /// The time, rounded up to microseconds, until a state at `level` is as new.
    pub fn reset_after(&self, level: Level) -> Duration {
        Duration::from_micros(match (self, level) {
            (Self::Gcra(_), Level::Gcra(ahead)) => ahead.reset_after_us(),
            (Self::Sliding(sliding), Level::Sliding(counts)) => sliding.reset_after_us(counts),
            (Self::Fixed(fixed), Level::Fixed(used)) => fixed.reset_after_us(used),
            _ => 0,
        })
    }

    /// The time, rounded up to microseconds, after which `permits` fit if nobody else takes any;
    /// zero when they fit at `level`. They are at most [`capacity`](Self::capacity).
    pub fn retry_after(&self, level: Level, permits: u32) -> Duration {
        Duration::from_micros(match (self, level) {
            (Self::Gcra(gcra), Level::Gcra(ahead)) => gcra.retry_after_us(ahead, permits),
            (Self::Sliding(sliding), Level::Sliding(counts)) => {
                sliding.retry_after_us(counts, permits)
            }
            (Self::Fixed(fixed), Level::Fixed(used)) => fixed.retry_after_us(used, permits),
            _ => 0,
        })
    }

    /// The level with `permits` more.
    pub fn plus(&self, level: Level, permits: i64) -> Level {
        match (self, level) {
            (Self::Gcra(gcra), Level::Gcra(ahead)) => Level::Gcra(gcra.plus(ahead, permits)),
            (_, Level::Gcra(ahead)) => Level::Gcra(ahead),
            (_, Level::Sliding(counts)) => Level::Sliding(Sliding::plus(counts, permits)),
            (_, Level::Fixed(used)) => Level::Fixed(Fixed::plus(used, permits)),
        }
    }

    /// Whether `state` is one of this algorithm and not as new.
    pub(crate) fn holds(&self, state: State, now_us: u64) -> bool {
        self.state(self.level(Some(state), now_us), now_us)
            .is_some()
    }

    fn level(&self, state: Option<State>, now_us: u64) -> Level {
        match self {
            Self::Gcra(gcra) => {
                let drawn = state.and_then(|state| match state {
                    State::Gcra(drawn) => Some(drawn),
                    _ => None,
                });
                Level::Gcra(gcra.ahead(drawn, now_us))
            }
            Self::Sliding(sliding) => {
                let windows = state.and_then(|state| match state {
                    State::Sliding(windows) => Some(windows),
                    _ => None,
                });
                Level::Sliding(sliding.counts(windows, now_us))
            }
            Self::Fixed(fixed) => {
                let window = state.and_then(|state| match state {
                    State::Fixed(window) => Some(window),
                    _ => None,
                });
                Level::Fixed(fixed.used(window, now_us))
            }
        }
    }

    fn fits(&self, level: Level, permits: i64) -> bool {
        match (self, level) {
            (Self::Gcra(gcra), Level::Gcra(ahead)) => gcra.fits(ahead, permits),
            (Self::Sliding(sliding), Level::Sliding(counts)) => sliding.fits(counts, permits),
            (Self::Fixed(fixed), Level::Fixed(used)) => fixed.fits(used, permits),
            _ => false,
        }
    }

    fn state(&self, level: Level, now_us: u64) -> Option<State> {
        match (self, level) {
            (Self::Gcra(gcra), Level::Gcra(ahead)) => gcra.state(ahead, now_us).map(State::Gcra),
            (_, Level::Sliding(counts)) => Sliding::state(counts, now_us).map(State::Sliding),
            (_, Level::Fixed(used)) => Fixed::state(used, now_us).map(State::Fixed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

//! How soon it is noticed that a process is gone.

use std::time::Duration;

use coord_core::{Error, Result};

/// What a process trusts less than others do: it takes itself for dead so long before they may.
pub(crate) const MARGIN: Duration = Duration::from_secs(2);

/// How soon the others notice that a process is gone. The same in all processes on one database.
///
/// With the defaults, what a killed process had under way is claimable again within `ttl + every`,
/// 20 s; within `term + 1 s + ttl + every`, 29 s, when it was the one that looks after the others;
/// at once when it stopped as it should, when its file of `SQLite` is used by nobody else, or when
/// its name is [exclusive](crate::EngineBuilder::exclusive) and it is back.
/// A shorter `ttl` finds deaths sooner, and takes a process for dead that merely paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// How long a process counts as alive without a heartbeat. Default: 15 s, three heartbeats, so
    /// that one may be lost and one be late.
    pub ttl: Duration,
    /// How often a process shows that it lives. Default: 5 s.
    pub heartbeat: Duration,
    /// How often one process for all looks for what the dead had. Default: 5 s.
    pub every: Duration,
    /// How long that process is the one without renewing it. Default: 8 s, longer than `every`, so
    /// that it stays.
    pub term: Duration,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            heartbeat: Duration::from_secs(5),
            every: Duration::from_secs(5),
            term: Duration::from_secs(8),
        }
    }
}

impl Recovery {
    /// After how long without an answer a process takes itself for dead.
    pub(crate) const fn trusted(&self) -> Duration {
        self.ttl.saturating_sub(MARGIN)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.heartbeat.is_zero() || self.every.is_zero() {
            return Err(Error::invalid("recovery: intervals of nothing"));
        }
        if self.term <= self.every {
            return Err(Error::invalid(
                "recovery: a term must be longer than the time between two looks",
            ));
        }
        if self.ttl < self.heartbeat * 3 {
            return Err(Error::invalid(
                "recovery: a process must count as alive for at least three heartbeats",
            ));
        }
        // Or an outage that the leader survives would cost a healthy peer its life.
        if self.ttl < self.term + self.heartbeat + MARGIN {
            return Err(Error::invalid(
                "recovery: a process must count as alive for at least a term, a heartbeat and 2 s",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn is_refused(change: impl FnOnce(&mut Recovery)) -> bool {
        let mut recovery = Recovery::default();
        change(&mut recovery);
        recovery.check().is_err()
    }

    #[test]
    fn the_defaults_hold_and_less_is_refused() {
        assert!(!is_refused(|_| ()));
        assert!(is_refused(|recovery| recovery.ttl -= MS));
        assert!(is_refused(|recovery| recovery.term += MS));
        assert!(is_refused(|recovery| recovery.heartbeat += MS));
        assert!(is_refused(|recovery| recovery.term = recovery.every));
        assert!(is_refused(|recovery| recovery.every = Duration::ZERO));
        assert!(is_refused(|recovery| recovery.heartbeat = Duration::ZERO));
    }

    #[test]
    fn a_heartbeat_may_be_lost_and_one_be_late() {
        let heartbeat = |heartbeat| {
            is_refused(|recovery| {
                recovery.term = Duration::from_millis(5001);
                recovery.ttl = Duration::from_secs(18);
                recovery.heartbeat = heartbeat;
            })
        };

        assert!(!heartbeat(Duration::from_secs(6)));
        assert!(heartbeat(Duration::from_secs(6) + MS));
    }
}

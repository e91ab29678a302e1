//! Which messages are still to be read.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long after its number a message may come: it is stored in a second call, by a process that
/// may have a busy machine.
const LATE: Duration = Duration::from_secs(1);
/// More new messages than this are not read one by one.
const MOST: u64 = 1000;

/// How far a reader is.
#[derive(Debug)]
pub(super) struct Reading {
    /// The version that it has seen.
    last: Option<u64>,
    /// Messages that are there, or soon will be, and until when they are waited for.
    awaited: BTreeMap<u64, Instant>,
}

impl Reading {
    /// One that has everything up to `version`.
    pub(super) const fn begin(version: Option<u64>) -> Self {
        Self {
            last: version,
            awaited: BTreeMap::new(),
        }
    }

    /// The version is this `now`. Whether messages are missed that nobody can tell.
    pub(super) fn advance(&mut self, version: Option<u64>, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.last, version);
        match (before, version) {
            _ if before == version => false,
            (Some(before), Some(version)) if version > before && version - before <= MOST => {
                let new = before + 1..=version;
                self.awaited.extend(new.map(|number| (number, now + LATE)));
                false
            }
            _ => {
                self.awaited.clear();
                true
            }
        }
    }

    /// What is to be read.
    pub(super) fn awaited(&self) -> Vec<u64> {
        self.awaited.keys().copied().collect()
    }

    /// This one was read.
    pub(super) fn came(&mut self, number: u64) {
        self.awaited.remove(&number);
    }

    /// Whether some have not come in time; they are waited for no longer.
    pub(super) fn gave_up(&mut self, now: Instant) -> bool {
        let before = self.awaited.len();
        self.awaited.retain(|_, until| *until > now);
        self.awaited.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_read_once() {
        let now = Instant::now();
        let mut reading = Reading::begin(Some(7));

        assert!(!reading.advance(Some(7), now));
        assert!(reading.awaited().is_empty());
        assert!(!reading.advance(Some(9), now));
        assert_eq!(reading.awaited(), [8, 9]);
        reading.came(9);
        assert!(!reading.advance(Some(9), now));
        assert_eq!(reading.awaited(), [8]);
    }

    #[test]
    fn a_message_that_does_not_come_is_missed_once() {
        let now = Instant::now();
        let mut reading = Reading::begin(Some(7));
        reading.advance(Some(8), now);
        let almost = now + LATE.saturating_sub(Duration::from_millis(1));

        assert!(!reading.gave_up(almost));
        assert!(reading.gave_up(now + LATE));
        assert!(!reading.gave_up(now + LATE));
        assert!(reading.awaited().is_empty());
    }

    #[test]
    fn a_version_that_is_another_one_has_missed_all() {
        let now = Instant::now();
        for (before, version, is_missed) in [
            (None, None, false),
            (None, Some(1), true),
            (Some(7), None, true),
            (Some(7), Some(6), true),
            (Some(7), Some(7 + MOST), false),
            (Some(7), Some(8 + MOST), true),
            (Some(u64::MAX), Some(0), true),
        ] {
            let mut reading = Reading::begin(before);

            assert_eq!(
                reading.advance(version, now),
                is_missed,
                "{before:?} {version:?}"
            );
            assert_eq!(reading.awaited().is_empty(), is_missed || before == version);
            assert!(!reading.advance(version, now), "it is missed once");
        }
    }
}

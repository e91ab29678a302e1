//! What goes when it has been kept for long enough.

use std::time::Duration;

use crate::model::{Namespace, Timestamp};

/// Closed runs to remove, with all that belongs to them: their history, their failed attempts, the
/// receipts of their commands, where their history is kept, what they are found and described by, and the name of an instance
/// whose current run they are. Links of their children to them stay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retire {
    /// The tenant.
    pub namespace: Namespace,
    /// Only runs that closed at least so long ago.
    pub closed_for: Duration,
    /// How many runs at most.
    pub runs: u32,
    /// Only runs whose history was handed over before, see [`Archival`](super::Archival).
    pub archived: bool,
    /// How many events at most, but for the first run, which goes whatever it has.
    pub events: u64,
}

/// A tenant that has runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// It.
    pub namespace: Namespace,
    /// For how long its closed runs are kept, where it was said.
    pub retention: Option<Duration>,
    /// When the run was closed that is kept for the longest time; `None` when none is closed.
    pub oldest_closed: Option<Timestamp>,
}

/// As many of `due`, the longest closed first, as go at once: run and number of events each.
pub(crate) fn portion<T>(due: Vec<(T, u64)>, retire: &Retire) -> Vec<T> {
    let mut events = 0_u64;
    due.into_iter()
        .enumerate()
        .take_while(|(index, (_, length))| {
            events = events.saturating_add(*length);
            *index == 0 || events <= retire.events
        })
        .map(|(_, (run, _))| run)
        .take(retire.runs as usize)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_bounded_by_runs_and_events_and_never_empty() {
        let retire = |runs, events| Retire {
            namespace: Namespace::default(),
            closed_for: Duration::ZERO,
            archived: false,
            runs,
            events,
        };
        let due = || vec![("a", 10), ("b", 10), ("c", 10)];

        assert_eq!(portion(due(), &retire(2, 100)), ["a", "b"]);
        assert_eq!(portion(due(), &retire(9, 20)), ["a", "b"]);
        assert_eq!(portion(due(), &retire(9, 19)), ["a"]);
        assert_eq!(portion(due(), &retire(9, 1)), ["a"]);
    }
}

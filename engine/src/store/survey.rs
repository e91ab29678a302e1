//! Where runs stand and what processes do: for operators, who look less often than health does.

use crate::model::{RunStatus, Timestamp};

use super::{Incarnation, Tally};

/// At most so many processes are listed.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) const MOST_NODES: i64 = 1000;

/// Where runs stand and who works, at one instant; of one namespace when the engine keeps to it.
/// At most [`MOST_COUNTED`](super::MOST_COUNTED) open and as many closed runs are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The database's clock.
    pub now: Timestamp,
    /// Open runs, by where they stand.
    pub open: Vec<Standing>,
    /// Open runs that lack the task without which they stand; since their last change.
    pub lacking: Tally,
    /// Closed runs that are kept, by the reason for which they closed.
    pub closed: Vec<(String, u64)>,
    /// Closed runs whose history was handed over and whose row is kept.
    pub archived: u64,
    /// How many runs were started in the last minute.
    pub started_last_minute: u64,
    /// How many were closed in the last minute, by the reason.
    pub closed_last_minute: Vec<(String, u64)>,
    /// The processes that count as alive, in the order of their start.
    pub nodes: Vec<NodeRecord>,
}

impl Survey {
    /// Whether there was more than is counted.
    pub fn is_capped(&self) -> bool {
        let open: u64 = self.open.iter().map(|it| it.runs).sum();
        let closed: u64 = self.closed.iter().map(|(_, runs)| runs).sum();
        [open, closed, self.archived]
            .into_iter()
            .any(|counted| counted >= super::MOST_COUNTED)
    }
}

/// Open runs that stand in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// How.
    pub status: RunStatus,
    /// How many.
    pub runs: u64,
    /// When the first of them was started.
    pub started_at: Timestamp,
    /// Since when nothing has changed in the one in which nothing has for the longest time.
    pub unchanged_since: Timestamp,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRecord {
    /// Who.
    pub incarnation: Incarnation,
    /// Whether it takes no more work.
    pub is_draining: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// Its last sign of life.
    pub heartbeat_at: Timestamp,
    /// Until when it counts as alive without another one.
    pub expires_at: Timestamp,
    /// What it did in the last minute, as it wrote it with that sign of life.
    pub figures: Option<String>,
}

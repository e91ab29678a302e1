//! What its owner is done with, or gives back.

use super::Held;
use crate::model::{Attempt, Due, Record, RunId};

/// The end of an activity: its task goes, its run is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Settle {
    /// The activity.
    pub held: Held,
    /// Its run. A run that is closed is not told, and the task goes all the same.
    pub run: RunId,
    /// The message for the run.
    pub record: Record,
    /// The attempt, if it did not succeed.
    pub attempt: Option<Attempt>,
}

/// A task that its owner gives back.
#[derive(Clone, PartialEq, Debug)]
pub struct PutBack {
    /// The task. Its epoch becomes one higher.
    pub held: Held,
    /// How.
    pub how: PutBackHow,
}

/// How a task is given back.
#[derive(Clone, PartialEq, Debug)]
pub enum PutBackHow {
    /// Untouched: it is ready at once, and the attempt does not count.
    Untouched,
    /// After a failed attempt: it is ready at `due`, and `last_error` says why. The attempt counts.
    Retry {
        /// When it may be claimed again.
        due: Due,
        /// What went wrong, for people.
        error: String,
        /// The attempt of an activity, to be kept.
        attempt: Option<Attempt>,
    },
    /// It is set aside until somebody resumes it.
    Blocked {
        /// Why, for code.
        reason: BlockedReason,
        /// Why, for people: the expected and the got command side by side.
        error: String,
    },
}

/// Why a task is set aside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockedReason {
    /// The code does not do what the history says that it did.
    Replay,
    /// It took its process down too often.
    Poison,
    /// It was put here to be looked at.
    Imported,
}

impl BlockedReason {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Poison => "poison",
            Self::Imported => "imported",
        }
    }
}

//! What the nodes say, one JSON object a line.

use serde::Deserialize;

/// One line of a node's output.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It takes part.
    Up,
    /// It serves the control plane.
    Serving { address: String },
    /// The tick of a group of archives fell to it.
    Ticked { group: String },
    /// It scanned the group: what was new, and what was suppressed.
    Scanned { added: usize, duplicates: usize },
    /// It was handed a record whose workflow was there already.
    Existing,
    /// It read what the lock file records of a group.
    Loaded { group: String },
    /// It has begun to read an archive.
    Taken { record: String },
    /// It has read an archive.
    Hashed { record: String },
    /// It has to wait for an archive's turn under the limit of reads.
    Waited,
    /// It knows a verdict.
    Known {
        record: String,
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// Something went wrong that it goes on after.
    Failed { message: String },
    /// It has drained.
    Down,
    /// What the database holds of a record, and how many results it has.
    Recorded {
        record: String,
        results: usize,
        #[serde(flatten)]
        verdict: Option<Verdict>,
    },
    /// Its output has ended: it says nothing more.
    #[serde(skip)]
    Ended,
}

/// What became of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) finding: Finding,
    /// The node that read it; 0 when none could.
    pub(crate) by: u8,
    /// Its SHA-256, or why it has none.
    pub(crate) found: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// It is what the lock file records.
    Intact,
    /// Its SHA-256 is another.
    Mismatch,
    /// The lock file does not list it.
    Unlisted,
    /// It could not be read.
    Unreadable,
}

/// What one node said.
pub(crate) struct Said {
    pub(crate) node: u8,
    pub(crate) event: Event,
}

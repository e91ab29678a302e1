//! Events that turns add while they go on, of which most steps of workflows consist, as rows that
//! one statement can judge and carry out.
//!
//! The statement adds the events whose fence holds, and says how many they were. All of them are
//! done, whether they were there before or not. Where some are missing the batch is carried out
//! once more, row by row, as it would have been without this: an event that is there is passed by,
//! and a write whose fence fails is told so.

use std::collections::{HashMap, HashSet};

use coord_core::{Error, ErrorKind};

use super::super::rows::{RecordRow, signed};
use super::super::{Applied, Holder, Outcome, Write};
use crate::model::Timestamp;

/// An event, with the fence of its write.
#[derive(Debug, serde::Serialize)]
pub(in super::super) struct AppendRow {
    task_id: String,
    epoch: i64,
    lease_owner: String,
    #[serde(flatten)]
    record: RecordRow,
}

/// What became of a batch.
pub(in super::super) enum Appended {
    /// It is of another sort, or too large for this; nothing happened.
    Other,
    /// It is done.
    All(Applied),
    /// Some of it may be done.
    Some,
}

/// A run, and how many messages it was ever sent.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct InboxRow {
    pub(in super::super) now: i64,
    run_id: String,
    inbox_seq: i64,
}

/// The events of `writes` in the order in which their tasks are locked; `None` when there are other
/// writes among them, or two of one run.
pub(in super::super) fn rows(writes: &[Write]) -> Option<Vec<AppendRow>> {
    let (mut rows, mut met) = (Vec::new(), HashSet::new());
    for write in writes {
        let Write::Append(append) = write else {
            return None;
        };
        let Holder::Owner(owner) = &append.held.holder else {
            return None;
        };
        if append.records.is_empty() || !met.insert(append.run.as_str()) {
            return None;
        }
        rows.extend(append.records.iter().map(|record| AppendRow {
            task_id: append.held.task.to_string(),
            epoch: signed(append.held.epoch),
            lease_owner: owner.to_string(),
            record: RecordRow::new(append.run.as_str(), signed(record.seq), record),
        }));
    }
    rows.sort_by(|one, other| one.task_id.cmp(&other.task_id));
    (!rows.is_empty()).then_some(rows)
}

/// The runs of `writes`.
#[cfg(feature = "mysql")]
pub(in super::super) fn runs(writes: &[Write]) -> Vec<&str> {
    let runs = writes.iter().filter_map(|write| match write {
        Write::Append(append) => Some(append.run.as_str()),
        _ => None,
    });
    runs.collect()
}

/// All of `writes` are done, and their runs have these inboxes.
pub(in super::super) fn all(writes: &[Write], inboxes: &[InboxRow]) -> Appended {
    let known: HashMap<_, _> = inboxes
        .iter()
        .map(|row| (row.run_id.as_str(), row.inbox_seq))
        .collect();
    let outcomes = writes.iter().map(|write| match write {
        Write::Append(append) => Some(Outcome::Done {
            run: append.run.clone(),
            inbox_seq: u64::try_from(*known.get(append.run.as_str())?).ok()?,
        }),
        _ => None,
    });
    let outcomes: Option<Vec<_>> = outcomes.collect();
    match (outcomes, inboxes.first()) {
        (Some(outcomes), Some(row)) => Appended::All(Applied {
            now: Timestamp::from_micros(row.now),
            outcomes,
            // A turn that goes on has its task.
            ready: Vec::new(),
        }),
        _ => Appended::Some,
    }
}

/// An error of the rest of a batch of which some may be done.
pub(in super::super) fn begun(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Contended => {
            Error::timeout("applying the rest of a batch").with_source(error)
        }
        _ => error,
    }
}

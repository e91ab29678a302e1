//! What leaves before its retention ends.

use coord_core::Result;

use super::super::archive::{Archived, ClosedRuns, Unarchived};
use super::{read, unsigned};
use crate::model::{RunId, Timestamp};

/// A closed run of a page.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct ClosedRow {
    workflow_id: String,
    run_id: String,
    closed_at: i64,
    /// 1 when its history is not here.
    is_archived: i64,
}

impl ClosedRow {
    pub(in super::super) fn unarchived(rows: Vec<Self>, page: &ClosedRuns) -> Result<Unarchived> {
        let is_full = rows.len() >= page.limit as usize;
        let place = |row: &Self| {
            let at = Timestamp::from_micros(row.closed_at);
            read::<RunId>(row.run_id.clone(), "run id").map(|run| (at, run))
        };
        let next = rows.last().filter(|_| is_full).map(place).transpose()?;
        let here = rows.into_iter().filter(|row| row.is_archived == 0);
        let runs = here.map(|row| {
            let workflow = read(row.workflow_id, "workflow id")?;
            Ok((workflow, read(row.run_id, "run id")?))
        });
        Ok(Unarchived {
            runs: runs.collect::<Result<_>>()?,
            next,
        })
    }
}

/// A row of `workflow_archives`.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct ArchiveRow {
    archived_at: i64,
    place: String,
}

impl ArchiveRow {
    pub(in super::super) fn archived(self) -> Archived {
        Archived {
            at: Timestamp::from_micros(self.archived_at),
            place: self.place,
        }
    }
}

/// Whether what is kept elsewhere is all that is here.
pub(in super::super) fn is_whole(here: i64, kept: u64) -> Result<bool> {
    Ok(unsigned::<i64, u64>(here)? == kept)
}

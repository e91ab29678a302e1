//! Schedules, as the port reads and writes them.

use coord_core::Result;

use super::{Deliver, Start, Terminate};
use crate::model::{Cause, Fired, Namespace, ScheduleId, ScheduleRecord, Timestamp};

/// A change of a schedule, with all that goes with it.
///
/// It happens if the stored schedule has the revision of `record`, or does not exist and that
/// revision is zero; and then as a whole. So of any number of processes that decide the same
/// occurrence, one gets its decision through.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleWrite {
    /// What it is from now on. Its `revision` is the one that was read; the stored one becomes one
    /// higher.
    pub record: ScheduleRecord,
    /// Workflows that are asked to end. One that has ended, or is not there, is passed over.
    pub cancels: Vec<Deliver>,
    /// Workflows that are ended, before any is started. One that has ended is passed over.
    pub terminates: Vec<Terminate>,
    /// What fires, in order. The schedule's state counts them already.
    pub fires: Vec<Fire>,
}

/// An occurrence that fires.
#[derive(Clone, PartialEq, Debug)]
pub struct Fire {
    /// Its instant.
    pub at: Timestamp,
    /// Why it fires.
    pub cause: Cause,
    /// The workflow that it starts. One whose id is there already is left as it is.
    pub start: Start,
}

/// A schedule and its tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ScheduleKey {
    /// The tenant.
    pub namespace: Namespace,
    /// The schedule.
    pub id: ScheduleId,
}

/// Which schedules to look at: those whose instant has come, the longest due first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueSchedules {
    /// How many at most.
    pub limit: u32,
    /// Only those after this one: the end of the page before.
    pub after: Option<(Timestamp, ScheduleKey)>,
}

/// Schedules to look at, of all tenants.
#[derive(Debug)]
pub struct DuePage {
    /// The database's clock.
    pub now: Timestamp,
    /// The schedules, each in one snapshot with its workflows: `running` has those occurrences only
    /// whose workflows are open. One that does not read is an error of its own.
    pub schedules: Vec<(ScheduleKey, Result<ScheduleRecord>)>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<(Timestamp, ScheduleKey)>,
    /// On the last page: when the next schedule is due.
    pub next_due: Option<Timestamp>,
}

/// A schedule, and what it did last.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleDescription {
    /// The database's clock.
    pub now: Timestamp,
    /// The schedule; `running` has those occurrences only whose workflows are open.
    pub record: ScheduleRecord,
    /// Its latest fires, the last one first, at most 100.
    pub fires: Vec<Fired>,
}

/// Which schedules to list: those of a tenant, by their ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleListing {
    /// The tenant.
    pub namespace: Namespace,
    /// How many at most.
    pub limit: u32,
    /// Only those after this one: the end of the page before.
    pub after: Option<ScheduleId>,
}

/// One page of schedules.
#[derive(Clone, PartialEq, Debug)]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<ScheduleRecord>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<ScheduleId>,
}

//! What of a snapshot tells of tasks that may be claimed and are not.

use serde::Serialize;

use super::snapshot::{ms, some_instant};
use crate::model::Timestamp;
use crate::refusals::{Refusal, Refusals, Refused};
use crate::store::Tally;

/// How many are shown one by one.
const SHOWN: usize = 100;

/// Tasks that are left alone for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RefusalSection {
    /// Why.
    pub reason: Refusal,
    /// How many.
    pub tasks: u64,
    /// Since when the first of them has been due.
    #[serde(serialize_with = "some_instant")]
    pub oldest_due_at: Option<Timestamp>,
    /// For how long that is.
    pub max_age_ms: u64,
}

/// Tasks of one type and build in one queue that are left alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RefusedShown {
    /// The tenant.
    pub namespace: String,
    /// The queue.
    pub queue: String,
    /// `workflow` or `activity`.
    pub kind: &'static str,
    /// The type of the workflow or activity.
    pub name: String,
    /// What their runs are marked with.
    pub build: Option<String>,
    /// Why.
    pub reason: Refusal,
    /// How many.
    pub tasks: u64,
    /// For how long the first of them has been due.
    pub max_age_ms: u64,
}

pub(super) fn by_reason(refusals: &Refusals) -> Vec<RefusalSection> {
    let section = |reason| {
        let Tally { count, since } = refusals.total(reason);
        RefusalSection {
            reason,
            tasks: count,
            oldest_due_at: since,
            max_age_ms: since.map_or(0, |since| ms(refusals.now.since(since))),
        }
    };
    Refusal::ALL.into_iter().map(section).collect()
}

pub(super) fn by_type(refusals: &Refusals) -> Vec<RefusedShown> {
    let mut oldest: Vec<_> = refusals.refused.iter().collect();
    oldest.sort_by_key(|refused| refused.backlog.since);
    let shown = |Refused { backlog, refusal }: &Refused| RefusedShown {
        namespace: backlog.namespace.to_string(),
        queue: backlog.queue.to_string(),
        kind: backlog.kind.as_str(),
        name: backlog.name.to_string(),
        build: backlog.build.as_ref().map(ToString::to_string),
        reason: *refusal,
        tasks: backlog.tasks,
        max_age_ms: ms(refusals.now.since(backlog.since)),
    };
    oldest.into_iter().take(SHOWN).map(shown).collect()
}

//! What is past its retention goes, by the hand of one process for all; before that its history is
//! handed over, where there is an archive for it.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;

use crate::archive::{self, Archive, Handed};
use crate::engine::Core;
use crate::model::{Namespace, RunId, Timestamp};
use crate::signals::Signal;
use crate::store::{Retire, Role};

/// How long a closed run is kept where its namespace does not say otherwise.
pub(crate) const RETENTION: Duration = Duration::from_hours(30 * 24);
/// How often. What waits for a minute more than a month harms nobody.
const EVERY: Duration = Duration::from_mins(1);
/// How long the one who does it is the one: longer than the time between, so that it stays.
const TERM: Duration = Duration::from_secs(90);
/// A portion: small enough that no other transaction waits long for its locks.
const RUNS: u32 = 100;
const EVENTS: u64 = 5000;
/// How long the row of a process that has ended is kept, for people who look what has happened.
const ENDED: Duration = Duration::from_hours(24);
const INSTANCES: u32 = 1000;
/// Between portions, so that the work of the service comes first.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a run was closed at least before its history is handed over: longer than any
/// transaction lasts, so that none is committed behind the place to which a pass has come.
pub(crate) const SETTLED: Duration = Duration::from_mins(1);

/// By whose right a pass removes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// That of the process which has the role: another one does nothing.
    Role,
    /// That of somebody who asked for it.
    Hand,
}

impl Right {
    /// Whether it is still there: that of the role is renewed.
    pub(crate) async fn lasts(self, core: &Core) -> Result<bool> {
        match self {
            Self::Hand => Ok(true),
            Self::Role => Ok(core.elect(Role::Retention, TERM).await?.is_some()),
        }
    }
}

/// How far passes came with handing over, by namespace.
pub(crate) type Places = BTreeMap<Namespace, Option<(Timestamp, RunId)>>;

/// Removes what is past its retention, in every term that this process gets.
pub(crate) async fn hold(core: Weak<Core>) {
    let mut places = Places::new();
    loop {
        tokio::time::sleep(EVERY).await;
        // Only for the pass, so that an engine that nobody uses any more goes.
        let Some(core) = core.upgrade() else { return };
        if let Some((archive, after)) = &core.archive {
            let closed_for = (*after).max(SETTLED);
            // What went wrong was told, and what is past its retention waits for it.
            _ = hand_over(&core, &**archive, (closed_for, &mut places), Right::Role).await;
        }
        if let Err(error) = pass(&core, Right::Role, |_| {}).await {
            let error = Detail::error(&error);
            Signal::StoreFailed { error }.emit();
        }
    }
}

/// Hands over the histories of all runs that closed at least `closed_for` ago.
pub(crate) async fn hand_over(
    core: &Core,
    archive: &dyn Archive,
    (closed_for, places): (Duration, &mut Places),
    right: Right,
) -> Result<Handed> {
    let mut handed = Handed::default();
    if !right.lasts(core).await? {
        return Ok(handed);
    }
    for tenant in core.store.tenants().await? {
        let after = places.entry(tenant.namespace.clone()).or_default();
        let closed = archive::Candidates {
            namespace: &tenant.namespace,
            closed_for,
            after,
        };
        let passed = archive::pass(core, archive, closed, right).await?;
        handed.archived += passed.archived;
        handed.failed += passed.failed;
        if !right.lasts(core).await? {
            break;
        }
    }
    Ok(handed)
}

/// Removes all that is due, in portions, and says how many runs. Who has the role is a matter of
/// economy: two at once remove each run once.
pub(crate) async fn pass(
    core: &Core,
    right: Right,
    mut heard: impl FnMut(u64) + Send,
) -> Result<u64> {
    let mut removed = 0;
    if !right.lasts(core).await? {
        return Ok(removed);
    }
    for tenant in core.store.tenants().await? {
        let retire = Retire {
            namespace: tenant.namespace,
            closed_for: tenant.retention.unwrap_or(core.retention),
            runs: RUNS,
            archived: core.archive.is_some(),
            events: EVENTS,
        };
        loop {
            let gone = core.store.retire(&retire).await?;
            removed += gone;
            heard(removed);
            // A portion may be a single run: only nothing is the end.
            if gone == 0 {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            if !right.lasts(core).await? {
                return Ok(removed);
            }
        }
    }
    while core.store.forget(ENDED, INSTANCES).await? == u64::from(INSTANCES) {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(removed)
}

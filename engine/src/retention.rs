//! What is past its retention goes, by the hand of one process for all.

use std::sync::Weak;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;

use crate::engine::Core;
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

/// By whose right a pass removes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// That of the process which has the role: another one does nothing.
    Role,
    /// That of somebody who asked for it.
    Hand,
}

/// Removes what is past its retention, in every term that this process gets.
pub(crate) async fn hold(core: Weak<Core>) {
    loop {
        tokio::time::sleep(EVERY).await;
        // Only for the pass, so that an engine that nobody uses any more goes.
        let Some(core) = core.upgrade() else { return };
        if let Err(error) = pass(&core, Right::Role, |_| {}).await {
            let error = Detail::error(&error);
            Signal::StoreFailed { error }.emit();
        }
    }
}

/// Removes all that is due, in portions, and says how many runs. Who has the role is a matter of
/// economy: two at once remove each run once.
pub(crate) async fn pass(
    core: &Core,
    right: Right,
    mut heard: impl FnMut(u64) + Send,
) -> Result<u64> {
    let mut removed = 0;
    if !may(core, right).await? {
        return Ok(removed);
    }
    for tenant in core.store.tenants().await? {
        let retire = Retire {
            namespace: tenant.namespace,
            closed_for: tenant.retention.unwrap_or(core.retention),
            runs: RUNS,
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
            if !may(core, right).await? {
                return Ok(removed);
            }
        }
    }
    while core.store.forget(ENDED, INSTANCES).await? == u64::from(INSTANCES) {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(removed)
}

async fn may(core: &Core, right: Right) -> Result<bool> {
    match right {
        Right::Hand => Ok(true),
        Right::Role => Ok(core.elect(Role::Retention, TERM).await?.is_some()),
    }
}

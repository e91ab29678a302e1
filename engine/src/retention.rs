//! What is past its retention goes, by the hand of one process for all.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::sync::watch;

use crate::model::OwnerId;
use crate::signals::Signal;
use crate::store::{Retire, Role, Store};

/// How long a closed run is kept where its namespace does not say otherwise.
pub(crate) const RETENTION: Duration = Duration::from_hours(30 * 24);
/// How often. What waits for a minute more than a month harms nobody.
const EVERY: Duration = Duration::from_mins(1);
/// How long the one who does it is the one: longer than the time between, so that it stays.
const TERM: Duration = Duration::from_secs(90);
/// A portion: small enough that no other transaction waits long for its locks.
const RUNS: u32 = 100;
const EVENTS: u64 = 5000;
/// Between portions, so that the work of the service comes first.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes what is past its retention, in every term that this process gets.
pub(crate) async fn hold(
    store: Arc<dyn Store>,
    owner: watch::Receiver<OwnerId>,
    retention: Duration,
) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Err(error) = pass(&*store, Some(&owner), retention).await {
            let error = Detail::error(&error);
            Signal::StoreFailed { error }.emit();
        }
    }
}

/// Removes all that is due, in portions, while `owner` has the role; without one, whoever has it.
/// `retention` is for namespaces that do not say.
/// Who has it is a matter of economy: two at once remove each run once.
pub(crate) async fn pass(
    store: &dyn Store,
    owner: Option<&watch::Receiver<OwnerId>>,
    retention: Duration,
) -> Result<u64> {
    let mut removed = 0;
    if !holds(store, owner).await? {
        return Ok(removed);
    }
    for tenant in store.tenants().await? {
        let retire = Retire {
            namespace: tenant.namespace,
            closed_for: tenant.retention.unwrap_or(retention),
            runs: RUNS,
            events: EVENTS,
        };
        loop {
            let gone = store.retire(&retire).await?;
            removed += gone;
            // A portion may be a single run: only nothing is the end.
            if gone == 0 {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            if !holds(store, owner).await? {
                return Ok(removed);
            }
        }
    }
    Ok(removed)
}

async fn holds(store: &dyn Store, owner: Option<&watch::Receiver<OwnerId>>) -> Result<bool> {
    let Some(owner) = owner else {
        return Ok(true);
    };
    let owner = owner.borrow().clone();
    let term = store.elect(Role::Retention, &owner, TERM).await?;
    Ok(term.is_some())
}

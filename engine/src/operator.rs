//! What operators read of an engine and of all processes with it: counts, each with the age of the
//! oldest, rates of the last minute, and who works.
//!
//! [`Engine::operator_snapshot`] reads it from the database, so it says the same wherever it is
//! asked. In JSON an instant is a text of RFC 3339 in UTC, an age a number of milliseconds, and
//! what there is none of is `null`.

mod exposition;
mod figures;
mod refused;
mod snapshot;
mod taken;

pub use figures::{Connections, Figures, Quantiles};
pub(crate) use figures::{Counters, Counts};
pub use refused::{RefusalSection, RefusedShown};
pub use snapshot::{
    ActivitySection, BacklogSection, NamespaceSection, NodeSection, QueueSection, RepairPolicy,
    RepairSection, RoleSection, RunSection, ScheduleSection, Snapshot, TaskSection, WorkerSection,
    WorkerShown,
};

use coord_core::Result;

use crate::builds::Blocked;
use crate::engine::Engine;
use crate::refusals::Refusals;
use crate::store::WorkerFilter;

impl Engine {
    /// What stands where, what was done in the last minute, and who works: of all namespaces, or of
    /// the one to which this engine keeps.
    ///
    /// A few looks at the database, of at most [`MOST_COUNTED`](crate::store::MOST_COUNTED) tasks,
    /// open runs and closed runs each: tens of milliseconds when there are as many, so once every
    /// ten seconds is often enough.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn operator_snapshot(&self) -> Result<Snapshot> {
        let core = &self.core;
        let store = &core.store;
        let census = store.census().await?;
        let survey = store.survey().await?;
        let tenants = store.tenants().await?;
        let workers = store.workers(&WorkerFilter::default()).await?;
        let backlogs = store.backlogs().await?;
        let refusals = Refusals::of(&backlogs, &workers, &core.quotas);
        let blocked = Blocked::of(backlogs, &workers);
        let seen = taken::Seen {
            census: &census,
            survey: &survey,
            tenants: &tenants,
            workers: &workers,
            blocked: &blocked,
            refusals: &refusals,
        };
        let required = core.compatibility().current();
        let times = (core.recovery, core.retention);
        let hints = (self.wake_health(), core.wake.dispatch());
        Ok(taken::of(&seen, required, times, hints))
    }
}

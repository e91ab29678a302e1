//! The same by the hand of an operator, who does not want to wait for the process that does it.

use coord_core::Result;

use super::walk::{RUNS, repair, restore};
use super::{PAUSE, overdue, take_back};
use crate::engine::Engine;
use crate::model::RunId;
use crate::store::Unattended;

/// What a pass has mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Repaired {
    /// Tasks that nobody worked on any more and that are ready again, or set aside because each
    /// process that took them was gone.
    pub tasks: u64,
    /// Activities, or attempts of them, whose time was over and that were ended.
    pub activities: u64,
    /// Runs that stood without their workflow task and have one again.
    pub runs: u64,
}

impl Engine {
    /// Sees now to what the process with the recovery role sees to by itself: takes back what
    /// nobody works on any more, ends activities whose time is over, and gives open runs the
    /// workflow task that something has removed. `heard` is told after each portion what was
    /// mended so far.
    ///
    /// It declares no process dead: only the one with the role does. Any number of passes may run
    /// beside each other and beside that process; each looks again, under the locks of what it
    /// changes, whether it is still to be done. The cost grows with the number of open runs, which
    /// are looked at in pages.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer; what was mended until then is.
    ///
    /// # Cancel safety
    /// Safe: things are mended in portions, each whole or not at all.
    pub async fn repair_pass(&self, mut heard: impl FnMut(&Repaired) + Send) -> Result<Repaired> {
        let core = &self.core;
        let mut repaired = Repaired::default();
        loop {
            let portion = take_back(core).await?;
            repaired.tasks += portion.done;
            heard(&repaired);
            if !portion.may_be_more {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        loop {
            let portion = overdue::end_all(core).await?;
            repaired.activities += portion.done;
            heard(&repaired);
            if !portion.may_be_more {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        for tenant in core.store.tenants().await? {
            let mut after = None;
            loop {
                let page = Unattended {
                    namespace: tenant.namespace.clone(),
                    after,
                    limit: RUNS,
                };
                let found = core.store.unattended(&page).await?;
                for run in found.runs {
                    repaired.runs += u64::from(repair(core, run).await?);
                }
                for run in found.of_activities {
                    repaired.runs += u64::from(restore(core, run).await?);
                }
                heard(&repaired);
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(repaired)
    }

    /// Ends now the activities whose time is over, and says how many, attempts that are tried again
    /// among them.
    ///
    /// # Errors
    /// As [`repair_pass`](Self::repair_pass).
    ///
    /// # Cancel safety
    /// As [`repair_pass`](Self::repair_pass).
    pub async fn end_overdue_activities(&self) -> Result<u64> {
        let mut ended = 0;
        loop {
            let portion = overdue::end_all(&self.core).await?;
            ended += portion.done;
            if !portion.may_be_more {
                return Ok(ended);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Gives `run` its workflow task, if it is open and stands without one. Whether it did.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may have one.
    pub async fn repair_run(&self, run: RunId) -> Result<bool> {
        repair(&self.core, run).await
    }
}

//! Builds of a service, over the time in which one follows another.

use coord_core::{Error, Result};

use super::Client;
use crate::builds::{BuildRecord, records};
use crate::model::BuildId;
use crate::store::{BuildChange, BuildStep, WorkerFilter};

impl Client {
    /// New runs of this namespace are marked with `build`, whoever starts them, from at most a
    /// second from now on; a build that was to end is no longer.
    ///
    /// Only processes that mark runs at all follow it: see
    /// [`Compatibility`](crate::Compatibility).
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be promoted.
    pub async fn promote_build(&self, build: BuildId) -> Result<()> {
        self.change_build(build, BuildStep::Promote).await
    }

    /// `build` is to end: it is shown as draining while it has open runs, which its workers go on
    /// with, and as drained when its workers may go.
    ///
    /// # Errors
    /// `Invalid` when it is the promoted one, with which new runs are marked. `Unavailable` or
    /// `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be draining.
    pub async fn drain_build(&self, build: BuildId) -> Result<()> {
        self.change_build(build, BuildStep::Drain).await
    }

    /// `build` was a mistake: the build that it replaced is promoted again. Runs that it began stay
    /// with its workers, or with others that are told to support it.
    ///
    /// # Errors
    /// `Invalid` when it is the promoted one and has replaced none. `Unavailable` or `Timeout` when
    /// the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be rolled back.
    pub async fn roll_back_build(&self, build: BuildId) -> Result<()> {
        self.change_build(build, BuildStep::RollBack).await
    }

    /// The builds of this namespace that have open runs or live workers, or of which something was
    /// said, by name. The cost grows with the number of open runs.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn builds(&self) -> Result<Vec<BuildRecord>> {
        let filter = WorkerFilter {
            namespace: Some(self.namespace.clone()),
            queue: None,
        };
        let seen = self.core.store.builds(&self.namespace).await?;
        let workers = self.core.store.workers(&filter).await?;
        Ok(records(&seen, &workers))
    }

    async fn change_build(&self, build: BuildId, step: BuildStep) -> Result<()> {
        let change = BuildChange {
            namespace: self.namespace.clone(),
            build,
            step,
        };
        if self.core.store.change_build(&change).await? {
            return Ok(());
        }
        let build = change.build;
        let message = format!("ending build {build}: it is promoted, promote another one first");
        Err(Error::invalid(message))
    }
}

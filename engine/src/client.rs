//! The client: starts workflows, talks to them, and waits for them.

mod batch;
mod builds;
mod command;
mod handle;
mod import;
mod schedule;
mod start;
mod uncommitted;
mod untyped;
mod update;

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, Result};
use serde::Serialize;

use crate::engine::Core;
use crate::flow::Workflow;
use crate::model::{Namespace, Queue, ScheduleId, WorkflowId};
use crate::store::{Filter, Listing, Page, ScheduleListing, SchedulePage};

pub use batch::{MAX_BATCH_BYTES, MAX_BATCH_STARTS};
pub use command::CommandCall;
pub use handle::Handle;
pub use schedule::{CreateSchedule, ScheduleHandle, Triggered};
pub use start::{StartCall, Started};
pub use uncommitted::Uncommitted;
pub use untyped::{Queried, Reached, Untyped, Updated};

/// Starts and reaches the workflows of one namespace. Clones are cheap.
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
    namespace: Namespace,
    queue: Queue,
}

impl Client {
    pub(crate) const fn new(core: Arc<Core>, namespace: Namespace, queue: Queue) -> Self {
        Self {
            core,
            namespace,
            queue,
        }
    }

    /// Starts `workflow` as `id` with `input`, once it is awaited.
    ///
    /// An id is used once, until retention: see [`StartCall::or_existing`] for work that may have
    /// been started before.
    pub fn start<I: Serialize, O>(
        &self,
        workflow: Workflow<I, O>,
        id: WorkflowId,
        input: &I,
    ) -> StartCall<O> {
        StartCall::new(self.clone(), workflow.name(), id, input)
    }

    /// The workflow that was started as `id`. Nothing is asked yet.
    pub fn handle<I, O>(&self, _workflow: Workflow<I, O>, id: WorkflowId) -> Handle<O> {
        Handle::current(self.clone(), id)
    }

    /// Runs, the youngest first, a page at a time. A page goes on exactly where the one before it
    /// ended; runs that are started meanwhile are younger than all pages.
    ///
    /// # Errors
    /// `Invalid` when the filter is of another namespace than the client. `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn list(&self, listing: &Listing) -> Result<Page> {
        self.check(&listing.filter.namespace)?;
        self.core.store.list(listing).await
    }

    /// Keeps closed runs of this namespace for `retention` after their end, with their histories.
    /// Default: 30 days. Afterwards they are removed, and their ids are free.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be set.
    pub async fn keep_closed_runs(&self, retention: Duration) -> Result<()> {
        self.core.store.keep(&self.namespace, retention).await
    }

    /// How many runs `filter` means, at a cost that grows with their number.
    ///
    /// # Errors
    /// `Invalid` when the filter is of another namespace than the client. `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn count(&self, filter: &Filter) -> Result<u64> {
        self.check(&filter.namespace)?;
        self.core.store.count(filter).await
    }

    /// Who has the client of one tenant sees nothing of another by it.
    fn check(&self, other: &Namespace) -> Result<()> {
        if *other == self.namespace {
            return Ok(());
        }
        let own = &self.namespace;
        Err(Error::invalid(format!(
            "listing what is in namespace {other}: this client is for {own}"
        )))
    }

    /// The schedule `id`. Nothing is asked yet.
    pub fn schedule(&self, id: ScheduleId) -> ScheduleHandle {
        ScheduleHandle::new(self.clone(), id)
    }

    /// Schedules of this namespace, by their ids.
    ///
    /// # Errors
    /// `Invalid` when the listing is of another namespace than the client. `Unavailable` or `Timeout` when the database does not answer; `Corrupt` when one does not
    /// read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn list_schedules(&self, listing: &ScheduleListing) -> Result<SchedulePage> {
        self.check(&listing.namespace)?;
        self.core.store.list_schedules(listing).await
    }

    /// The namespace that it is for.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

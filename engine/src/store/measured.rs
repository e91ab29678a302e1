//! A store whose calls are timed.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Error;
use tokio::time::Instant;

use super::{
    Applied, Archival, Backlogs, BuildChange, Builds, Buried, CallerTransaction, Census, Claim,
    Claimed, ClosedRuns, Declaration, Declarations, Description, DuePage, DueSchedules, Enlistment,
    Examination, Filter, Heartbeat, Hints, Lacking, Listing, Load, Loaded, NamespaceChange,
    NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace, Overdue, Page, Registered,
    Registration, Renewal, Renewed, Reply, Retire, Role, Roles, ScheduleDescription, ScheduleKey,
    ScheduleListing, SchedulePage, Store, Survey, Sweep, Swept, Target, Tenant, Term, Unarchived,
    Unattended, WorkerFilter, WorkerRecord, Write,
};
use crate::meter::Meter;
use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp};
use crate::operator::Connections;
use crate::signals::{Call, Signal};
use crate::wake::Backend;

/// Times every call of a store, once for all dialects.
pub(crate) struct Measured {
    inner: Arc<dyn Store>,
    meter: Arc<Meter>,
}

impl Measured {
    pub(crate) fn new(inner: Arc<dyn Store>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }

    fn timed<'a, T: Send + 'a>(&'a self, call: Call, reply: Reply<'a, T>) -> Reply<'a, T> {
        Box::pin(async move {
            let sent = Instant::now();
            let result = reply.await;
            let elapsed_ms = sent.elapsed();
            let error = result.as_ref().err().map(Error::kind);
            self.meter.called(elapsed_ms, error);
            Signal::StoreCalled { call, elapsed_ms }.emit();
            result
        })
    }
}

macro_rules! timed {
    ($lifetime:lifetime $($call:ident $name:ident($($argument:ident: $Type:ty),*) -> $Reply:ty;)+) => {$(
        fn $name<$lifetime>(&$lifetime self, $($argument: $Type),*) -> Reply<$lifetime, $Reply> {
            self.timed(Call::$call, self.inner.$name($($argument),*))
        }
    )+};
}

impl Store for Measured {
    timed! { 'a
        Other migrate() -> ();
        Apply apply(writes: &'a [Write]) -> Applied;
        Apply apply_in(transaction: CallerTransaction<'a>, writes: &'a [Write]) -> Applied;
        Claim claim(claim: &'a Claim) -> Claimed;
        Load load(wanted: &'a [Load]) -> Loaded;
        Renew renew(renewal: &'a Renewal) -> Renewed;
        Other overdue(limit: u32) -> Vec<Overdue>;
        Sweep sweep(sweep: &'a Sweep) -> Swept;
        Other unattended(page: &'a Unattended) -> Lacking;
        Read find(of: &'a Target) -> Option<Run>;
        Read describe(of: &'a Target) -> Option<Description>;
        Read list(listing: &'a Listing) -> Page;
        Read count(filter: &'a Filter) -> u64;
        Other retire(retire: &'a Retire) -> u64;
        Other tenants() -> Vec<Tenant>;
        Other keep(namespace: &'a Namespace, retention: Duration) -> ();
        Other create_namespace(new: &'a NewNamespace) -> bool;
        Other change_namespace(change: &'a NamespaceChange) -> bool;
        Other declare_attribute(new: &'a Declaration) -> bool;
        Other withdraw_attribute(namespace: &'a Namespace, name: &'a str) -> bool;
        Read declared_attributes(namespace: &'a Namespace) -> Declarations;
        Other look() -> ();
        Read describe_namespace(namespace: &'a Namespace) -> Option<NamespaceRecord>;
        Read list_namespaces(listing: &'a NamespaceListing) -> NamespacePage;
        Other due_schedules(due: &'a DueSchedules) -> DuePage;
        Read describe_schedule(of: &'a ScheduleKey) -> Option<ScheduleDescription>;
        Read list_schedules(listing: &'a ScheduleListing) -> SchedulePage;
        Census census() -> Census;
        Census survey() -> Survey;
        Other unarchived(page: &'a ClosedRuns) -> Unarchived;
        Other archive(archival: &'a Archival) -> bool;
        Other examine(long: Duration) -> Examination;
        Other register(registration: &'a Registration) -> Registered;
        Heartbeat heartbeat(heartbeat: &'a Heartbeat) -> Option<Timestamp>;
        Other bury(term: &'a Term) -> Vec<Buried>;
        Other elect(role: Role, holder: &'a OwnerId, ttl: Duration) -> Option<Term>;
        Other roles() -> Roles;
        Other forget(idle: Duration, limit: u32) -> u64;
        Other resign(term: &'a Term) -> ();
        Other enlist(worker: &'a Enlistment) -> ();
        Other dismiss(worker: &'a str) -> ();
        Read workers(filter: &'a WorkerFilter) -> Vec<WorkerRecord>;
        Census backlogs() -> Backlogs;
        Other change_build(change: &'a BuildChange) -> bool;
        Other promoted(namespace: &'a Namespace) -> Option<BuildId>;
        Read builds(namespace: &'a Namespace) -> Builds;
        Other hint(message: &'a str) -> ();
        Other hints(after: Option<i64>) -> Hints;
    }

    fn connections(&self) -> Option<Connections> {
        self.inner.connections()
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        let inner = self.inner.within(namespace);
        Arc::new(Self::new(inner, Arc::clone(&self.meter)))
    }

    fn notify(&self) -> Option<Arc<dyn Backend>> {
        self.inner.notify()
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        let inner = self.inner.apart()?;
        Some(Arc::new(Self::new(inner, Arc::clone(&self.meter))))
    }
}

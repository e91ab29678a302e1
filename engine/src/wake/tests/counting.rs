//! A store that counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::memory::Memory;
use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp};
use crate::store::{
    Applied, Backlogs, BuildChange, Builds, Census, Claim, Claimed, Description, DuePage,
    DueSchedules, Enlistment, Filter, Heartbeat, Hints, Listing, Load, Loaded, NamespaceListing,
    NamespacePage, NamespaceRecord, NewNamespace, Overdue, Page, Registration, Renewal, Renewed,
    Reply, Retire, Role, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage, Store,
    Sweep, Swept, Target, Tenant, Term, WorkerFilter, WorkerRecord, Write,
};

#[derive(Clone)]
pub(super) struct Counting {
    store: Memory,
    calls: Arc<AtomicU32>,
    sweeps: Arc<AtomicU32>,
}

impl Counting {
    pub(super) fn on(store: &Memory) -> Self {
        Self {
            store: store.clone(),
            calls: Arc::default(),
            sweeps: Arc::default(),
        }
    }

    pub(super) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How often what was left was looked for.
    pub(super) fn sweeps(&self) -> u32 {
        self.sweeps.load(Ordering::SeqCst)
    }
}

macro_rules! counted {
    ($($name:ident<$all:lifetime>($($argument:ident: $Type:ty),*) -> $Answer:ty;)+) => {
        impl Store for Counting {
            $(fn $name<$all>(&$all self, $($argument: $Type),*) -> Reply<$all, $Answer> {
                self.calls.fetch_add(1, Ordering::SeqCst);
                if stringify!($name) == "sweep" {
                    self.sweeps.fetch_add(1, Ordering::SeqCst);
                }
                self.store.$name($($argument),*)
            })+

            fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
                self.store.within(namespace)
            }

            fn apart(&self) -> Option<Arc<dyn Store>> {
                None
            }
        }
    };
}

counted! {
    migrate<'a>() -> ();
    apply<'a>(writes: &'a [Write]) -> Applied;
    claim<'a>(claim: &'a Claim) -> Claimed;
    load<'a>(wanted: &'a [Load]) -> Loaded;
    renew<'a>(renewal: &'a Renewal) -> Renewed;
    overdue<'a>(limit: u32) -> Vec<Overdue>;
    sweep<'a>(sweep: &'a Sweep) -> Swept;
    find<'a>(of: &'a Target) -> Option<Run>;
    describe<'a>(of: &'a Target) -> Option<Description>;
    list<'a>(listing: &'a Listing) -> Page;
    count<'a>(filter: &'a Filter) -> u64;
    retire<'a>(retire: &'a Retire) -> u64;
    tenants<'a>() -> Vec<Tenant>;
    keep<'a>(namespace: &'a Namespace, retention: Duration) -> ();
    create_namespace<'a>(new: &'a NewNamespace) -> bool;
    change_namespace<'a>(change: &'a crate::store::NamespaceChange) -> bool;
    describe_namespace<'a>(namespace: &'a Namespace) -> Option<NamespaceRecord>;
    list_namespaces<'a>(listing: &'a NamespaceListing) -> NamespacePage;
    declare_attribute<'a>(new: &'a crate::store::Declaration) -> bool;
    withdraw_attribute<'a>(namespace: &'a Namespace, name: &'a str) -> bool;
    declared_attributes<'a>(namespace: &'a Namespace) -> crate::store::Declarations;
    due_schedules<'a>(due: &'a DueSchedules) -> DuePage;
    describe_schedule<'a>(of: &'a ScheduleKey) -> Option<ScheduleDescription>;
    list_schedules<'a>(listing: &'a ScheduleListing) -> SchedulePage;
    census<'a>() -> Census;
    survey<'a>() -> crate::store::Survey;
    examine<'a>(long: Duration) -> crate::store::Examination;
    unarchived<'a>(page: &'a crate::store::ClosedRuns) -> crate::store::Unarchived;
    archive<'a>(archival: &'a crate::store::Archival) -> bool;
    register<'a>(registration: &'a Registration) -> crate::store::Registered;
    roles<'a>() -> crate::store::Roles;
    forget<'a>(idle: Duration, limit: u32) -> u64;
    unattended<'a>(page: &'a crate::store::Unattended) -> crate::store::Lacking;
    heartbeat<'a>(heartbeat: &'a Heartbeat) -> Option<Timestamp>;
    bury<'a>(term: &'a Term) -> Vec<crate::store::Buried>;
    elect<'a>(role: Role, holder: &'a OwnerId, ttl: Duration) -> Option<Term>;
    resign<'a>(term: &'a Term) -> ();
    enlist<'a>(worker: &'a Enlistment) -> ();
    dismiss<'a>(worker: &'a str) -> ();
    workers<'a>(filter: &'a WorkerFilter) -> Vec<WorkerRecord>;
    backlogs<'a>() -> Backlogs;
    change_build<'a>(change: &'a BuildChange) -> bool;
    promoted<'a>(namespace: &'a Namespace) -> Option<BuildId>;
    builds<'a>(namespace: &'a Namespace) -> Builds;
    hint<'a>(message: &'a str) -> ();
    hints<'a>(after: Option<i64>) -> Hints;
}

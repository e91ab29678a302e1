//! A store in the memory of this process, for tests: the port's promises in their shortest form.
//!
//! Its clock is that of the runtime, so that a test with paused time lives through hours at once.

mod apply;
mod builds;
mod census;
mod claim;
mod look;
mod read;
mod retention;
mod schedule;
mod survey;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coord_core::Result;
use tokio::time::Instant;

use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp};
use crate::store::{
    Applied, Archival, Backlogs, BuildChange, Builds, Buried, Census, Claim, Claimed, ClosedRuns,
    Declaration, Declarations, Description, DuePage, DueSchedules, Enlistment, Examination, Filter,
    Heartbeat, Hints, Lacking, Listing, Load, Loaded, Long, NamespaceChange, NamespaceListing,
    NamespacePage, NamespaceRecord, NewNamespace, Overdue, Page, Plan, Pooler, Registered,
    Registration, Renewal, Renewed, Reply, Retire, Role, Roles, ScheduleDescription, ScheduleKey,
    ScheduleListing, SchedulePage, Store, Survey, Sweep, Swept, Target, Tenant, Term, Unarchived,
    Unattended, WorkerFilter, WorkerRecord, Write,
};
use tables::Tables;

/// The store. Clones share their tables.
#[derive(Clone)]
pub struct Memory {
    tables: Arc<Mutex<Tables>>,
    began: Instant,
    /// Where calls for all stay.
    scope: Option<Namespace>,
}

/// Where its clock begins: an instant of no meaning, far from zero.
const BEGINNING: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tables: Arc::default(),
            began: Instant::now(),
            scope: None,
        }
    }

    fn locked(&self) -> MutexGuard<'_, Tables> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.now = BEGINNING.plus(self.began.elapsed());
        tables
    }

    fn reply<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Tables) -> Result<T>,
    ) -> Reply<'_, T> {
        let result = call(&mut self.locked());
        Box::pin(std::future::ready(result))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for Memory {
    fn migrate(&self) -> Reply<'_, ()> {
        self.reply(|_| Ok(()))
    }

    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        self.reply(|tables| {
            tables.changes += 1;
            tables.begun += writes.iter().map(look::begun_by).sum::<usize>();
            let outcomes = writes.iter().map(|write| tables.apply(write)).collect();
            Ok(Applied {
                now: tables.now,
                outcomes,
                ready: std::mem::take(&mut tables.ready),
            })
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        self.reply(|tables| {
            let claimed = tables.claim(claim);
            tables.changes += claimed.tasks.len();
            tables.begun += claimed.tasks.len();
            Ok(claimed)
        })
    }

    fn load<'a>(&'a self, wanted: &'a [Load]) -> Reply<'a, Loaded> {
        self.reply(|tables| {
            let runs = wanted.iter().map(|wanted| tables.load(wanted)).collect();
            Ok(Loaded {
                now: tables.now,
                runs,
            })
        })
    }

    fn renew<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Renewed> {
        self.reply(|tables| Ok(tables.renew(renewal)))
    }

    fn overdue(&self, limit: u32) -> Reply<'_, Vec<Overdue>> {
        self.reply(|tables| Ok(tables.overdue(limit, self.scope.as_ref())))
    }

    fn sweep<'a>(&'a self, sweep: &'a Sweep) -> Reply<'a, Swept> {
        self.reply(|tables| Ok(tables.sweep(*sweep, self.scope.as_ref())))
    }

    fn find<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Run>> {
        self.reply(|tables| Ok(tables.run(of).cloned()))
    }

    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>> {
        self.reply(|tables| Ok(tables.describe(of)))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page> {
        self.reply(|tables| Ok(tables.list(listing)))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        self.reply(|tables| Ok(tables.count(filter)))
    }

    fn retire<'a>(&'a self, retire: &'a Retire) -> Reply<'a, u64> {
        self.reply(|tables| Ok(tables.retire(retire)))
    }

    fn tenants(&self) -> Reply<'_, Vec<Tenant>> {
        self.reply(|tables| Ok(tables.tenants(self.scope.as_ref())))
    }

    fn keep<'a>(&'a self, namespace: &'a Namespace, retention: Duration) -> Reply<'a, ()> {
        self.reply(|tables| {
            tables.keep(namespace, retention);
            Ok(())
        })
    }

    fn create_namespace<'a>(&'a self, new: &'a NewNamespace) -> Reply<'a, bool> {
        self.reply(|tables| Ok(tables.create_namespace(new)))
    }

    fn describe_namespace<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Reply<'a, Option<NamespaceRecord>> {
        self.reply(|tables| Ok(tables.namespaces.get(namespace).cloned()))
    }

    fn change_namespace<'a>(&'a self, change: &'a NamespaceChange) -> Reply<'a, bool> {
        self.reply(|tables| Ok(tables.change_namespace(change)))
    }

    fn list_namespaces<'a>(&'a self, listing: &'a NamespaceListing) -> Reply<'a, NamespacePage> {
        self.reply(|tables| Ok(tables.list_namespaces(listing)))
    }

    fn declare_attribute<'a>(&'a self, new: &'a Declaration) -> Reply<'a, bool> {
        self.reply(|tables| Ok(tables.declare_attribute(new)))
    }

    fn withdraw_attribute<'a>(
        &'a self,
        namespace: &'a Namespace,
        name: &'a str,
    ) -> Reply<'a, bool> {
        let key = (namespace.clone(), name.to_owned());
        self.reply(|tables| Ok(tables.declarations.remove(&key).is_some()))
    }

    fn declared_attributes<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Declarations> {
        self.reply(|tables| Ok(tables.declared_attributes(namespace)))
    }

    fn due_schedules<'a>(&'a self, due: &'a DueSchedules) -> Reply<'a, DuePage> {
        self.reply(|tables| Ok(tables.due_schedules(due, self.scope.as_ref())))
    }

    fn describe_schedule<'a>(
        &'a self,
        of: &'a ScheduleKey,
    ) -> Reply<'a, Option<ScheduleDescription>> {
        self.reply(|tables| Ok(tables.describe_schedule(of)))
    }

    fn list_schedules<'a>(&'a self, listing: &'a ScheduleListing) -> Reply<'a, SchedulePage> {
        self.reply(|tables| Ok(tables.list_schedules(listing)))
    }

    fn census(&self) -> Reply<'_, Census> {
        self.reply(|tables| Ok(tables.census(self.scope.as_ref())))
    }

    fn survey(&self) -> Reply<'_, Survey> {
        self.reply(|tables| Ok(tables.survey(self.scope.as_ref())))
    }

    fn unarchived<'a>(&'a self, page: &'a ClosedRuns) -> Reply<'a, Unarchived> {
        self.reply(|tables| Ok(tables.unarchived(page)))
    }

    fn archive<'a>(&'a self, archival: &'a Archival) -> Reply<'a, bool> {
        self.reply(|tables| Ok(tables.archive(archival)))
    }

    fn examine(&self, _: Duration) -> Reply<'_, Examination> {
        self.reply(|tables| {
            Ok(Examination {
                now: tables.now,
                server: "the memory of this process".to_owned(),
                too_old: None,
                schema: (0, 0),
                isolation: None,
                risks: Vec::new(),
                missing_indexes: Vec::new(),
                claim: Plan {
                    is_indexed: true,
                    told: String::new(),
                },
                pooler: Pooler::None,
                long: Long::Seen(0, Duration::ZERO),
            })
        })
    }

    fn register<'a>(&'a self, registration: &'a Registration) -> Reply<'a, Registered> {
        self.reply(|tables| Ok(tables.register(registration, self.scope.as_ref())))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Reply<'a, Option<Timestamp>> {
        self.reply(|tables| Ok(tables.heartbeat(heartbeat)))
    }

    fn bury<'a>(&'a self, term: &'a Term) -> Reply<'a, Vec<Buried>> {
        self.reply(|tables| Ok(tables.bury(term, self.scope.as_ref())))
    }

    fn elect<'a>(
        &'a self,
        role: Role,
        holder: &'a OwnerId,
        ttl: Duration,
    ) -> Reply<'a, Option<Term>> {
        self.reply(|tables| Ok(tables.elect((role, self.scope.as_ref()), holder, ttl)))
    }

    fn roles(&self) -> Reply<'_, Roles> {
        self.reply(|tables| Ok(tables.roles(self.scope.as_ref())))
    }

    fn forget(&self, idle: Duration, limit: u32) -> Reply<'_, u64> {
        self.reply(|tables| Ok(tables.forget(idle, limit, self.scope.as_ref())))
    }

    fn unattended<'a>(&'a self, page: &'a Unattended) -> Reply<'a, Lacking> {
        self.reply(|tables| Ok(tables.unattended(page)))
    }

    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()> {
        self.reply(|tables| {
            tables.resign(term, self.scope.as_ref());
            Ok(())
        })
    }

    fn enlist<'a>(&'a self, worker: &'a Enlistment) -> Reply<'a, ()> {
        self.reply(|tables| {
            tables.enlist(worker);
            Ok(())
        })
    }

    fn dismiss<'a>(&'a self, worker: &'a str) -> Reply<'a, ()> {
        self.reply(|tables| {
            tables.workers.remove(worker);
            Ok(())
        })
    }

    fn workers<'a>(&'a self, filter: &'a WorkerFilter) -> Reply<'a, Vec<WorkerRecord>> {
        self.reply(|tables| Ok(tables.workers(filter)))
    }

    fn backlogs(&self) -> Reply<'_, Backlogs> {
        self.reply(|tables| Ok(tables.backlogs(self.scope.as_ref())))
    }

    fn change_build<'a>(&'a self, change: &'a BuildChange) -> Reply<'a, bool> {
        self.reply(|tables| Ok(tables.change_build(change)))
    }

    fn promoted<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Option<BuildId>> {
        self.reply(|tables| Ok(tables.promoted(namespace)))
    }

    fn builds<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Builds> {
        self.reply(|tables| Ok(tables.builds(namespace)))
    }

    fn hint<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        self.reply(|tables| {
            tables.hints.push(message.to_owned());
            Ok(())
        })
    }

    fn hints(&self, after: Option<i64>) -> Reply<'_, Hints> {
        self.reply(|tables| {
            let numbered = (1..).zip(tables.hints.iter().cloned());
            // As on the others, the last ones are none when nobody says after which.
            let mut messages: Vec<_> = numbered.collect();
            let last = messages.last().map_or(0, |(number, _)| *number);
            messages.retain(|(number, _)| *number > after.unwrap_or(last - 200));
            Ok(Hints::read(after, messages))
        })
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        Arc::new(Self {
            scope: Some(namespace.clone()),
            ..self.clone()
        })
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

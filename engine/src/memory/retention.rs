//! What goes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::claim::is_within;
use super::tables::Tables;
use crate::model::{Namespace, RunId, Timestamp};
use crate::store::{
    Archival, Archived, ClosedRuns, Declaration, Declarations, MAX_DECLARATIONS, NamespaceChange,
    NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace, Retire, Tenant, Unarchived,
    portion,
};

impl Tables {
    pub(super) fn retire(&mut self, retire: &Retire) -> u64 {
        let is_due = |closed_at| self.now.since(closed_at) >= retire.closed_for;
        let mut due: Vec<_> = self
            .runs
            .values()
            .filter(|row| row.run.namespace == retire.namespace)
            .filter_map(|row| Some((row.run.closed_at?, &row.run)))
            .filter(|(closed_at, _)| is_due(*closed_at))
            .filter(|(_, run)| !retire.archived || self.archives.contains_key(&run.run))
            .map(|(closed_at, run)| ((closed_at, run.run.clone()), run.history_length))
            .collect();
        due.sort();
        let going = portion(due, retire);
        for (_, run) in &going {
            self.runs.remove(run);
            self.tasks.retain(|_, task| task.run != *run);
            self.attempts.retain(|attempt| attempt.run != *run);
            self.archives.remove(run);
            self.receipts.retain(|_, reached| reached != run);
            self.current.retain(|_, current| current != run);
        }
        going.len() as u64
    }

    pub(super) fn tenants(&self, scope: Option<&Namespace>) -> Vec<Tenant> {
        let names: BTreeSet<_> = self
            .current
            .keys()
            .map(|(namespace, _)| namespace)
            .filter(|namespace| is_within(namespace, scope))
            .collect();
        let tenants = names.into_iter().map(|namespace| Tenant {
            namespace: namespace.clone(),
            retention: self
                .namespaces
                .get(namespace)
                .map(|record| record.retention),
            oldest_closed: self.oldest_closed(namespace),
        });
        tenants.collect()
    }

    fn oldest_closed(&self, namespace: &Namespace) -> Option<Timestamp> {
        let of = self
            .runs
            .values()
            .filter(|row| row.run.namespace == *namespace);
        of.filter_map(|row| row.run.closed_at).min()
    }

    pub(super) fn unarchived(&self, page: &ClosedRuns) -> Unarchived {
        let is_meant = |(closed_at, run): &(Timestamp, RunId)| {
            self.now.since(*closed_at) >= page.closed_for
                && page
                    .after
                    .as_ref()
                    .is_none_or(|(at, after)| (closed_at, run) > (at, after))
        };
        let closed = self
            .runs
            .values()
            .filter(|row| row.run.namespace == page.namespace);
        let closed = closed.filter_map(|row| Some((row.run.closed_at?, row.run.run.clone())));
        let mut closed: Vec<_> = closed.filter(is_meant).collect();
        closed.sort();
        let is_full = closed.len() >= page.limit as usize;
        closed.truncate(page.limit as usize);
        let next = closed.last().filter(|_| is_full).cloned();
        let here = closed.into_iter().map(|(_, run)| run);
        let here = here.filter(|run| !self.archives.contains_key(run));
        Unarchived {
            runs: here
                .map(|run| (self.runs[&run].run.workflow.clone(), run))
                .collect(),
            next,
        }
    }

    pub(super) fn archive(&mut self, archival: &Archival) -> bool {
        let Some(row) = self.runs.get_mut(&archival.run) else {
            return false;
        };
        let is_whole = row.history.len() as u64 == archival.events;
        if row.run.closed_at.is_none() || !is_whole || self.archives.contains_key(&archival.run) {
            return false;
        }
        row.history.clear();
        row.inbox.clear();
        self.attempts.retain(|attempt| attempt.run != archival.run);
        let archived = Archived {
            at: self.now,
            place: archival.place.clone(),
        };
        self.archives.insert(archival.run.clone(), archived);
        true
    }

    pub(super) fn keep(&mut self, namespace: &Namespace, retention: Duration) {
        self.create_namespace(&NewNamespace {
            namespace: namespace.clone(),
            description: None,
            retention,
        });
        if let Some(record) = self.namespaces.get_mut(namespace) {
            record.retention = retention;
        }
    }

    pub(super) fn create_namespace(&mut self, new: &NewNamespace) -> bool {
        if self.namespaces.contains_key(&new.namespace) {
            return false;
        }
        let record = NamespaceRecord {
            namespace: new.namespace.clone(),
            description: new.description.clone(),
            retention: new.retention,
            created_at: Some(self.now),
        };
        self.namespaces.insert(new.namespace.clone(), record);
        true
    }

    pub(super) fn change_namespace(&mut self, change: &NamespaceChange) -> bool {
        let Some(record) = self.namespaces.get_mut(&change.namespace) else {
            return false;
        };
        if change.description.is_some() {
            record.description.clone_from(&change.description);
        }
        record.retention = change.retention.unwrap_or(record.retention);
        true
    }

    pub(super) fn declared_attributes(&self, namespace: &Namespace) -> Declarations {
        let own = self
            .declarations
            .iter()
            .filter(|((of, _), _)| of == namespace);
        own.map(|((_, name), kind)| (name.clone(), *kind)).collect()
    }

    pub(super) fn declare_attribute(&mut self, new: &Declaration) -> bool {
        let declared = self.declared_attributes(&new.namespace);
        let is_new = !declared.contains_key(&new.name);
        let has_room = declared.len() < MAX_DECLARATIONS as usize;
        if is_new && has_room {
            let key = (new.namespace.clone(), new.name.clone());
            self.declarations.insert(key, new.kind);
        }
        is_new && has_room
    }

    pub(super) fn list_namespaces(&self, listing: &NamespaceListing) -> NamespacePage {
        let is_after = |record: &&NamespaceRecord| listing.after.as_ref() < Some(&record.namespace);
        let records = self.namespaces.values().filter(is_after).cloned();
        listing.page(records.take(listing.limit as usize + 1).collect())
    }
}

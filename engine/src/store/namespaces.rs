//! Tenants by name.

use std::time::Duration;

use crate::model::{Namespace, Timestamp};

/// A namespace to register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNamespace {
    /// Its name.
    pub namespace: Namespace,
    /// What it is for, for people.
    pub description: Option<String>,
    /// For how long its closed runs are kept.
    pub retention: Duration,
}

/// What becomes of what a namespace was registered with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceChange {
    /// Its name.
    pub namespace: Namespace,
    /// What it is for, for people; `None` for what it was.
    pub description: Option<String>,
    /// For how long its closed runs are kept; `None` for as long as before.
    pub retention: Option<Duration>,
}

/// A namespace that is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceRecord {
    /// Its name.
    pub namespace: Namespace,
    /// What it is for, for people.
    pub description: Option<String>,
    /// For how long its closed runs are kept.
    pub retention: Duration,
    /// When it was registered; `None` when a version did so that did not note it.
    pub created_at: Option<Timestamp>,
}

/// Which namespaces to list: those that are registered, by their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceListing {
    /// How many at most.
    pub limit: u32,
    /// Only those after this one: the end of the page before.
    pub after: Option<Namespace>,
}

/// One page of namespaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespacePage {
    /// The namespaces.
    pub namespaces: Vec<NamespaceRecord>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<Namespace>,
}

impl NamespaceListing {
    /// The page of `namespaces`, of which one more than the limit was read.
    pub(crate) fn page(&self, mut namespaces: Vec<NamespaceRecord>) -> NamespacePage {
        let has_more = namespaces.len() > self.limit as usize;
        namespaces.truncate(self.limit as usize);
        let last = namespaces.last().filter(|_| has_more);
        NamespacePage {
            next: last.map(|record| record.namespace.clone()),
            namespaces,
        }
    }
}

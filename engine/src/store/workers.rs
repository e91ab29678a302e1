//! Workers: what each can go on with, and what waits for one that can.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::compatibility::Supported;
use crate::model::{
    BuildId, Fingerprint, Namespace, OwnerId, Queue, TaskKind, Timestamp, TypeName,
};

/// A worker to be seen by others. It counts as alive as long as its process does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enlistment {
    /// Its id, of this life of it.
    pub worker: String,
    /// Its process.
    pub owner: OwnerId,
    /// The tenant.
    pub namespace: Namespace,
    /// Whose tasks it takes.
    pub queue: Queue,
    /// What its process marks new runs with.
    pub current: Option<BuildId>,
    /// What it can go on with.
    pub supported: Supported,
    /// What it knows; `None` when it does not say, as versions before did not.
    pub types: Option<Types>,
    /// What its machine is called, where that is known.
    pub host: Option<String>,
}

/// The types that a worker knows. A version reads what another one wrote as far as it knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Types {
    /// Of workflows.
    pub workflows: BTreeSet<TypeName>,
    /// Of activities.
    pub activities: BTreeSet<TypeName>,
    /// What the code of its workflows is, where it says so.
    pub definitions: BTreeSet<Fingerprint>,
    /// Whether it leaves runs alone that began with other code.
    pub is_pinned: bool,
}

/// A worker that counts as alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRecord {
    /// What it said of itself.
    pub enlistment: Enlistment,
    /// What people call its process.
    pub node: String,
    /// The number of its process in its system.
    pub pid: u32,
    /// Whether its process takes no more work.
    pub is_draining: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When its process last showed that it lives.
    pub recorded_at: Timestamp,
    /// When it no longer counts as alive, unless its process shows again that it does.
    pub expires_at: Timestamp,
}

/// Which workers are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerFilter {
    /// Only those of this tenant.
    pub namespace: Option<Namespace>,
    /// Only those of this queue.
    pub queue: Option<Queue>,
}

/// Tasks of one type and build in one queue that may be claimed now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// The tenant.
    pub namespace: Namespace,
    /// Where they wait.
    pub queue: Queue,
    /// What they are for.
    pub kind: TaskKind,
    /// The type of their workflow or activity.
    pub name: TypeName,
    /// What their runs are marked with.
    pub build: Option<BuildId>,
    /// With what code their runs began, for workflow tasks.
    pub fingerprint: Option<Fingerprint>,
    /// How many.
    pub tasks: u64,
    /// Of how many runs.
    pub runs: u64,
    /// Since when the first of them has been due.
    pub since: Timestamp,
}

/// Tasks of one kind in one queue that are under way by leases that have not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnderWay {
    /// The tenant.
    pub namespace: Namespace,
    /// Their queue.
    pub queue: Queue,
    /// What they are for.
    pub kind: TaskKind,
    /// How many.
    pub tasks: u64,
}

/// Until when claims of one kind are paid, where a bound holds for a minute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paid {
    /// The tenant.
    pub namespace: Namespace,
    /// The queue; empty for all of the tenant together.
    pub queue: String,
    /// What is claimed.
    pub kind: TaskKind,
    /// Until when.
    pub until: Timestamp,
}

/// What may be claimed now, and what bounds how much of it is. At most
/// [`MOST_COUNTED`](super::MOST_COUNTED) tasks that wait are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backlogs {
    /// The database's clock.
    pub now: Timestamp,
    /// By namespace, queue, kind, type and build.
    pub backlogs: Vec<Backlog>,
    /// By namespace, queue and kind.
    pub under_way: Vec<UnderWay>,
    /// By namespace, queue and kind.
    pub paid: Vec<Paid>,
}

impl Enlistment {
    /// The builds that it names.
    pub(crate) fn named(&self) -> &[BuildId] {
        match &self.supported {
            Supported::All => &[],
            Supported::Only(builds) => builds,
        }
    }
}

impl Backlogs {
    /// Of nothing.
    pub(crate) const fn none(now: Timestamp) -> Self {
        Self {
            now,
            backlogs: Vec::new(),
            under_way: Vec::new(),
            paid: Vec::new(),
        }
    }
}

impl Types {
    /// Whether tasks of `kind` and of this type are known.
    pub(crate) fn holds(&self, kind: TaskKind, name: &TypeName) -> bool {
        match kind {
            TaskKind::Workflow => self.workflows.contains(name),
            TaskKind::Activity => self.activities.contains(name),
        }
    }
}

impl WorkerRecord {
    /// Whether it takes tasks of this queue.
    pub(crate) fn serves(&self, namespace: &Namespace, queue: &Queue) -> bool {
        self.enlistment.namespace == *namespace && self.enlistment.queue == *queue
    }

    /// Whether it knows the type, as far as it says.
    pub(crate) fn knows(&self, kind: TaskKind, name: &TypeName) -> bool {
        let types = self.enlistment.types.as_ref();
        types.is_none_or(|types| types.holds(kind, name))
    }

    /// Whether it goes on with runs that began with this code, as far as it says.
    pub(crate) fn goes_on_with(&self, began: Option<&Fingerprint>) -> bool {
        let types = self.enlistment.types.as_ref();
        let pins = types.filter(|types| types.is_pinned && !types.definitions.is_empty());
        let both = pins.zip(began);
        both.is_none_or(|(types, began)| types.definitions.contains(began))
    }

    /// Whether it could go on with runs that are marked so.
    pub(crate) fn supports(&self, build: Option<&BuildId>) -> bool {
        self.enlistment.supported.holds(build)
    }
}

#[cfg(test)]
impl WorkerRecord {
    /// One of the default queue that supports every build, and was there at `now`.
    pub(crate) fn example(now: Timestamp) -> Self {
        Self {
            enlistment: Enlistment {
                worker: "w".to_owned(),
                owner: OwnerId::new("o").expect("an owner"),
                namespace: Namespace::default(),
                queue: Queue::default(),
                current: None,
                supported: Supported::All,
                types: None,
                host: None,
            },
            node: "n".to_owned(),
            pid: 1,
            is_draining: false,
            started_at: now,
            recorded_at: now,
            expires_at: now.plus(std::time::Duration::from_secs(9)),
        }
    }
}

//! Why a task that may be claimed is not: one word for each reason, the same wherever it is shown.

use coord_core::Result;

use crate::engine::Engine;
use crate::model::{BuildId, Fingerprint, Namespace, Queue, TaskKind, Timestamp, TypeName};
use crate::quotas::Quotas;
use crate::store::{Backlog, Backlogs, QuotaOf, Tally, WorkerFilter, WorkerRecord};

/// Why workers leave a task alone that may be claimed. The task stays as it is: no attempt is
/// counted, and whoever may claim it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// No live worker takes tasks of its namespace.
    NamespaceUnserved,
    /// No live worker takes tasks of its queue.
    QueueUnserved,
    /// None of those knows its type.
    TypeUnknown,
    /// None of those supports the build of its run.
    CompatibilityUnsupported,
    /// Its run began with other code than all of those have.
    FingerprintDiffers,
    /// All of those are about to end.
    WorkersDraining,
    /// As many tasks of the namespace are under way as may be.
    NamespaceActiveLimit,
    /// As many tasks of the queue are under way as may be.
    QueueActiveLimit,
    /// As many tasks of the namespace have begun in this minute as may.
    NamespaceRateLimit,
    /// As many tasks of the queue have begun in this minute as may.
    QueueRateLimit,
    /// Somebody could take it: all who could have their slots taken, or are about to look.
    WorkersBusy,
}

impl Refusal {
    /// Every one, in the order in which they are looked for.
    pub const ALL: [Self; 11] = [
        Self::NamespaceUnserved,
        Self::QueueUnserved,
        Self::TypeUnknown,
        Self::CompatibilityUnsupported,
        Self::FingerprintDiffers,
        Self::WorkersDraining,
        Self::NamespaceActiveLimit,
        Self::QueueActiveLimit,
        Self::NamespaceRateLimit,
        Self::QueueRateLimit,
        Self::WorkersBusy,
    ];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NamespaceUnserved => "namespace_unserved",
            Self::QueueUnserved => "queue_unserved",
            Self::TypeUnknown => "type_unknown",
            Self::CompatibilityUnsupported => "compatibility_unsupported",
            Self::FingerprintDiffers => "fingerprint_differs",
            Self::WorkersDraining => "workers_draining",
            Self::NamespaceActiveLimit => "namespace_active_limit",
            Self::QueueActiveLimit => "queue_active_limit",
            Self::NamespaceRateLimit => "namespace_rate_limit",
            Self::QueueRateLimit => "queue_rate_limit",
            Self::WorkersBusy => "workers_busy",
        }
    }

    /// What keeps a task from being claimed, for people.
    pub const fn why(self) -> &'static str {
        match self {
            Self::NamespaceUnserved => "no live worker takes tasks of its namespace",
            Self::QueueUnserved => "no live worker takes tasks of its queue",
            Self::TypeUnknown => "no live worker of its queue knows its type",
            Self::CompatibilityUnsupported => {
                "no live worker of its queue that knows its type supports the build of its run"
            }
            Self::FingerprintDiffers => {
                "no live worker that could take it has the definition of its workflow with which its run began"
            }
            Self::WorkersDraining => "all workers that could take it are about to end",
            Self::NamespaceActiveLimit => {
                "as many tasks of its namespace are under way as may be at a time"
            }
            Self::QueueActiveLimit => {
                "as many tasks of its queue are under way as may be at a time"
            }
            Self::NamespaceRateLimit => {
                "as many tasks of its namespace have begun as may in a minute"
            }
            Self::QueueRateLimit => "as many tasks of its queue have begun as may in a minute",
            Self::WorkersBusy => "the workers that could take it are busy, or have yet to look",
        }
    }

    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NamespaceUnserved => "start a worker for its namespace and queue",
            Self::QueueUnserved => "start a worker for its queue",
            Self::TypeUnknown => "start a worker for its queue that knows its type",
            Self::CompatibilityUnsupported => {
                "start a worker of its queue that supports the build of its run"
            }
            Self::FingerprintDiffers => {
                "start a worker with that definition, or, where its code can go on with the run, set DW_V2_PIN_TO_RECORDED_FINGERPRINT=false"
            }
            Self::WorkersDraining => "start a worker that stays; a deploy does so by itself",
            Self::NamespaceActiveLimit | Self::QueueActiveLimit => {
                "wait until one of them ends, or raise the bound (DW_*_TASK_MAX_ACTIVE_LEASES_PER_*) in all processes"
            }
            Self::NamespaceRateLimit | Self::QueueRateLimit => {
                "wait for its turn, or raise the bound (DW_*_TASK_MAX_DISPATCHES_PER_MINUTE*) in all processes"
            }
            Self::WorkersBusy => {
                "wait some seconds; if it stays so, give the workers of its queue more slots, or start more of them"
            }
        }
    }
}

/// What a refusal is judged by: who lives, what is bounded, and what is under way.
pub(crate) struct Grounds<'a> {
    pub(crate) workers: &'a [WorkerRecord],
    pub(crate) quotas: &'a Quotas,
    pub(crate) backlogs: &'a Backlogs,
}

/// What of a task says who may take it.
pub(crate) struct Waits<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) queue: &'a Queue,
    pub(crate) kind: TaskKind,
    pub(crate) name: &'a TypeName,
    pub(crate) build: Option<&'a BuildId>,
    pub(crate) fingerprint: Option<&'a Fingerprint>,
}

impl Backlog {
    const fn waits(&self) -> Waits<'_> {
        Waits {
            namespace: &self.namespace,
            queue: &self.queue,
            kind: self.kind,
            name: &self.name,
            build: self.build.as_ref(),
            fingerprint: self.fingerprint.as_ref(),
        }
    }
}

impl Grounds<'_> {
    /// Why nobody has taken a task yet that may be claimed. The first reason that holds is told:
    /// without it the next one would.
    pub(crate) fn judge(&self, task: &Waits<'_>) -> Refusal {
        let of_namespace = |worker: &&WorkerRecord| worker.enlistment.namespace == *task.namespace;
        if !self.workers.iter().any(|worker| of_namespace(&worker)) {
            return Refusal::NamespaceUnserved;
        }
        let mut able: Vec<_> = self.workers.iter().collect();
        able.retain(|worker| worker.serves(task.namespace, task.queue));
        if able.is_empty() {
            return Refusal::QueueUnserved;
        }
        able.retain(|worker| worker.knows(task.kind, task.name));
        if able.is_empty() {
            return Refusal::TypeUnknown;
        }
        able.retain(|worker| worker.supports(task.build));
        if able.is_empty() {
            return Refusal::CompatibilityUnsupported;
        }
        able.retain(|worker| worker.goes_on_with(task.fingerprint));
        if able.is_empty() {
            return Refusal::FingerprintDiffers;
        }
        if able.iter().all(|worker| worker.is_draining) {
            return Refusal::WorkersDraining;
        }
        self.bounded(task).unwrap_or(Refusal::WorkersBusy)
    }

    /// The bound that leaves no room for it.
    fn bounded(&self, task: &Waits<'_>) -> Option<Refusal> {
        let quotas = self.quotas.of(task.queue, task.kind);
        quotas.into_iter().find_map(|quota| {
            let is_meant = |queue: &Queue| quota.of == QuotaOf::Namespace || queue == task.queue;
            let under_way = self.backlogs.under_way.iter().filter(|it| {
                it.namespace == *task.namespace && it.kind == task.kind && is_meant(&it.queue)
            });
            let active = under_way.map(|it| it.tasks).sum();
            let row = match quota.of {
                QuotaOf::Queue => task.queue.as_str(),
                QuotaOf::Namespace => "",
            };
            let paid = self.backlogs.paid.iter().find(|it| {
                it.namespace == *task.namespace && it.kind == task.kind && it.queue == row
            });
            let paid = paid.map_or(0, |it| it.until.as_micros());
            if quota
                .room(active, paid, self.backlogs.now.as_micros())
                .tasks
                > 0
            {
                return None;
            }
            let is_full = quota.active.is_some_and(|most| active >= u64::from(most));
            Some(match (quota.of, is_full) {
                (QuotaOf::Namespace, true) => Refusal::NamespaceActiveLimit,
                (QuotaOf::Namespace, false) => Refusal::NamespaceRateLimit,
                (QuotaOf::Queue, true) => Refusal::QueueActiveLimit,
                (QuotaOf::Queue, false) => Refusal::QueueRateLimit,
            })
        })
    }
}

/// Tasks of one type and build in one queue that may be claimed and are not, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Which.
    pub backlog: Backlog,
    /// Why.
    pub refusal: Refusal,
}

/// What may be claimed and is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusals {
    /// The database's clock.
    pub now: Timestamp,
    /// By namespace, queue, kind, type and build.
    pub refused: Vec<Refused>,
}

impl Refusals {
    pub(crate) fn of(backlogs: &Backlogs, workers: &[WorkerRecord], quotas: &Quotas) -> Self {
        let grounds = Grounds {
            workers,
            quotas,
            backlogs,
        };
        let refused = backlogs.backlogs.iter().map(|backlog| Refused {
            refusal: grounds.judge(&backlog.waits()),
            backlog: backlog.clone(),
        });
        Self {
            now: backlogs.now,
            refused: refused.collect(),
        }
    }

    /// How many tasks are left alone for this reason, and since when the first of them has been.
    pub fn total(&self, refusal: Refusal) -> Tally {
        let those = self.refused.iter().filter(|it| it.refusal == refusal);
        let tallies = those.map(|it| Tally {
            count: it.backlog.tasks,
            since: Some(it.backlog.since),
        });
        tallies.fold(Tally::default(), Tally::and)
    }
}

impl Engine {
    /// The tasks that may be claimed and have not been yet, by what keeps them: as this process is
    /// told of bounds. The cost grows with the number of ready tasks.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn refusals(&self) -> Result<Refusals> {
        let store = &self.core.store;
        let backlogs = store.backlogs().await?;
        let workers = store.workers(&WorkerFilter::default()).await?;
        Ok(Refusals::of(&backlogs, &workers, &self.core.quotas))
    }
}

#[cfg(test)]
mod tests;

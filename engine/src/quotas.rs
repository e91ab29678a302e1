//! How much of a queue or a namespace may be under way, in all processes together.

use std::collections::HashMap;
use std::num::NonZeroU32;

use coord_core::{Env, Result, Variable};

use crate::model::{Queue, TaskKind};
use crate::store::{Quota, QuotaOf};

/// A bound: how many tasks at a time, and how many in a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// How many may be leased at a time; `None` for any number.
    pub active: Option<u32>,
    /// How many may begin in a minute, in whatever minute, at least one; `None` for any number.
    pub per_minute: Option<u32>,
}

impl Bound {
    /// At most `tasks` at a time.
    #[must_use]
    pub const fn active(tasks: u32) -> Self {
        Self {
            active: Some(tasks),
            per_minute: None,
        }
    }

    /// At most `tasks` that begin in a minute. They come evenly, but for a second's worth at once.
    #[must_use]
    pub const fn per_minute(tasks: u32) -> Self {
        Self {
            active: None,
            per_minute: Some(tasks),
        }
    }

    const fn is_none(self) -> bool {
        self.active.is_none() && self.per_minute.is_none()
    }
}

/// The bounds of queues and namespaces. They hold over all processes on one database that are told
/// the same: each claim counts in the database, behind the claims of others.
///
/// Tasks of what is bounded are claimed by everybody from the queue: none begins in the process that
/// made it without a claim, and each claim waits for the one before. What is not bounded pays
/// nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    each_queue: HashMap<TaskKind, Bound>,
    namespace: HashMap<TaskKind, Bound>,
    queues: HashMap<(Queue, TaskKind), Bound>,
}

impl Quotas {
    /// Bounds the tasks of `kind` in each queue that has no bound of its own.
    #[must_use]
    pub fn each_queue(mut self, kind: TaskKind, bound: Bound) -> Self {
        self.each_queue.insert(kind, bound);
        self
    }

    /// Bounds the tasks of `kind` in all queues of a namespace together.
    #[must_use]
    pub fn namespace(mut self, kind: TaskKind, bound: Bound) -> Self {
        self.namespace.insert(kind, bound);
        self
    }

    /// Bounds the tasks of `kind` in `queue`.
    #[must_use]
    pub fn queue(mut self, queue: Queue, kind: TaskKind, bound: Bound) -> Self {
        self.queues.insert((queue, kind), bound);
        self
    }

    /// From the environment: `DW_WORKFLOW_TASK_MAX_ACTIVE_LEASES_PER_QUEUE` and its like, with
    /// `ACTIVITY`, `MAX_DISPATCHES_PER_MINUTE` and `PER_NAMESPACE`.
    ///
    /// # Errors
    /// `Invalid`, naming the variable, its value and what it must be.
    pub fn from_env(env: &Env) -> Result<Self> {
        let count = |variable| -> Result<Option<u32>> { env.parsed(variable, "a whole number") };
        let rate = |variable| -> Result<Option<u32>> {
            let rate: Option<NonZeroU32> = env.parsed(variable, "a whole number above 0")?;
            Ok(rate.map(NonZeroU32::get))
        };
        let mut quotas = Self::default();
        for (kind, [queue, queue_rate, namespace, namespace_rate]) in [
            (TaskKind::Workflow, &WORKFLOW),
            (TaskKind::Activity, &ACTIVITY),
        ] {
            let of_queue = Bound {
                active: count(queue)?,
                per_minute: rate(queue_rate)?,
            };
            let of_namespace = Bound {
                active: count(namespace)?,
                per_minute: rate(namespace_rate)?,
            };
            quotas = quotas
                .each_queue(kind, of_queue)
                .namespace(kind, of_namespace);
        }
        Ok(quotas)
    }

    /// What a claim of tasks of `kind` in `queue` has to keep. Always in the same order, in which
    /// they are locked.
    pub(crate) fn of(&self, queue: &Queue, kind: TaskKind) -> Vec<Quota> {
        let own = self.queues.get(&(queue.clone(), kind));
        let of_queue = own.or_else(|| self.each_queue.get(&kind));
        let of_namespace = self.namespace.get(&kind);
        let bounds = [
            (QuotaOf::Namespace, of_namespace),
            (QuotaOf::Queue, of_queue),
        ];
        let quotas = bounds.into_iter().filter_map(|(of, bound)| {
            let bound = bound.filter(|bound| !bound.is_none())?;
            Some(Quota {
                kind,
                of,
                active: bound.active,
                per_minute: bound.per_minute,
            })
        });
        quotas.collect()
    }

    /// Whether tasks of `kind` are bounded in all queues together.
    pub(crate) fn bound_together(&self, kind: TaskKind) -> bool {
        let bound = self.namespace.get(&kind);
        bound.is_some_and(|bound| !bound.is_none())
    }

    /// Whether tasks of `kind` in `queue` are bounded.
    pub(crate) fn bound(&self, queue: &Queue, kind: TaskKind) -> bool {
        !self.of(queue, kind).is_empty()
    }
}

macro_rules! variables {
    ($kind:literal, $tasks:literal) => {
        [
            Variable::new(concat!("DW_", $kind, "_TASK_MAX_ACTIVE_LEASES_PER_QUEUE"), "", concat!(
                    $tasks,
                    " of a queue that may be under way at a time, in all processes together. Not set: any number."
                )),
            Variable::new(concat!("DW_", $kind, "_TASK_MAX_DISPATCHES_PER_MINUTE"), "", concat!(
                    $tasks,
                    " of a queue that may begin in a minute, in all processes together. Not set: any number."
                )),
            Variable::new(concat!("DW_", $kind, "_TASK_MAX_ACTIVE_LEASES_PER_NAMESPACE"), "", concat!(
                    $tasks,
                    " of a namespace that may be under way at a time, in all processes together. Not set: any number."
                )),
            Variable::new(concat!("DW_", $kind, "_TASK_MAX_DISPATCHES_PER_MINUTE_PER_NAMESPACE"), "", concat!(
                    $tasks,
                    " of a namespace that may begin in a minute, in all processes together. Not set: any number."
                )),
        ]
    };
}

const WORKFLOW: [Variable; 4] = variables!("WORKFLOW", "Turns of workflows");
const ACTIVITY: [Variable; 4] = variables!("ACTIVITY", "Activities");

/// The environment variables that [`Quotas::from_env`] reads.
pub(crate) const VARIABLES: [Variable; 8] = [
    WORKFLOW[0],
    WORKFLOW[1],
    WORKFLOW[2],
    WORKFLOW[3],
    ACTIVITY[0],
    ACTIVITY[1],
    ACTIVITY[2],
    ACTIVITY[3],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_with_a_bound_of_its_own_has_no_other_and_its_namespace_counts_too() {
        let env = Env::from_pairs([
            ("DW_ACTIVITY_TASK_MAX_ACTIVE_LEASES_PER_QUEUE", "3"),
            (
                "DW_ACTIVITY_TASK_MAX_DISPATCHES_PER_MINUTE_PER_NAMESPACE",
                "60",
            ),
        ]);
        let queue = |name: &str| Queue::new(name).expect("a queue");
        let quotas = Quotas::from_env(&env).expect("numbers");
        let quotas = quotas.queue(queue("own"), TaskKind::Activity, Bound::active(1));

        let of = |name: &str| {
            let quotas = quotas.of(&queue(name), TaskKind::Activity);
            let bounds = quotas.iter().map(|quota| (quota.active, quota.per_minute));
            bounds.collect::<Vec<_>>()
        };
        assert_eq!(of("any"), [(None, Some(60)), (Some(3), None)]);
        assert_eq!(of("own"), [(None, Some(60)), (Some(1), None)]);
        assert!(!quotas.bound(&queue("any"), TaskKind::Workflow));
    }

    #[test]
    fn what_is_no_number_is_named() {
        for wrong in ["few", "0"] {
            let env = Env::from_pairs([("DW_WORKFLOW_TASK_MAX_DISPATCHES_PER_MINUTE", wrong)]);

            let error = Quotas::from_env(&env).expect_err("no number");

            let text = error.to_string();
            assert!(
                text.contains("DW_WORKFLOW_TASK_MAX_DISPATCHES_PER_MINUTE"),
                "{text}"
            );
        }
    }
}

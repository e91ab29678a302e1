//! Workers and builds.

use std::collections::{BTreeMap, BTreeSet};

use super::claim::is_within;
use super::tables::Tables;
use crate::model::{BuildId, Namespace, RunId, TaskStatus, Timestamp};
use crate::store::{
    Backlog, Backlogs, BuildChange, BuildStep, Builds, Decided, Ending, Enlistment, OpenRuns,
    WorkerFilter, WorkerRecord,
};

impl Tables {
    pub(super) fn enlist(&mut self, worker: &Enlistment) {
        let fleet = &self.fleet;
        self.workers
            .retain(|_, (known, _)| fleet.get(&known.owner).is_some_and(|it| it.is_live));
        let enlisted = (worker.clone(), self.now);
        self.workers.insert(worker.worker.clone(), enlisted);
    }

    pub(super) fn workers(&self, filter: &WorkerFilter) -> Vec<WorkerRecord> {
        let is_meant = |worker: &Enlistment| {
            let namespace = filter.namespace.as_ref();
            let queue = filter.queue.as_ref();
            namespace.is_none_or(|it| *it == worker.namespace)
                && queue.is_none_or(|it| *it == worker.queue)
        };
        let record = |(worker, started_at): &(Enlistment, Timestamp)| {
            let member = self.fleet.get(&worker.owner)?;
            let lives = member.is_live && member.expires_at > self.now;
            (lives && is_meant(worker)).then(|| WorkerRecord {
                enlistment: worker.clone(),
                node: member.node.clone(),
                pid: member.pid,
                is_draining: member.is_draining,
                started_at: *started_at,
                recorded_at: member.beat_at,
                expires_at: member.expires_at,
            })
        };
        self.workers.values().filter_map(record).collect()
    }

    pub(super) fn backlogs(&self, scope: Option<&Namespace>) -> Backlogs {
        let mut found: BTreeMap<_, (BTreeSet<&RunId>, Timestamp)> = BTreeMap::new();
        let due = self.tasks.values().filter(|task| {
            task.status == TaskStatus::Ready
                && task.available_at <= self.now
                && is_within(&task.namespace, scope)
        });
        for task in due {
            let Some(build) = &task.build else { continue };
            let (runs, since) = found
                .entry((&task.namespace, &task.queue, build))
                .or_insert((BTreeSet::new(), task.available_at));
            runs.insert(&task.run);
            *since = task.available_at.min(*since);
        }
        let backlog = |((namespace, queue, build), (runs, since)): (
            (&Namespace, &crate::model::Queue, &BuildId),
            (BTreeSet<&RunId>, Timestamp),
        )| Backlog {
            namespace: namespace.clone(),
            queue: queue.clone(),
            build: build.clone(),
            runs: runs.len() as u64,
            since,
        };
        Backlogs {
            now: self.now,
            backlogs: found.into_iter().map(backlog).collect(),
        }
    }

    pub(super) fn change_build(&mut self, change: &BuildChange) -> bool {
        let seen = self.promoted.entry(change.namespace.clone()).or_default();
        let (promoted, replaced) = seen;
        let text = |build: &Option<BuildId>| build.as_ref().map(ToString::to_string);
        let decided = change.decide(text(promoted).as_deref(), text(replaced).as_deref());
        let key = (change.namespace.clone(), change.build.clone());
        match decided {
            Decided::Refused => return false,
            Decided::Goes => {
                if promoted.as_ref() != Some(&change.build) {
                    *replaced = promoted.replace(change.build.clone());
                }
                self.endings.remove(&key);
                return true;
            }
            Decided::Ends => {}
            Decided::Returns => *promoted = replaced.take(),
        }
        let ending = match change.step {
            BuildStep::RollBack => Ending::RolledBack,
            BuildStep::Drain | BuildStep::Promote => Ending::Draining,
        };
        self.endings.insert(key, (ending, self.now));
        true
    }

    pub(super) fn promoted(&self, namespace: &Namespace) -> Option<BuildId> {
        self.promoted.get(namespace)?.0.clone()
    }

    pub(super) fn builds(&self, namespace: &Namespace) -> Builds {
        let own =
            |((of, build), (ending, since)): (&(Namespace, BuildId), &(Ending, Timestamp))| {
                (of == namespace).then(|| (build.clone(), *ending, *since))
            };
        let mut open: BTreeMap<BuildId, OpenRuns> = BTreeMap::new();
        let runs = self.runs.values().map(|row| &row.run);
        for run in runs.filter(|run| run.namespace == *namespace && run.closed_at.is_none()) {
            let Some(build) = &run.build else { continue };
            let entry = open.entry(build.clone()).or_insert(OpenRuns {
                build: build.clone(),
                runs: 0,
                since: run.started_at,
            });
            entry.runs += 1;
            entry.since = entry.since.min(run.started_at);
        }
        Builds {
            promoted: self.promoted(namespace),
            endings: self.endings.iter().filter_map(own).collect(),
            open: open.into_values().collect(),
        }
    }
}

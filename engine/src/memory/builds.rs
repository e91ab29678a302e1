//! Workers and builds.

use std::collections::{BTreeMap, BTreeSet};

use super::claim::is_within;
use super::tables::{Tables, TaskRow};
use crate::model::{BuildId, Fingerprint, Namespace, RunId, TaskKind, TaskStatus, Timestamp};
use crate::store::{
    Backlog, Backlogs, BuildChange, BuildStep, Builds, Decided, Ending, Enlistment, OpenRuns, Paid,
    UnderWay, WorkerFilter, WorkerRecord,
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
        let mut found: BTreeMap<_, (BTreeSet<&RunId>, Backlog)> = BTreeMap::new();
        let mut under_way: BTreeMap<_, UnderWay> = BTreeMap::new();
        let tasks = self.tasks.values();
        for task in tasks.filter(|task| is_within(&task.namespace, scope)) {
            let place = (&task.namespace, &task.queue, task.kind.as_str());
            if task.status == TaskStatus::Ready && task.available_at <= self.now {
                let new = || (BTreeSet::new(), self.backlog(task));
                let key = (place, &task.name, &task.build, self.began(task));
                let (runs, backlog) = found.entry(key).or_insert_with(new);
                runs.insert(&task.run);
                backlog.tasks += 1;
                backlog.runs = runs.len() as u64;
                backlog.since = task.available_at.min(backlog.since);
            } else if task.status == TaskStatus::Leased && task.lease_expires_at > self.now {
                let entry = under_way.entry(place).or_insert_with(|| UnderWay {
                    namespace: task.namespace.clone(),
                    queue: task.queue.clone(),
                    kind: task.kind,
                    tasks: 0,
                });
                entry.tasks += 1;
            }
        }
        let paid = self.paid.iter();
        let paid = paid.filter(|((namespace, ..), _)| is_within(namespace, scope));
        let paid = paid.map(|((namespace, queue, kind), until)| Paid {
            namespace: namespace.clone(),
            queue: queue.clone(),
            kind: *kind,
            until: Timestamp::from_micros(*until),
        });
        Backlogs {
            now: self.now,
            backlogs: found.into_values().map(|(_, backlog)| backlog).collect(),
            under_way: under_way.into_values().collect(),
            paid: paid.collect(),
        }
    }

    /// With what code the run of a workflow task began.
    fn began(&self, task: &TaskRow) -> Option<&Fingerprint> {
        let began = self.runs[&task.run].run.fingerprint.as_ref();
        began.filter(|_| task.kind == TaskKind::Workflow)
    }

    /// One like `task`, of none.
    fn backlog(&self, task: &TaskRow) -> Backlog {
        Backlog {
            namespace: task.namespace.clone(),
            queue: task.queue.clone(),
            kind: task.kind,
            name: task.name.clone(),
            build: task.build.clone(),
            fingerprint: self.began(task).cloned(),
            tasks: 0,
            runs: 0,
            since: self.now,
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

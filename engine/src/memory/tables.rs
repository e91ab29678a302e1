//! The rows.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::schedule::ScheduleRow;
use crate::model::ParentLink;
use crate::model::{
    Attempt, AttemptId, Attributes, BuildId, Fairness, Marks, Namespace, OwnerId, Payload,
    Priority, Queue, Record, RequestId, Run, RunId, Task, TaskId, TaskKind, TaskStatus, Timeouts,
    Timestamp, TypeName, WorkflowId,
};
use crate::store::{
    Archived, AttributeKind, CommandKind, Ending, Enlistment, Incarnation, NamespaceRecord,
    NewActivity, Ready, ScheduleKey, Target, Term,
};

#[derive(Default)]
pub(super) struct Tables {
    pub(super) now: Timestamp,
    pub(super) current: HashMap<(Namespace, WorkflowId), RunId>,
    pub(super) runs: BTreeMap<RunId, RunRow>,
    pub(super) tasks: BTreeMap<TaskId, TaskRow>,
    pub(super) attempts: Vec<Attempt>,
    /// Where histories are kept that are no longer here.
    pub(super) archives: BTreeMap<RunId, Archived>,
    pub(super) receipts: HashMap<(Namespace, WorkflowId, CommandKind, RequestId), RunId>,
    pub(super) fleet: BTreeMap<OwnerId, Member>,
    pub(super) roles: HashMap<String, Term>,
    pub(super) namespaces: BTreeMap<Namespace, NamespaceRecord>,
    pub(super) declarations: BTreeMap<(Namespace, String), AttributeKind>,
    /// What is promoted, and what that replaced.
    pub(super) promoted: HashMap<Namespace, (Option<BuildId>, Option<BuildId>)>,
    pub(super) endings: BTreeMap<(Namespace, BuildId), (Ending, Timestamp)>,
    /// Until when quotas are paid, by namespace, queue and kind.
    pub(super) paid: HashMap<(Namespace, String, TaskKind), i64>,
    /// What the shares of queues were served, with their weights.
    pub(super) served: HashMap<(Namespace, Queue, TaskKind), Served>,
    pub(super) workers: BTreeMap<String, (Enlistment, Timestamp)>,
    /// What the writes under way have left to be claimed.
    pub(super) ready: Vec<Ready>,
    pub(super) hints: Vec<String>,
    /// How often something was written or claimed.
    pub(super) changes: usize,
    /// How many tasks were begun.
    pub(super) begun: usize,
    pub(super) schedules: BTreeMap<ScheduleKey, ScheduleRow>,
}

/// The weight of each share, by key and priority, and what it was served.
pub(super) type Served = BTreeMap<(String, i16), (i16, i64)>;

pub(super) struct RunRow {
    pub(super) run: Run,
    pub(super) attributes: Attributes,
    pub(super) memo: Map<String, Value>,
    pub(super) priority: Priority,
    pub(super) fairness: Option<Fairness>,
    pub(super) parent: Option<ParentLink>,
    pub(super) continued_to: Option<RunId>,
    pub(super) inbox_drained: u64,
    pub(super) turn_epoch: u64,
    pub(super) history: Vec<Record>,
    pub(super) inbox: Vec<Record>,
    pub(super) buffered_signals: u64,
    /// When it changed last.
    pub(super) updated_at: Timestamp,
}

#[derive(Clone)]
pub(super) struct TaskRow {
    pub(super) id: TaskId,
    pub(super) kind: TaskKind,
    pub(super) namespace: Namespace,
    pub(super) queue: Queue,
    pub(super) priority: Priority,
    pub(super) fairness: Option<Fairness>,
    pub(super) name: TypeName,
    pub(super) workflow: WorkflowId,
    pub(super) run: RunId,
    pub(super) step: u64,
    pub(super) build: Option<BuildId>,
    pub(super) status: TaskStatus,
    pub(super) available_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) recoveries: u32,
    pub(super) owner: Option<OwnerId>,
    pub(super) epoch: u64,
    pub(super) lease_expires_at: Timestamp,
    pub(super) blocked: Option<&'static str>,
    pub(super) last_error: Option<String>,
    pub(super) scheduled_seq: u64,
    pub(super) scheduled_at: Timestamp,
    pub(super) timeouts: Timeouts,
    pub(super) attempt_id: Option<AttemptId>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) heartbeat_at: Option<Timestamp>,
    pub(super) progress: Option<Payload>,
}

pub(super) struct Member {
    pub(super) node: String,
    pub(super) is_live: bool,
    pub(super) scope: Option<Namespace>,
    pub(super) began_at: Timestamp,
    pub(super) beat_at: Timestamp,
    pub(super) build: Option<BuildId>,
    pub(super) figures: Option<String>,
    pub(super) pid: u32,
    pub(super) is_draining: bool,
    pub(super) expires_at: Timestamp,
}

impl Member {
    pub(super) fn incarnation(&self, id: &OwnerId) -> Incarnation {
        Incarnation {
            id: id.clone(),
            node: self.node.clone(),
            build: self.build.clone(),
            pid: self.pid,
        }
    }
}

impl RunRow {
    pub(super) fn mark(&mut self, marks: &Marks) {
        if let Some(attributes) = &marks.attributes {
            self.attributes.clone_from(attributes);
        }
        if let Some(memo) = &marks.memo {
            self.memo.clone_from(memo);
        }
    }
}

impl TaskRow {
    pub(super) fn workflow(row: &RunRow, available_at: Timestamp) -> Self {
        let run = &row.run;
        Self {
            id: TaskId::of(&run.run, 0),
            kind: TaskKind::Workflow,
            namespace: run.namespace.clone(),
            queue: run.queue.clone(),
            priority: row.priority,
            fairness: row.fairness.clone(),
            name: run.name.clone(),
            workflow: run.workflow.clone(),
            run: run.run.clone(),
            step: 0,
            build: run.build.clone(),
            status: TaskStatus::Ready,
            available_at,
            attempt: 0,
            recoveries: 0,
            owner: None,
            epoch: row.turn_epoch,
            lease_expires_at: Timestamp::NEVER,
            blocked: None,
            last_error: None,
            scheduled_seq: 0,
            scheduled_at: available_at,
            timeouts: Timeouts::default(),
            attempt_id: None,
            started_at: None,
            heartbeat_at: None,
            progress: None,
        }
    }

    pub(super) fn activity(row: &RunRow, new: &NewActivity, now: Timestamp) -> Self {
        let mut task = Self {
            id: TaskId::of(&row.run.run, new.step),
            kind: TaskKind::Activity,
            queue: new.queue.clone(),
            priority: new.priority,
            name: new.name.clone(),
            step: new.step,
            epoch: 0,
            scheduled_seq: new.scheduled_seq,
            scheduled_at: now,
            timeouts: new.timeouts,
            ..Self::workflow(row, now)
        };
        if let Some((lease, attempt)) = &new.lease {
            task.lease(&lease.owner, now.plus(lease.ttl), now);
            task.attempt_id = Some(attempt.clone());
        }
        task
    }

    /// Whose share it counts against, in which priority, and the weight of that share.
    pub(super) fn share(&self) -> (String, i16, i16) {
        let fairness = self.fairness.as_ref();
        let key = fairness.map_or(String::new(), |it| it.key.as_str().to_owned());
        let weight = fairness.map_or(1, |it| i16::try_from(it.weight.get()).unwrap_or(i16::MAX));
        (key, i16::from(self.priority.get()), weight)
    }

    pub(super) fn lease(&mut self, owner: &OwnerId, until: Timestamp, now: Timestamp) {
        self.status = TaskStatus::Leased;
        self.owner = Some(owner.clone());
        self.lease_expires_at = until;
        self.epoch += 1;
        self.attempt += 1;
        self.started_at = Some(now);
        self.heartbeat_at = Some(now);
    }

    /// Ends the lease; the attempt is over.
    pub(super) fn free(&mut self, status: TaskStatus, available_at: Timestamp) {
        self.status = status;
        self.available_at = available_at;
        self.owner = None;
        self.epoch += 1;
        self.lease_expires_at = Timestamp::NEVER;
        self.attempt_id = None;
        self.started_at = None;
        self.heartbeat_at = None;
    }

    /// The earliest of the activity's deadlines in its present state.
    pub(super) fn deadline(&self) -> Timestamp {
        if self.kind == TaskKind::Workflow {
            return Timestamp::NEVER;
        }
        let after = |since: Option<Timestamp>, span: Option<std::time::Duration>| {
            since
                .zip(span)
                .map_or(Timestamp::NEVER, |(since, span)| since.plus(span))
        };
        let times = self.timeouts;
        let waits = self.attempt == 0 && self.status == TaskStatus::Ready;
        let to_start = times.schedule_to_start.filter(|_| waits);
        after(Some(self.scheduled_at), times.schedule_to_close)
            .min(after(Some(self.scheduled_at), to_start))
            .min(after(self.started_at, times.start_to_close))
            .min(after(self.heartbeat_at, times.heartbeat))
    }

    pub(super) fn task(&self) -> Task {
        Task {
            id: self.id.clone(),
            namespace: self.namespace.clone(),
            kind: self.kind,
            queue: self.queue.clone(),
            priority: self.priority,
            name: self.name.clone(),
            workflow: self.workflow.clone(),
            run: self.run.clone(),
            step: (self.kind == TaskKind::Activity).then_some(self.step),
            build: self.build.clone(),
            epoch: self.epoch,
            attempt: self.attempt,
            attempt_id: self.attempt_id.clone(),
            lease_expires_at: self.lease_expires_at,
            deadline_at: self.deadline(),
        }
    }
}

impl Tables {
    /// Puts `task` in its place.
    pub(super) fn put(&mut self, task: TaskRow) {
        self.tell(&task);
        self.tasks.insert(task.id.clone(), task);
    }

    /// Notes that `task` can be claimed, if it can.
    pub(super) fn tell(&mut self, task: &TaskRow) {
        if task.status == TaskStatus::Ready {
            self.ready.push(Ready {
                namespace: task.namespace.clone(),
                queue: task.queue.clone(),
                kind: task.kind,
                due: task.available_at,
                tasks: vec![task.id.clone()],
            });
        }
    }

    /// The run that a target means, open or closed.
    pub(super) fn find(&self, target: &Target) -> Option<RunId> {
        match target {
            Target::Run(run) => self.runs.contains_key(run).then(|| run.clone()),
            Target::Current(namespace, workflow) => self
                .current
                .get(&(namespace.clone(), workflow.clone()))
                .cloned(),
        }
    }
}

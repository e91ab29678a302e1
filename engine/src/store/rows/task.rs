//! Tasks.

use std::time::Duration;

use coord_core::{Error, Result};

use super::super::{ClaimedTask, Lease, NewActivity, OpenTask, Overdue};
use super::{NEVER, RunRow, TaskRow, payload, read, signed, some, span_us, unsigned};
use crate::model::{
    AttemptId, BuildId, Namespace, OwnerId, Priority, Queue, Record, RunId, Task, TaskId, TaskKind,
    TaskStatus, Timestamp, TypeName, WorkflowId,
};

impl TaskRow {
    /// The workflow task of `run`, ready at `available_at`. Its epoch goes on from the last one.
    pub(in super::super) fn workflow(run: &RunRow, available_at: i64, now: i64) -> Self {
        Self {
            task_id: format!("{}:0", run.run_id),
            task_type: TaskKind::Workflow.as_str().to_owned(),
            namespace: run.namespace.clone(),
            queue: run.queue.clone(),
            priority: run.priority,
            status: TaskStatus::Ready.as_str().to_owned(),
            available_at,
            workflow_id: run.workflow_id.clone(),
            run_id: run.run_id.clone(),
            step_seq: 0,
            name: run.workflow_type.clone(),
            compatibility: run.compatibility.clone(),
            attempt_count: 0,
            recover_count: 0,
            lease_owner: None,
            lease_epoch: run.turn_epoch,
            leased_at: None,
            lease_expires_at: None,
            blocked_reason: None,
            last_error: None,
            created_at: now,
            scheduled_seq: None,
            attempt_id: None,
            started_at: None,
            heartbeat_at: None,
            heartbeat_codec: None,
            heartbeat_payload: None,
            schedule_to_start_at: NEVER,
            schedule_to_close_at: NEVER,
            start_to_close_us: NEVER,
            heartbeat_us: NEVER,
            deadline_at: NEVER,
            fairness_key: run.fairness_key.clone(),
            fairness_weight: run.fairness_weight,
        }
    }

    /// The task of a new activity of `run`.
    pub(in super::super) fn activity(run: &RunRow, new: &NewActivity, now: i64) -> Self {
        let from_now = |span: Option<Duration>| {
            let now = Timestamp::from_micros(now);
            span.map_or(NEVER, |span| now.plus(span).as_micros())
        };
        let mut task = Self {
            task_id: format!("{}:{}", run.run_id, new.step),
            task_type: TaskKind::Activity.as_str().to_owned(),
            queue: new.queue.to_string(),
            priority: i16::from(new.priority.get()),
            step_seq: signed(new.step),
            name: new.name.to_string(),
            lease_epoch: 0,
            scheduled_seq: Some(signed(new.scheduled_seq)),
            schedule_to_start_at: from_now(new.timeouts.schedule_to_start),
            schedule_to_close_at: from_now(new.timeouts.schedule_to_close),
            start_to_close_us: span_us(new.timeouts.start_to_close),
            heartbeat_us: span_us(new.timeouts.heartbeat),
            ..Self::workflow(run, now, now)
        };
        match &new.lease {
            Some((lease, attempt)) => {
                task.attempt_id = Some(attempt.to_string());
                task.lease(lease, now);
            }
            None => task.deadline_at = task.deadline(),
        }
        task
    }

    pub(in super::super) fn is(&self, status: TaskStatus) -> bool {
        self.status == status.as_str()
    }

    pub(in super::super) fn is_activity(&self) -> bool {
        self.task_type == TaskKind::Activity.as_str()
    }

    /// Begins an attempt.
    pub(in super::super) fn lease(&mut self, lease: &Lease, now: i64) {
        TaskStatus::Leased.as_str().clone_into(&mut self.status);
        self.lease_owner = Some(lease.owner.to_string());
        self.lease_epoch += 1;
        self.attempt_count += 1;
        self.leased_at = Some(now);
        let until = Timestamp::from_micros(now).plus(lease.ttl);
        self.lease_expires_at = Some(until.as_micros());
        if self.is_activity() {
            self.started_at = Some(now);
            self.heartbeat_at = Some(now);
        }
        self.deadline_at = self.deadline();
    }

    /// Ends the lease, if there is one; the attempt is over.
    pub(in super::super) fn free(&mut self, status: TaskStatus, available_at: i64) {
        status.as_str().clone_into(&mut self.status);
        self.available_at = available_at;
        self.lease_owner = None;
        self.lease_epoch += 1;
        self.leased_at = None;
        self.lease_expires_at = None;
        self.attempt_id = None;
        self.started_at = None;
        self.heartbeat_at = None;
        self.deadline_at = self.deadline();
    }

    /// The earliest of an activity's times in its present state. The claim, the renewal and the
    /// sweep say the same in SQL.
    pub(in super::super) fn deadline(&self) -> i64 {
        if !self.is_activity() {
            return NEVER;
        }
        let after = |since: Option<i64>, span: i64| since.map_or(NEVER, |since| since + span);
        let waits = self.attempt_count == 0 && self.is(TaskStatus::Ready);
        let to_start = if waits {
            self.schedule_to_start_at
        } else {
            NEVER
        };
        self.schedule_to_close_at
            .min(to_start)
            .min(after(self.started_at, self.start_to_close_us))
            .min(after(self.heartbeat_at, self.heartbeat_us))
    }

    fn kind(&self) -> Result<TaskKind> {
        [TaskKind::Workflow, TaskKind::Activity]
            .into_iter()
            .find(|kind| kind.as_str() == self.task_type)
            .ok_or_else(|| Error::corrupt(format!("reading a task: it is a {}", self.task_type)))
    }

    /// The task as its claimer sees it.
    pub(in super::super) fn task(self) -> Result<Task> {
        let kind = self.kind()?;
        let step: u64 = unsigned(self.step_seq)?;
        Ok(Task {
            id: read::<TaskId>(self.task_id, "task id")?,
            namespace: read::<Namespace>(self.namespace, "namespace")?,
            kind,
            queue: read::<Queue>(self.queue, "queue")?,
            priority: Priority::new(unsigned(self.priority)?)
                .map_err(|error| Error::corrupt("reading a task").with_source(error))?,
            name: read::<TypeName>(self.name, "name")?,
            workflow: read::<WorkflowId>(self.workflow_id, "workflow id")?,
            run: read::<RunId>(self.run_id, "run id")?,
            step: (kind == TaskKind::Activity).then_some(step),
            build: some::<BuildId>(self.compatibility, "build id")?,
            epoch: unsigned(self.lease_epoch)?,
            attempt: unsigned(self.attempt_count)?,
            attempt_id: some::<AttemptId>(self.attempt_id, "attempt id")?,
            lease_expires_at: Timestamp::from_micros(self.lease_expires_at.unwrap_or(NEVER)),
            deadline_at: Timestamp::from_micros(self.deadline_at),
        })
    }

    /// The task with all that its claimer needs.
    pub(in super::super) fn claimed(mut self, scheduled: Option<Record>) -> Result<ClaimedTask> {
        let progress = payload(self.heartbeat_codec.take(), self.heartbeat_payload.take());
        Ok(ClaimedTask {
            due_at: Timestamp::from_micros(self.available_at),
            task: self.task()?,
            scheduled,
            progress,
        })
    }

    /// The task with all that ends it.
    pub(in super::super) fn overdue(self, scheduled: Record, now: i64) -> Result<Overdue> {
        let instant = |at: Option<i64>| at.map(Timestamp::from_micros);
        Ok(Overdue {
            now: Timestamp::from_micros(now),
            scheduled,
            scheduled_at: Timestamp::from_micros(self.created_at),
            started_at: instant(self.started_at),
            heartbeat_at: instant(self.heartbeat_at),
            owner: some::<OwnerId>(self.lease_owner.clone(), "owner id")?,
            task: self.task()?,
        })
    }

    /// The task as people see it.
    pub(in super::super) fn open(self) -> Result<OpenTask> {
        Ok(OpenTask {
            kind: self.kind()?,
            task: read(self.task_id, "task id")?,
            queue: read(self.queue, "queue")?,
            name: read(self.name, "name")?,
            status: self.status,
            available_at: Timestamp::from_micros(self.available_at),
            leased_at: self.leased_at.map(Timestamp::from_micros),
            lease_expires_at: self.lease_expires_at.map(Timestamp::from_micros),
            owner: self.lease_owner,
            attempt: unsigned(self.attempt_count)?,
            recoveries: unsigned(self.recover_count)?,
            blocked: self.blocked_reason,
            last_error: self.last_error,
        })
    }
}

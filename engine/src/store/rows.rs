//! Rows as the tables hold them: what every dialect reads and writes.

use std::time::Duration;

use coord_core::{Error, Result};

use crate::model::{
    Attempt, AttemptEnd, AttemptId, BuildId, Closed, Failure, Namespace, OwnerId, Payload,
    Priority, Queue, Record, Run, RunId, RunStatus, Task, TaskId, TaskKind, TaskStatus, Timestamp,
    TypeName, Wait, WorkflowId, micros,
};

use super::{ClaimedTask, Lease, NewActivity, OpenTask, Overdue, Start};

/// An instant or a span that is not set: so the earliest of several is the least of them.
pub(super) const NEVER: i64 = Timestamp::NEVER.as_micros();

/// The columns of [`RunRow`].
macro_rules! run_columns {
    () => {
        "run_id, namespace, workflow_id, run_number, workflow_type, queue, priority, compatibility, \
         status, wait_reason, closed_reason, history_length, inbox_seq, inbox_drained, turn_epoch, \
         parent_run_id, parent_step_seq, parent_close, continued_to, started_at, updated_at, \
         closed_at, output_codec, output, failure"
    };
}
pub(super) use run_columns;

/// The columns of [`TaskRow`].
macro_rules! task_columns {
    () => {
        "task_id, task_type, namespace, queue, priority, status, available_at, workflow_id, run_id, \
         step_seq, name, compatibility, attempt_count, recover_count, lease_owner, lease_epoch, \
         leased_at, lease_expires_at, blocked_reason, last_error, created_at, scheduled_seq, \
         attempt_id, started_at, heartbeat_at, heartbeat_codec, heartbeat_payload, \
         schedule_to_start_at, schedule_to_close_at, start_to_close_us, heartbeat_us, deadline_at"
    };
}
pub(super) use task_columns;

/// A row of `workflow_runs`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct RunRow {
    pub(super) run_id: String,
    pub(super) namespace: String,
    pub(super) workflow_id: String,
    pub(super) run_number: i32,
    pub(super) workflow_type: String,
    pub(super) queue: String,
    pub(super) priority: i16,
    pub(super) compatibility: Option<String>,
    pub(super) status: String,
    pub(super) wait_reason: Option<String>,
    pub(super) closed_reason: Option<String>,
    pub(super) history_length: i64,
    pub(super) inbox_seq: i64,
    pub(super) inbox_drained: i64,
    pub(super) turn_epoch: i64,
    pub(super) parent_run_id: Option<String>,
    pub(super) parent_step_seq: Option<i64>,
    pub(super) parent_close: Option<String>,
    pub(super) continued_to: Option<String>,
    pub(super) started_at: i64,
    pub(super) updated_at: i64,
    pub(super) closed_at: Option<i64>,
    pub(super) output_codec: Option<String>,
    #[serde(serialize_with = "hex")]
    pub(super) output: Option<Vec<u8>>,
    pub(super) failure: Option<String>,
}

/// A row of `workflow_tasks`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct TaskRow {
    pub(super) task_id: String,
    pub(super) task_type: String,
    pub(super) namespace: String,
    pub(super) queue: String,
    pub(super) priority: i16,
    pub(super) status: String,
    pub(super) available_at: i64,
    pub(super) workflow_id: String,
    pub(super) run_id: String,
    pub(super) step_seq: i64,
    pub(super) name: String,
    pub(super) compatibility: Option<String>,
    pub(super) attempt_count: i32,
    pub(super) recover_count: i32,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_epoch: i64,
    pub(super) leased_at: Option<i64>,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) blocked_reason: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) created_at: i64,
    pub(super) scheduled_seq: Option<i64>,
    pub(super) attempt_id: Option<String>,
    pub(super) started_at: Option<i64>,
    pub(super) heartbeat_at: Option<i64>,
    pub(super) heartbeat_codec: Option<String>,
    #[serde(serialize_with = "hex")]
    pub(super) heartbeat_payload: Option<Vec<u8>>,
    pub(super) schedule_to_start_at: i64,
    pub(super) schedule_to_close_at: i64,
    pub(super) start_to_close_us: i64,
    pub(super) heartbeat_us: i64,
    pub(super) deadline_at: i64,
}

/// A row of `workflow_history` or of `workflow_inbox`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct RecordRow {
    pub(super) run_id: String,
    pub(super) seq: i64,
    pub(super) kind: String,
    pub(super) step_seq: Option<i64>,
    pub(super) at: i64,
    pub(super) details: Option<String>,
    pub(super) codec: Option<String>,
    #[serde(serialize_with = "hex")]
    pub(super) payload: Option<Vec<u8>>,
}

/// A row of `workflow_instances`, and whether its current run is there: one that is not was named
/// by this very transaction.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct InstanceRow {
    pub(super) namespace: String,
    pub(super) workflow_id: String,
    pub(super) current_run_id: String,
    pub(super) has_run: bool,
}

/// A row of `activity_attempts`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct AttemptRow {
    pub(super) attempt_id: String,
    pub(super) task_id: String,
    pub(super) run_id: String,
    pub(super) attempt: i32,
    pub(super) lease_owner: Option<String>,
    pub(super) outcome: String,
    pub(super) failure: String,
    pub(super) ended_at: i64,
}

/// A row of `workflow_commands`.
#[derive(Clone, PartialEq, Eq, Debug, sqlx::FromRow, serde::Serialize)]
pub(super) struct CommandRow {
    pub(super) namespace: String,
    pub(super) workflow_id: String,
    pub(super) kind: String,
    pub(super) request_id: String,
    pub(super) run_id: String,
}

/// How far a run is: its messages, and its history with what was appended since its last turn.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct TipRow {
    pub(super) run_id: String,
    pub(super) inbox_seq: i64,
    pub(super) history: i64,
}

/// An open child of a run that is to close.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, sqlx::FromRow)]
pub(super) struct KinRow {
    /// The run that closes.
    pub(super) run_id: String,
    /// Its child, or its parent.
    pub(super) kin_id: String,
}

/// Bytes as hexadecimal digits, the one form in which JSON carries them into a statement whole.
#[allow(clippy::ref_option, reason = "the signature that serde calls")]
pub(super) fn hex<S: serde::Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let Some(bytes) = bytes else {
        return to.serialize_none();
    };
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    to.serialize_str(&text)
}

/// A number that the tables hold as a signed one. No run lives to see the difference.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned<N, M: TryFrom<N>>(number: N) -> Result<M> {
    M::try_from(number).map_err(|_| Error::corrupt("reading a count: it is out of range"))
}

fn read<T: TryFrom<String>>(text: String, what: &'static str) -> Result<T> {
    let corrupt = || Error::corrupt(format!("reading {what}: it is no {what} of ours"));
    T::try_from(text).map_err(|_| corrupt())
}

fn some<T: TryFrom<String>>(text: Option<String>, what: &'static str) -> Result<Option<T>> {
    text.map(|text| read(text, what)).transpose()
}

fn payload(codec: Option<String>, bytes: Option<Vec<u8>>) -> Option<Payload> {
    let codec = codec?;
    Some(Payload {
        codec: codec.into(),
        bytes: bytes.unwrap_or_default().into(),
    })
}

fn span_us(span: Option<Duration>) -> i64 {
    span.map_or(NEVER, micros)
}

pub(super) fn failure_text(failure: &Failure) -> Result<String> {
    serde_json::to_string(failure)
        .map_err(|error| Error::invalid("encoding a failure").with_source(error))
}

fn failure_of(text: Option<String>) -> Result<Failure> {
    let text = text.unwrap_or_default();
    serde_json::from_str(&text)
        .map_err(|error| Error::corrupt("reading a failure").with_source(error))
}

impl RunRow {
    /// A new run at `now`, whose inbox goes on from `inbox`: the last place given, and taken.
    pub(super) fn new(start: &Start, now: i64, inbox: (i64, i64)) -> Self {
        let parent = start.parent.as_ref();
        Self {
            run_id: start.run.to_string(),
            namespace: start.namespace.to_string(),
            workflow_id: start.workflow.to_string(),
            run_number: i32::try_from(start.number).unwrap_or(i32::MAX),
            workflow_type: start.name.to_string(),
            queue: start.queue.to_string(),
            priority: i16::from(start.priority.get()),
            compatibility: start.build.as_ref().map(ToString::to_string),
            status: RunStatus::Pending.as_str().to_owned(),
            wait_reason: None,
            closed_reason: None,
            history_length: signed(start.records.len() as u64),
            inbox_seq: inbox.0,
            inbox_drained: inbox.1,
            turn_epoch: 0,
            parent_run_id: parent.map(|link| link.run.to_string()),
            parent_step_seq: parent.map(|link| signed(link.step)),
            parent_close: parent.map(|link| link.on_close.as_str().to_owned()),
            continued_to: None,
            started_at: now,
            updated_at: now,
            closed_at: None,
            output_codec: None,
            output: None,
            failure: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }

    /// Closes the run. What goes with it is the caller's business.
    pub(super) fn close(&mut self, closed: &Closed, now: i64) -> Result<()> {
        closed.status().as_str().clone_into(&mut self.status);
        self.closed_reason = Some(closed.reason().to_owned());
        self.wait_reason = None;
        self.closed_at = Some(now);
        self.updated_at = now;
        match closed {
            Closed::Completed(output) => {
                self.output_codec = Some(output.codec.to_string());
                self.output = Some(output.bytes.to_vec());
            }
            Closed::ContinuedAsNew(next) => self.continued_to = Some(next.to_string()),
            Closed::Failed(failure)
            | Closed::Cancelled(failure)
            | Closed::Terminated(failure)
            | Closed::TimedOut(failure) => self.failure = Some(failure_text(failure)?),
        }
        Ok(())
    }

    fn closed(&mut self) -> Result<Option<Closed>> {
        let Some(reason) = self.closed_reason.take() else {
            return Ok(None);
        };
        let mut failure = || failure_of(self.failure.take());
        let closed = match reason.as_str() {
            "completed" => {
                let output = payload(self.output_codec.take(), self.output.take());
                Closed::Completed(output.ok_or_else(|| Error::corrupt("reading an output: none"))?)
            }
            "failed" => Closed::Failed(failure()?),
            "cancelled" => Closed::Cancelled(failure()?),
            "terminated" => Closed::Terminated(failure()?),
            "timed_out" => Closed::TimedOut(failure()?),
            "continued_as_new" => {
                let next = self.continued_to.take().unwrap_or_default();
                Closed::ContinuedAsNew(read(next, "run id")?)
            }
            other => {
                let message = format!("reading a run: it closed for no reason of ours, {other}");
                return Err(Error::corrupt(message));
            }
        };
        Ok(Some(closed))
    }

    /// The run as callers see it.
    pub(super) fn run(mut self) -> Result<Run> {
        let closed = self.closed()?;
        let status = RunStatus::from_word(&self.status).ok_or_else(|| {
            Error::corrupt(format!("reading a run: its status is {}", self.status))
        })?;
        let wait = [Wait::Activity, Wait::Timer, Wait::Signal, Wait::Child]
            .into_iter()
            .find(|wait| self.wait_reason.as_deref() == Some(wait.as_str()));
        Ok(Run {
            namespace: read::<Namespace>(self.namespace, "namespace")?,
            workflow: read::<WorkflowId>(self.workflow_id, "workflow id")?,
            run: read::<RunId>(self.run_id, "run id")?,
            number: unsigned(self.run_number)?,
            name: read::<TypeName>(self.workflow_type, "name")?,
            queue: read::<Queue>(self.queue, "queue")?,
            build: some::<BuildId>(self.compatibility, "build id")?,
            status,
            wait,
            history_length: unsigned(self.history_length)?,
            inbox_seq: unsigned(self.inbox_seq)?,
            started_at: Timestamp::from_micros(self.started_at),
            closed_at: self.closed_at.map(Timestamp::from_micros),
            closed,
            parent: some(self.parent_run_id, "run id")?,
        })
    }
}

impl TaskRow {
    /// The workflow task of `run`, ready at `available_at`. Its epoch goes on from the last one.
    pub(super) fn workflow(run: &RunRow, available_at: i64, now: i64) -> Self {
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
        }
    }

    /// The task of a new activity of `run`.
    pub(super) fn activity(run: &RunRow, new: &NewActivity, now: i64) -> Self {
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

    pub(super) fn is(&self, status: TaskStatus) -> bool {
        self.status == status.as_str()
    }

    pub(super) fn is_activity(&self) -> bool {
        self.task_type == TaskKind::Activity.as_str()
    }

    /// Begins an attempt.
    pub(super) fn lease(&mut self, lease: &Lease, now: i64) {
        TaskStatus::Leased.as_str().clone_into(&mut self.status);
        self.lease_owner = Some(lease.owner.to_string());
        self.lease_epoch += 1;
        self.attempt_count += 1;
        self.leased_at = Some(now);
        let until = Timestamp::from_micros(now).plus(lease.ttl);
        self.lease_expires_at = Some(until.as_micros());
        self.started_at = Some(now);
        self.heartbeat_at = Some(now);
        self.deadline_at = self.deadline();
    }

    /// Ends the lease, if there is one; the attempt is over.
    pub(super) fn free(&mut self, status: TaskStatus, available_at: i64) {
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
    pub(super) fn deadline(&self) -> i64 {
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
    pub(super) fn task(self) -> Result<Task> {
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
    pub(super) fn claimed(mut self, scheduled: Option<Record>) -> Result<ClaimedTask> {
        let progress = payload(self.heartbeat_codec.take(), self.heartbeat_payload.take());
        Ok(ClaimedTask {
            task: self.task()?,
            scheduled,
            progress,
        })
    }

    /// The task with all that ends it.
    pub(super) fn overdue(self, scheduled: Record, now: i64) -> Result<Overdue> {
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
    pub(super) fn open(self) -> Result<OpenTask> {
        Ok(OpenTask {
            kind: self.kind()?,
            task: read(self.task_id, "task id")?,
            name: read(self.name, "name")?,
            status: self.status,
            available_at: Timestamp::from_micros(self.available_at),
            owner: self.lease_owner,
            attempt: unsigned(self.attempt_count)?,
            recoveries: unsigned(self.recover_count)?,
            blocked: self.blocked_reason,
            last_error: self.last_error,
        })
    }
}

impl RecordRow {
    /// `record` as number `seq` of `run`.
    pub(super) fn new(run: &str, seq: i64, record: &Record) -> Self {
        let payload = record.payload.as_ref();
        Self {
            run_id: run.to_owned(),
            seq,
            kind: record.kind.clone(),
            step_seq: record.step.map(signed),
            at: record.at.as_micros(),
            details: record.details.clone(),
            codec: payload.map(|payload| payload.codec.to_string()),
            payload: payload.map(|payload| payload.bytes.to_vec()),
        }
    }

    pub(super) fn record(self) -> Result<Record> {
        Ok(Record {
            seq: unsigned(self.seq)?,
            at: Timestamp::from_micros(self.at),
            step: self.step_seq.map(unsigned).transpose()?,
            kind: self.kind,
            details: self.details,
            payload: payload(self.codec, self.payload),
        })
    }
}

impl AttemptRow {
    pub(super) fn new(attempt: &Attempt) -> Result<Self> {
        Ok(Self {
            attempt_id: attempt.id.to_string(),
            task_id: attempt.task.to_string(),
            run_id: attempt.run.to_string(),
            attempt: i32::try_from(attempt.number).unwrap_or(i32::MAX),
            lease_owner: attempt.owner.as_ref().map(ToString::to_string),
            outcome: attempt.end.as_str().to_owned(),
            failure: failure_text(&attempt.failure)?,
            ended_at: attempt.ended_at.as_micros(),
        })
    }

    pub(super) fn attempt(self) -> Result<Attempt> {
        let end = [AttemptEnd::Failed, AttemptEnd::TimedOut]
            .into_iter()
            .find(|end| end.as_str() == self.outcome);
        Ok(Attempt {
            id: read(self.attempt_id, "attempt id")?,
            task: read(self.task_id, "task id")?,
            run: read(self.run_id, "run id")?,
            number: unsigned(self.attempt)?,
            owner: some(self.lease_owner, "owner id")?,
            end: end
                .ok_or_else(|| Error::corrupt("reading an attempt: its end is none of ours"))?,
            failure: failure_of(Some(self.failure))?,
            ended_at: Timestamp::from_micros(self.ended_at),
        })
    }
}

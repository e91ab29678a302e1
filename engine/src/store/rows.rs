//! Rows as the tables hold them: what every dialect reads and writes.

mod archive;
mod census;
mod marks;
mod namespaces;
mod owner;
mod retention;
mod run;
mod schedule;
mod survey;
mod task;
mod workers;

use std::time::Duration;

use coord_core::{Error, Result};

use crate::model::{Attempt, AttemptEnd, Failure, Fairness, Payload, Record, Timestamp, micros};

pub(super) use archive::{ArchiveRow, ClosedRow, is_whole};
pub(super) use census::{
    CensusRows, SCHEMA, census_of_nodes, census_of_schedules, census_of_tasks, role_keys,
};
pub(super) use marks::{AttributeRow, MemoRow, integer};
pub(super) use namespaces::NamespaceRow;
pub(super) use owner::{OwnerRow, owner_columns};
pub(super) use retention::{DueRow, TenantRow};
pub(super) use schedule::{
    FireRow, OpenRow, RevisionRow, ScheduleRow, Seen, schedule_columns, schedule_page,
};
pub(super) use survey::{
    MINUTE_US, SurveyRows, survey_namespaces, survey_of_archives, survey_of_closed, survey_of_ends,
    survey_of_nodes, survey_of_open, survey_of_starts,
};
pub(super) use workers::{
    BacklogRows, EndingRow, OpenRunsRow, WorkerRow, backlogs_of_tasks, backlogs_paid,
    backlogs_under_way,
};

/// An instant or a span that is not set: so the earliest of several is the least of them.
pub(super) const NEVER: i64 = Timestamp::NEVER.as_micros();

/// The columns of [`RunRow`].
macro_rules! run_columns {
    () => {
        "run_id, namespace, workflow_id, run_number, workflow_type, queue, priority, compatibility, \
         status, wait_reason, closed_reason, history_length, inbox_seq, inbox_drained, turn_epoch, \
         parent_run_id, parent_step_seq, parent_close, continued_to, started_at, updated_at, \
         closed_at, output_codec, output, failure, buffered_signals, fairness_key, fairness_weight, fingerprint"
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
         schedule_to_start_at, schedule_to_close_at, start_to_close_us, heartbeat_us, deadline_at, \
         fairness_key, fairness_weight"
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
    pub(super) buffered_signals: i64,
    /// Empty for none.
    pub(super) fairness_key: String,
    pub(super) fairness_weight: i16,
    pub(super) fingerprint: Option<String>,
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
    /// Empty for none.
    pub(super) fairness_key: String,
    pub(super) fairness_weight: i16,
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

/// The columns of a share: an empty key is that of those who have none.
pub(super) fn of_fairness(fairness: Option<&Fairness>) -> (&str, i16) {
    fairness.map_or(("", 1), |fairness| {
        // At most a thousand.
        let weight = i16::try_from(fairness.weight.get()).unwrap_or(i16::MAX);
        (fairness.key.as_str(), weight)
    })
}

pub(super) fn span_us(span: Option<Duration>) -> i64 {
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

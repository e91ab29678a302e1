//! A run as the wire shows it.

use coord_core::Result;
use coord_engine::client::Untyped;
use coord_engine::model::{Closed, EventKind, Failure, Run, RunStatus};
use coord_engine::store::{Description, OpenTask};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::envelope::{self, CODEC, Envelope};
use super::instant::shown;

/// A run in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct RunItem {
    namespace: String,
    workflow_id: String,
    run_id: String,
    run_number: u32,
    workflow_type: String,
    task_queue: String,
    /// `pending`, `running`, `waiting`, `completed`, `failed`, `cancelled` or `terminated`.
    status: &'static str,
    /// `running`, `completed` or `failed`.
    status_bucket: &'static str,
    is_terminal: bool,
    /// How it closed, finer than the status: also `timed_out` and `continued_as_new`.
    closed_reason: Option<&'static str>,
    /// What it waits for.
    wait_kind: Option<&'static str>,
    payload_codec: &'static str,
    history_length: u64,
    started_at: Option<String>,
    closed_at: Option<String>,
}

impl RunItem {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            namespace: run.namespace.to_string(),
            workflow_id: run.workflow.to_string(),
            run_id: run.run.to_string(),
            run_number: run.number,
            workflow_type: run.name.to_string(),
            task_queue: run.queue.to_string(),
            status: run.status.as_str(),
            status_bucket: bucket(run.status),
            is_terminal: !run.status.is_open(),
            closed_reason: run.closed.as_ref().map(Closed::reason),
            wait_kind: run.wait.map(coord_engine::model::Wait::as_str),
            payload_codec: CODEC,
            history_length: run.history_length,
            started_at: shown(run.started_at),
            closed_at: run.closed_at.and_then(shown),
        }
    }
}

/// The coarse state that lists are coloured by.
pub(super) const fn bucket(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => "running",
        RunStatus::Completed => "completed",
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::Terminated => "failed",
    }
}

/// A run, and why it does or does not move.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDetail {
    #[serde(flatten)]
    run: RunItem,
    /// Whether no later run of the workflow goes on from it.
    is_current_run: bool,
    /// What it was given, as a list of arguments.
    input: Value,
    input_envelope: Envelope,
    /// What it returned; `null` while it has not.
    output: Value,
    output_envelope: Option<Envelope>,
    /// What it failed with, in a sentence.
    error: Option<String>,
    /// What it failed with.
    failure: Option<Value>,
    /// When all runs of the workflow must have ended.
    execution_deadline_at: Option<String>,
    memo: Map<String, Value>,
    search_attributes: Map<String, Value>,
    /// The tasks that it waits for: its own first, then its activities.
    tasks: Vec<TaskItem>,
}

impl RunDetail {
    /// Reads the run's input beside its description.
    pub(super) async fn read(
        client: &Untyped,
        described: Description,
        is_current_run: bool,
    ) -> Result<Self> {
        let run = described.run;
        let first = client.events(&run.run, 0, 1).await?;
        let first = first.and_then(|(_, events)| events.into_iter().next());
        let input = first.as_ref().and_then(|event| event.payload.as_ref());
        let input = envelope::arguments(client.decode(input)?);
        let deadline = first.and_then(|event| match event.kind {
            EventKind::Started(started) => started.execution_deadline_at,
            _ => None,
        });
        let output = match &run.closed {
            Some(Closed::Completed(output)) => Some(client.decode(Some(output))?),
            _ => None,
        };
        let failure = run.closed.as_ref().and_then(failure);
        Ok(Self {
            run: RunItem::of(&run),
            is_current_run,
            input_envelope: Envelope::of(&input),
            input,
            output_envelope: output.as_ref().map(Envelope::of),
            output: output.unwrap_or_default(),
            error: failure.map(|failure| failure.message.clone()),
            failure: failure.map(shown_failure),
            execution_deadline_at: deadline.and_then(shown),
            memo: described.memo,
            search_attributes: super::attributes::shown(&described.attributes),
            tasks: described.tasks.iter().map(TaskItem::of).collect(),
        })
    }
}

const fn failure(closed: &Closed) -> Option<&Failure> {
    match closed {
        Closed::Failed(failure)
        | Closed::Cancelled(failure)
        | Closed::Terminated(failure)
        | Closed::TimedOut(failure) => Some(failure),
        Closed::Completed(_) | Closed::ContinuedAsNew(_) => None,
    }
}

/// A failure as it is stored, with its sort under the name that the published SDKs read.
pub(super) fn shown_failure(failure: &Failure) -> Value {
    let mut shown = serde_json::to_value(failure).unwrap_or_default();
    if let Value::Object(fields) = &mut shown {
        fields.insert("exception_type".to_owned(), failure.kind.clone().into());
        fields.insert("exception_class".to_owned(), failure.kind.clone().into());
    }
    shown
}

/// A task that is open.
#[derive(Serialize, ToSchema)]
pub(super) struct TaskItem {
    task_id: String,
    /// `workflow` or `activity`.
    task_type: &'static str,
    /// The type of the workflow or of the activity.
    name: String,
    /// `ready`, `leased` or `blocked`.
    status: String,
    available_at: Option<String>,
    lease_owner: Option<String>,
    attempt_count: u32,
    /// How often it was taken back from an owner that was lost.
    repair_count: u32,
    /// Why it is set aside.
    blocked_reason: Option<String>,
    last_error: Option<String>,
}

impl TaskItem {
    fn of(task: &OpenTask) -> Self {
        Self {
            task_id: task.task.to_string(),
            task_type: task.kind.as_str(),
            name: task.name.to_string(),
            status: task.status.clone(),
            available_at: shown(task.available_at),
            lease_owner: task.owner.clone(),
            attempt_count: task.attempt,
            repair_count: task.recoveries,
            blocked_reason: task.blocked.clone(),
            last_error: task.last_error.clone(),
        }
    }
}

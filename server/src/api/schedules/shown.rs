//! A schedule as the wire shows it.

use std::time::Duration;

use coord_core::Result;
use coord_engine::client::Untyped;
use coord_engine::model::{Action, Fired, Overlap, ScheduleRecord, When};
use coord_engine::store::ScheduleDescription;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::definition::{Interval, Spec};
use crate::api::envelope::{self, Envelope};
use crate::api::instant::shown;

/// A schedule, and where it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct ScheduleItem {
    namespace: String,
    schedule_id: String,
    /// `active` or `paused`.
    status: &'static str,
    paused: bool,
    workflow_type: String,
    spec: Spec,
    action: ActionItem,
    /// What happens while a workflow that it started is open.
    overlap_policy: Value,
    jitter_seconds: u64,
    max_runs: Option<u64>,
    /// How often it still fires by itself.
    remaining_actions: Option<u64>,
    note: String,
    memo: Map<String, Value>,
    /// How often it fired, for whatever cause.
    fires_count: u64,
    /// How many occurrences were too late to fire.
    missed_count: u64,
    /// How many occurrences did not fire because others were open.
    skipped_count: u64,
    /// How many occurrences wait for others to end.
    buffered_actions: usize,
    /// When it fires by itself next.
    next_fire_at: Option<String>,
    last_fired_at: Option<String>,
    latest_workflow_instance_id: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

/// What a schedule starts.
#[derive(Serialize, ToSchema)]
struct ActionItem {
    workflow_type: String,
    task_queue: String,
    input: Value,
    input_envelope: Envelope,
    execution_timeout_seconds: Option<u64>,
}

impl ScheduleItem {
    /// `record`, with what it fired last where that was read.
    pub(super) fn of(
        client: &Untyped,
        record: &ScheduleRecord,
        last: Option<&Fired>,
    ) -> Result<Self> {
        let (schedule, state) = (&record.schedule, &record.state);
        Ok(Self {
            namespace: record.namespace.to_string(),
            schedule_id: record.id.to_string(),
            status: if state.paused { "paused" } else { "active" },
            paused: state.paused,
            workflow_type: schedule.action.name.to_string(),
            spec: spec(&schedule.when),
            action: action(client, &schedule.action)?,
            overlap_policy: word(schedule.overlap),
            jitter_seconds: schedule.jitter.as_secs(),
            max_runs: schedule.limit,
            remaining_actions: state.left,
            note: state.note.clone(),
            memo: schedule.action.memo.clone(),
            fires_count: state.fires,
            missed_count: state.missed,
            skipped_count: state.skipped,
            buffered_actions: state.buffered.len(),
            next_fire_at: shown(record.next_fire_at),
            last_fired_at: last.and_then(|fired| shown(fired.fired_at)),
            latest_workflow_instance_id: last.map(|fired| fired.workflow.to_string()),
            created_at: shown(record.created_at),
            updated_at: shown(record.updated_at),
        })
    }
}

fn word(overlap: Overlap) -> Value {
    serde_json::to_value(overlap).unwrap_or_default()
}

fn spec(when: &When) -> Spec {
    let mut spec = Spec {
        cron_expressions: Vec::new(),
        intervals: Vec::new(),
        timezone: None,
    };
    match when {
        When::Cron { expression, zone } => {
            spec.cron_expressions.push(expression.clone());
            spec.timezone = Some(zone.clone());
        }
        When::Every { interval, offset } => spec.intervals.push(Interval {
            every: span(*interval),
            offset: Some(*offset).filter(|it| !it.is_zero()).map(span),
        }),
    }
    spec
}

/// As ISO 8601 has it.
fn span(span: Duration) -> String {
    let span = jiff::SignedDuration::try_from(span).unwrap_or(jiff::SignedDuration::MAX);
    span.to_string()
}

fn action(client: &Untyped, action: &Action) -> Result<ActionItem> {
    let input = envelope::arguments(client.decode(Some(&action.input))?);
    Ok(ActionItem {
        workflow_type: action.name.to_string(),
        task_queue: action.queue.to_string(),
        input_envelope: Envelope::of(&input),
        input,
        execution_timeout_seconds: action.within.map(|span| span.as_secs()),
    })
}

/// An occurrence that fired.
#[derive(Serialize, ToSchema)]
pub(super) struct FireItem {
    /// Its number among all fires of the schedule.
    pub(super) sequence: u64,
    /// Always `ScheduleTriggered`.
    event_type: &'static str,
    recorded_at: Option<String>,
    workflow_instance_id: String,
    workflow_run_id: String,
    payload: FirePayload,
}

/// Which occurrence it was.
#[derive(Serialize, ToSchema)]
struct FirePayload {
    occurrence_time: Option<String>,
    /// `schedule`, `trigger` or `backfill`.
    cause: &'static str,
}

/// The fires that are kept, the oldest first.
pub(super) fn fires(described: &ScheduleDescription) -> Vec<FireItem> {
    let total = described.record.state.fires;
    let numbered = described.fires.iter().zip(0..);
    let mut items: Vec<_> = numbered
        .map(|(fired, back)| FireItem {
            sequence: total.saturating_sub(back),
            event_type: "ScheduleTriggered",
            recorded_at: shown(fired.fired_at),
            workflow_instance_id: fired.workflow.to_string(),
            workflow_run_id: fired.run.to_string(),
            payload: FirePayload {
                occurrence_time: shown(fired.at),
                cause: fired.cause.as_str(),
            },
        })
        .collect();
    items.reverse();
    items
}

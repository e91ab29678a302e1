//! What a schedule is to do, as callers send it.

use std::time::Duration;

use coord_engine::client::Untyped;
use coord_engine::model::{Action, Overlap, Priority, Queue, Schedule, TypeName, When};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::envelope::{self, Arguments};
use crate::api::instant::read_span;
use crate::api::problem::Problem;
use crate::api::workflows::named;

/// When a schedule fires: by one cron expression, or by one interval.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct Spec {
    /// Five fields, or six with seconds in front. One.
    #[serde(default)]
    pub(super) cron_expressions: Vec<String>,
    /// One.
    #[serde(default)]
    pub(super) intervals: Vec<Interval>,
    /// The IANA name of the clocks of a cron expression. Default: `UTC`.
    pub(super) timezone: Option<String>,
}

/// A fixed interval, counted from 1970 in UTC.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct Interval {
    /// The interval, such as `90s`, `1h 30m` or `PT90S`.
    pub(super) every: String,
    /// By how much all occurrences are later than its multiples.
    pub(super) offset: Option<String>,
}

impl Spec {
    fn when(&self) -> Result<When, Problem> {
        let when = match (self.cron_expressions.as_slice(), self.intervals.as_slice()) {
            ([expression], []) => When::cron(expression, self.timezone.as_deref().unwrap_or("UTC")),
            ([], [interval]) => When::Every {
                interval: read_span("spec.intervals.every", &interval.every)?,
                offset: match &interval.offset {
                    Some(offset) => read_span("spec.intervals.offset", offset)?,
                    None => Duration::ZERO,
                },
            },
            _ => {
                let why = "it has one cron expression or one interval; another one is another \
                           schedule";
                return Err(Problem::field("spec", why));
            }
        };
        when.calendar()
            .map_err(|error| Problem::field("spec", error.message()))?;
        Ok(when)
    }
}

/// What a schedule starts.
#[derive(Deserialize, ToSchema)]
pub(super) struct ActionInput {
    /// The name of the workflow, as workers know it.
    workflow_type: String,
    /// Where its tasks wait. Default: `default`.
    task_queue: Option<String>,
    /// Its arguments.
    input: Option<Arguments>,
    /// How long a workflow may take, with all runs that it continues as. Default: without a bound.
    #[schema(minimum = 1)]
    execution_timeout_seconds: Option<u64>,
}

impl ActionInput {
    fn action(self, client: &Untyped, memo: Map<String, Value>) -> Result<Action, Problem> {
        if self.execution_timeout_seconds == Some(0) {
            let why = "it is a second at least";
            return Err(Problem::field("action.execution_timeout_seconds", why));
        }
        Ok(Action {
            name: named("action.workflow_type", TypeName::new(self.workflow_type))?,
            queue: match self.task_queue {
                Some(queue) => named("action.task_queue", Queue::new(queue))?,
                None => Queue::default(),
            },
            priority: Priority::default(),
            fairness: None,
            within: self.execution_timeout_seconds.map(Duration::from_secs),
            memo,
            input: client.encode(&envelope::value(self.input)?)?,
        })
    }
}

/// A schedule to be created.
#[derive(Deserialize, ToSchema)]
pub(super) struct Create {
    /// What it is called. Default: something that is made up.
    pub(super) schedule_id: Option<String>,
    spec: Spec,
    action: ActionInput,
    /// What happens while a workflow that it started is open: `skip`, the default, `buffer_one`,
    /// `buffer_all`, `allow_all`, `cancel_other` or `terminate_other`.
    overlap_policy: Option<String>,
    /// Up to how much later than it is due an occurrence fires. Default: not at all.
    jitter_seconds: Option<u32>,
    /// How often it fires by itself. Default: without a bound.
    max_runs: Option<u64>,
    /// What describes its workflows to people.
    memo: Option<Map<String, Value>>,
    /// Whether it fires nothing by itself until it is resumed.
    #[serde(default)]
    pub(super) paused: bool,
    /// Why it is paused.
    pub(super) note: Option<String>,
}

impl Create {
    /// What it is to do.
    pub(super) fn schedule(self, client: &Untyped) -> Result<Schedule, Problem> {
        let memo = self.memo.unwrap_or_default();
        let action = self.action.action(client, memo)?;
        let mut schedule = Schedule::new(self.spec.when()?, action);
        if let Some(policy) = &self.overlap_policy {
            schedule.overlap = overlap(policy)?;
        }
        schedule.jitter = Duration::from_secs(self.jitter_seconds.unwrap_or_default().into());
        schedule.limit = self.max_runs;
        Ok(schedule)
    }
}

/// What of a schedule is to be otherwise.
#[derive(Deserialize, ToSchema)]
pub(super) struct Change {
    spec: Option<Spec>,
    action: Option<ActionInput>,
    overlap_policy: Option<String>,
    jitter_seconds: Option<u32>,
    /// How often it fires by itself from now on.
    max_runs: Option<u64>,
    memo: Option<Map<String, Value>>,
}

impl Change {
    /// `schedule` with it.
    pub(super) fn of(self, client: &Untyped, mut schedule: Schedule) -> Result<Schedule, Problem> {
        if let Some(spec) = self.spec {
            schedule.when = spec.when()?;
        }
        if let Some(action) = self.action {
            schedule.action = action.action(client, schedule.action.memo)?;
        }
        if let Some(memo) = self.memo {
            schedule.action.memo = memo;
        }
        if let Some(policy) = &self.overlap_policy {
            schedule.overlap = overlap(policy)?;
        }
        if let Some(seconds) = self.jitter_seconds {
            schedule.jitter = Duration::from_secs(seconds.into());
        }
        if self.max_runs.is_some() {
            schedule.limit = self.max_runs;
        }
        Ok(schedule)
    }
}

/// The policy that `word` names.
pub(super) fn overlap(word: &str) -> Result<Overlap, Problem> {
    serde_json::from_value(Value::from(word)).map_err(|_| {
        let why = "it is skip, buffer_one, buffer_all, allow_all, cancel_other or terminate_other";
        Problem::field("overlap_policy", why)
    })
}

//! Schedules: when to start which workflow, again and again.

use std::time::Duration;

use coord_core::{Calendar, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::time::span;
use super::{
    Fairness, Namespace, Payload, Priority, Queue, RunId, ScheduleId, Timestamp, TypeName,
    WorkflowId,
};

/// The shortest interval: the scheduler looks once a second.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest id in bytes: the ids of the workflows that it starts add an instant to it.
const MAX_ID: usize = 200;
/// How late an occurrence may still fire unless the schedule says otherwise: longer than a failover
/// or a deploy, shorter than what would surprise whoever comes back to a system that was down.
const CATCH_UP: Duration = Duration::from_hours(1);

/// When to start which workflow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Its occurrences.
    pub when: When,
    /// No occurrence before this instant.
    pub from: Option<Timestamp>,
    /// No occurrence at or after this instant.
    pub until: Option<Timestamp>,
    /// An occurrence fires up to so much later than it is due, but before the next one. How much
    /// follows from the schedule's id and the occurrence. Default: none.
    #[serde(with = "span")]
    pub jitter: Duration,
    /// How often it fires by itself. Default: without a bound.
    pub limit: Option<u64>,
    /// What happens when a workflow that it started is still open. Default: [`Overlap::Skip`].
    pub overlap: Overlap,
    /// How late an occurrence may still fire, when nobody was there to fire it. Later ones count as
    /// missed. Default: an hour.
    #[serde(with = "span")]
    pub catch_up: Duration,
    /// What it starts.
    pub action: Action,
}

/// The occurrences of a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// By a cron expression on the clocks of a time zone.
    Cron {
        /// Five fields, or six with seconds in front.
        expression: String,
        /// An IANA name, such as `Europe/Berlin` or `UTC`.
        zone: String,
    },
    /// At a fixed interval, counted from 1970 in UTC.
    Every {
        /// The interval, from 1 s to 366 days.
        #[serde(with = "span")]
        interval: Duration,
        /// By how much all occurrences are later than the multiples of the interval.
        #[serde(with = "span")]
        offset: Duration,
    },
}

/// What a schedule starts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Action {
    /// The type of the workflow.
    pub name: TypeName,
    /// Where its tasks wait.
    pub queue: Queue,
    /// Which of two due tasks goes first.
    pub priority: Priority,
    /// Whose share of the queue it counts against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// How long a workflow may take, with all runs that it continues as.
    #[serde(with = "span::option")]
    pub within: Option<Duration>,
    /// What describes it to people.
    pub memo: Map<String, Value>,
    /// What each of them is given. Stored beside, as all values are.
    #[serde(skip, default = "nothing")]
    pub input: Payload,
}

fn nothing() -> Payload {
    Payload {
        codec: super::JSON.into(),
        bytes: b"null".as_slice().into(),
    }
}

/// What happens to an occurrence while a workflow that the schedule started is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It does not fire. The default: work that takes longer than planned does not pile up.
    #[default]
    Skip,
    /// It fires when that one has ended. Only one waits; the others do not fire.
    BufferOne,
    /// It fires when that one, and all that wait before it, have ended. At most 1000 wait; beyond
    /// that they do not fire.
    BufferAll,
    /// It fires.
    AllowAll,
    /// The open one is asked to end, and it fires when that has happened; whichever comes meanwhile
    /// takes its place.
    CancelOther,
    /// The open one is ended, and it fires.
    TerminateOther,
}

/// Which occurrence of which schedule started a workflow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The instant, as the schedule has it: without jitter, and however late it fired.
    pub at: Timestamp,
}

/// Why something fires.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was due.
    Schedule,
    /// Somebody asked for it now.
    Trigger,
    /// Somebody asked for the occurrences of a span.
    Backfill,
}

impl Cause {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Trigger => "trigger",
            Self::Backfill => "backfill",
        }
    }

    /// The cause whose word is `text`.
    pub fn from_word(text: &str) -> Option<Self> {
        [Self::Schedule, Self::Trigger, Self::Backfill]
            .into_iter()
            .find(|cause| cause.as_str() == text)
    }
}

/// An occurrence that waits for others to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buffered {
    /// Its instant.
    pub at: Timestamp,
    /// Why it fires.
    pub cause: Cause,
}

/// A span whose occurrences are to fire, from what is not decided yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backfill {
    /// The occurrences up to here are decided.
    pub decided: Timestamp,
    /// No occurrence at or after this instant.
    pub until: Timestamp,
    /// What happens while another one is open.
    pub overlap: Overlap,
}

/// Where a schedule stands.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScheduleState {
    /// The number of its definition: one more with each update.
    pub version: u64,
    /// Whether nothing fires by itself.
    pub paused: bool,
    /// Why it is paused or goes on, for people.
    pub note: String,
    /// Its own occurrences up to here are decided.
    pub decided: Timestamp,
    /// How often it still fires by itself; `None` without a bound.
    pub left: Option<u64>,
    /// The occurrences whose workflows were open when it was last looked at, the latest 100.
    pub running: Vec<Timestamp>,
    /// The occurrences that wait for others to end, in their order.
    pub buffered: Vec<Buffered>,
    /// The spans that are still to be made up.
    pub backfills: Vec<Backfill>,
    /// The instant of the last trigger.
    pub triggered: Timestamp,
    /// How often it fired, for whatever cause.
    pub fires: u64,
    /// How many occurrences were too late to fire.
    pub missed: u64,
    /// How many occurrences did not fire because others were open.
    pub skipped: u64,
}

/// A schedule as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleRecord {
    /// The tenant.
    pub namespace: Namespace,
    /// What the caller calls it.
    pub id: ScheduleId,
    /// One more with each write: what a write compares.
    pub revision: u64,
    /// What it does, and when.
    pub schedule: Schedule,
    /// Where it stands.
    pub state: ScheduleState,
    /// When it fires by itself next, with jitter; [`Timestamp::NEVER`] when it does not.
    pub next_fire_at: Timestamp,
    /// When it is to be looked at next; zero while something waits for a workflow to end.
    pub look_at: Timestamp,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// An occurrence that fired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fired {
    /// Its instant.
    pub at: Timestamp,
    /// Why it fired.
    pub cause: Cause,
    /// The workflow that it started.
    pub workflow: WorkflowId,
    /// The first run of that workflow.
    pub run: RunId,
    /// When it was started.
    pub fired_at: Timestamp,
}

impl Schedule {
    /// A schedule that starts `action` at the occurrences of `when`, with every other value at its
    /// default.
    pub const fn new(when: When, action: Action) -> Self {
        Self {
            when,
            from: None,
            until: None,
            jitter: Duration::ZERO,
            limit: None,
            overlap: Overlap::Skip,
            catch_up: CATCH_UP,
            action,
        }
    }
}

impl When {
    /// By a cron `expression` on the clocks of `zone`. [`Calendar::cron`] says how it is read, and
    /// what happens where clocks change.
    pub fn cron(expression: impl Into<String>, zone: impl Into<String>) -> Self {
        Self::Cron {
            expression: expression.into(),
            zone: zone.into(),
        }
    }

    /// At each multiple of `interval` since 1970 in UTC.
    pub const fn every(interval: Duration) -> Self {
        Self::Every {
            interval,
            offset: Duration::ZERO,
        }
    }

    /// The instants.
    ///
    /// # Errors
    /// `Invalid` for an expression that cannot be read or never comes true, for a zone that is not
    /// known here, and for an interval outside of 1 s to 366 days.
    pub fn calendar(&self) -> Result<Calendar> {
        match self {
            Self::Cron { expression, zone } => Calendar::cron(expression, zone),
            Self::Every { interval, .. } if *interval < SHORTEST => Err(Error::invalid(format!(
                "a schedule with an interval of {interval:?}: less than a second"
            ))),
            Self::Every { interval, offset } => Calendar::every(*interval, *offset),
        }
    }
}

impl ScheduleId {
    /// The workflow that `at` starts: `nightly@2030-03-31T01:00:00Z`.
    ///
    /// Made by rule, so that whoever fires an occurrence starts the same workflow.
    ///
    /// # Errors
    /// `Invalid` when this id has more than 200 bytes.
    pub fn workflow(&self, at: Timestamp) -> Result<WorkflowId> {
        if self.as_str().len() > MAX_ID {
            let length = self.as_str().len();
            let message = format!("a schedule id has {length} bytes, more than {MAX_ID}");
            return Err(Error::invalid(message));
        }
        let instant = Calendar::text(at.as_micros().div_euclid(1000));
        WorkflowId::new(format!("{self}@{instant}"))
    }
}

impl ScheduleRecord {
    /// The workflow that the occurrence `at` starts.
    ///
    /// # Errors
    /// `Invalid` when the schedule's id is too long.
    pub fn workflow(&self, at: Timestamp) -> Result<WorkflowId> {
        self.id.workflow(at)
    }
}

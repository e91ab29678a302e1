//! The shape of the snapshot: what operators read, as it is shown.

use std::time::Duration;

use coord_core::Calendar;
use serde::{Serialize, Serializer};

use super::figures::Figures;
use super::refused::{RefusalSection, RefusedShown};
use crate::model::Timestamp;

pub(super) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn rfc3339(at: Timestamp) -> Option<String> {
    let is_instant = at.comes() && at > Timestamp::default();
    is_instant.then(|| Calendar::text(at.as_micros().div_euclid(1000)))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde gives a reference to the field"
)]
pub(super) fn instant<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    rfc3339(*at).serialize(to)
}

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(super) fn some_instant<S: Serializer>(
    at: &Option<Timestamp>,
    to: S,
) -> Result<S::Ok, S::Error> {
    at.and_then(rfc3339).serialize(to)
}

/// What operators read. See the [module](super).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The database's clock.
    #[serde(serialize_with = "instant")]
    pub at: Timestamp,
    /// Whether there was more of something than is counted.
    pub is_capped: bool,
    /// Runs.
    pub runs: RunSection,
    /// Open tasks of both kinds.
    pub tasks: TaskSection,
    /// Open tasks of activities.
    pub activities: ActivitySection,
    /// What there is to do, and how fast it is done.
    pub backlog: BacklogSection,
    /// What is to be mended.
    pub repair: RepairSection,
    /// How soon that is.
    pub repair_policy: RepairPolicy,
    /// Schedules.
    pub schedules: ScheduleSection,
    /// Workers.
    pub workers: WorkerSection,
    /// Open tasks, by namespace, queue and kind.
    pub queues: Vec<QueueSection>,
    /// Tasks that may be claimed and are not, by every reason that there is.
    pub refusals: Vec<RefusalSection>,
    /// The same by queue, type and build, those first that have waited for the longest time; at
    /// most a hundred.
    pub refused: Vec<RefusedShown>,
    /// Processes that count as alive.
    pub nodes: Vec<NodeSection>,
    /// What all of them did in the last minute.
    pub fleet: Figures,
    /// What one process at a time does for all.
    pub roles: Vec<RoleSection>,
    /// Namespaces that have runs, and how long their closed ones are kept.
    pub namespaces: Vec<NamespaceSection>,
    /// Whether hints pass between processes, as the one that was asked sees it: `healthy`,
    /// `degraded`, or `alone` when nothing carries any.
    pub acceleration: &'static str,
    /// How that process learns of tasks: `poll`, `queue`, or `queue_degraded` when tasks are to be
    /// handed over and are not.
    pub task_dispatch_mode: &'static str,
}

/// Runs: those that are open, and the closed ones that are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RunSection {
    /// All of them.
    pub total: u64,
    /// Those that have not ended.
    pub open: u64,
    /// Those of them that nobody has begun.
    pub pending: u64,
    /// Those that have something to do.
    pub running: u64,
    /// Those that wait.
    pub waiting: u64,
    /// Those that ended with an output.
    pub completed: u64,
    /// Those that ended with a failure.
    pub failed: u64,
    /// Those that ended as they were asked to.
    pub cancelled: u64,
    /// Those that were ended from outside.
    pub terminated: u64,
    /// Those whose time was over.
    pub timed_out: u64,
    /// Those that went on as another run.
    pub continued_as_new: u64,
    /// Closed ones whose history is kept elsewhere.
    pub archived: u64,
    /// When the first of the open ones was started.
    #[serde(serialize_with = "some_instant")]
    pub oldest_open_started_at: Option<Timestamp>,
    /// How long ago that is.
    pub max_open_age_ms: u64,
    /// Since when the one waits that has waited for the longest time.
    #[serde(serialize_with = "some_instant")]
    pub oldest_wait_started_at: Option<Timestamp>,
    /// For how long that is.
    pub max_wait_age_ms: u64,
    /// Open ones that lack the task without which they stand.
    pub repair_needed: u64,
    /// Since when the first of them does, at the latest.
    #[serde(serialize_with = "some_instant")]
    pub oldest_repair_needed_at: Option<Timestamp>,
    /// For how long that is.
    pub max_repair_needed_age_ms: u64,
    /// Those whose last turn failed, and is tried again.
    pub claim_failed: u64,
    /// Those that wait for a worker that supports their build.
    pub compatibility_blocked: u64,
    /// Those that are set aside, since their code goes another way than their history.
    pub blocked_replay: u64,
    /// Those that are set aside, since they took their processes down.
    pub blocked_poison: u64,
    /// Those that were imported and not resumed.
    pub blocked_imported: u64,
    /// Since when the first of those is set aside.
    #[serde(serialize_with = "some_instant")]
    pub oldest_blocked_at: Option<Timestamp>,
    /// For how long that is.
    pub max_blocked_age_ms: u64,
    /// How many were started in the last minute.
    pub started_last_minute: u64,
    /// How many were closed in the last minute.
    pub closed_last_minute: u64,
    /// How many of these ended with an output.
    pub completed_last_minute: u64,
    /// How many of these ended with a failure.
    pub failed_last_minute: u64,
}

/// Open tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TaskSection {
    /// All of them.
    pub open: u64,
    /// To be claimed, now or later.
    pub ready: u64,
    /// To be claimed now.
    pub ready_due: u64,
    /// Since when the first of these has been due.
    #[serde(serialize_with = "some_instant")]
    pub oldest_ready_due_at: Option<Timestamp>,
    /// For how long that is.
    pub max_ready_due_age_ms: u64,
    /// To be claimed later, such as timers and retries.
    pub delayed: u64,
    /// Under way.
    pub leased: u64,
    /// Since when the longest of these is.
    #[serde(serialize_with = "some_instant")]
    pub oldest_leased_at: Option<Timestamp>,
    /// For how long that is.
    pub max_leased_age_ms: u64,
    /// Under way by a lease that has ended.
    pub lease_expired: u64,
    /// Since when the first of these has.
    #[serde(serialize_with = "some_instant")]
    pub oldest_lease_expired_at: Option<Timestamp>,
    /// For how long that is.
    pub max_lease_expired_age_ms: u64,
    /// To be claimed again after something went wrong.
    pub claim_failed: u64,
    /// When the oldest of these was made.
    #[serde(serialize_with = "some_instant")]
    pub oldest_claim_failed_at: Option<Timestamp>,
    /// How long ago that is.
    pub max_claim_failed_age_ms: u64,
    /// Set aside.
    pub blocked: u64,
    /// With an ended lease, past their time, or set aside.
    pub unhealthy: u64,
    /// Since when the first of these is.
    #[serde(serialize_with = "some_instant")]
    pub oldest_unhealthy_at: Option<Timestamp>,
    /// For how long that is.
    pub max_unhealthy_age_ms: u64,
    /// The most attempts that any of them had.
    pub max_attempt_count: u32,
    /// How often that one was taken back that was so most often.
    pub max_repair_count: u32,
}

/// Open tasks of activities.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ActivitySection {
    /// All of them.
    pub open: u64,
    /// Those that wait for a worker.
    pub pending: u64,
    /// Those that a worker has.
    pub running: u64,
    /// Those that failed before and wait for their next attempt.
    pub retrying: u64,
    /// When the oldest of these was scheduled.
    #[serde(serialize_with = "some_instant")]
    pub oldest_retrying_at: Option<Timestamp>,
    /// How long ago that is.
    pub max_retrying_age_ms: u64,
    /// Those past one of their times.
    pub timeout_overdue: u64,
    /// Since when the first of these is.
    #[serde(serialize_with = "some_instant")]
    pub oldest_timeout_overdue_at: Option<Timestamp>,
    /// For how long that is.
    pub max_timeout_overdue_age_ms: u64,
    /// Attempts that failed in the last minute and are made again.
    pub failed_attempts_last_minute: u64,
}

/// What there is to do, and how fast it is done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BacklogSection {
    /// Tasks to be claimed now.
    pub runnable_tasks: u64,
    /// Tasks to be claimed later.
    pub delayed_tasks: u64,
    /// Tasks under way.
    pub leased_tasks: u64,
    /// Activities that failed before and wait for their next attempt.
    pub retrying_activities: u64,
    /// Tasks with an ended lease, past their time, or set aside.
    pub unhealthy_tasks: u64,
    /// Open runs that lack the task without which they stand.
    pub repair_needed_runs: u64,
    /// Runs whose last turn failed.
    pub claim_failed_runs: u64,
    /// Runs that wait for a worker that supports their build.
    pub compatibility_blocked_runs: u64,
    /// Since when the first of these has.
    #[serde(serialize_with = "some_instant")]
    pub oldest_compatibility_blocked_started_at: Option<Timestamp>,
    /// For how long that is.
    pub max_compatibility_blocked_age_ms: u64,
    /// Tasks that were made in the last minute, also those that were leased at once.
    pub tasks_added_last_minute: u64,
    /// Tasks that were claimed in the last minute.
    pub tasks_dispatched_last_minute: u64,
    /// Tasks that ended in the last minute.
    pub tasks_completed_last_minute: u64,
}

/// What is to be mended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RepairSection {
    /// Tasks that are to be taken back or ended.
    pub existing_task_candidates: u64,
    /// Open runs that are to get the task that they lost.
    pub missing_task_candidates: u64,
    /// Since when the first of these lacks it, at the latest.
    #[serde(serialize_with = "some_instant")]
    pub oldest_missing_run_started_at: Option<Timestamp>,
    /// For how long that is.
    pub max_missing_run_age_ms: u64,
    /// Tasks that were taken back in the last minute.
    pub recovered_last_minute: u64,
}

/// How soon what is left is taken up again: see [`Recovery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RepairPolicy {
    /// How long a process counts as alive without a heartbeat.
    pub instance_ttl_ms: u64,
    /// How often it shows that it lives.
    pub heartbeat_ms: u64,
    /// How often one for all looks.
    pub loop_throttle_ms: u64,
    /// How many tasks at a time.
    pub scan_limit: u32,
    /// How often a task is taken back from owners that were gone before it is set aside.
    pub poison_after: u32,
}

/// Schedules.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ScheduleSection {
    /// Those that fire.
    pub active: u64,
    /// Those that are paused.
    pub paused: u64,
    /// Those whose next occurrence is past.
    pub overdue: u64,
    /// Since when the first of these is due.
    #[serde(serialize_with = "some_instant")]
    pub oldest_overdue_at: Option<Timestamp>,
    /// For how long that is.
    pub max_overdue_ms: u64,
    /// How often they fired.
    pub fires_total: u64,
    /// How many occurrences were found too late.
    pub missed: u64,
}

/// Workers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WorkerSection {
    /// The build with which the process that was asked marks new runs.
    pub required_compatibility: Option<String>,
    /// Workers whose process lives.
    pub active_workers: u64,
    /// The namespaces and queues that they serve, each once.
    pub active_worker_scopes: u64,
    /// Those of them that support that build.
    pub active_workers_supporting_required: u64,
    /// Each of them.
    pub fleet: Vec<WorkerShown>,
}

/// A worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct WorkerShown {
    /// Its id.
    pub worker_id: String,
    /// The tenant.
    pub namespace: String,
    /// Whose tasks it takes.
    pub queue: String,
    /// The builds that it supports; `["*"]` for all.
    pub supported: Vec<String>,
    /// Whether it supports the build with which the process that was asked marks new runs.
    pub supports_required: bool,
    /// Whether its process takes no more work.
    pub is_draining: bool,
    /// When its process last showed that it lives.
    #[serde(serialize_with = "instant")]
    pub recorded_at: Timestamp,
    /// When it no longer counts as alive.
    #[serde(serialize_with = "instant")]
    pub expires_at: Timestamp,
    /// Its machine.
    pub host: Option<String>,
    /// Its process, by the number of its system.
    pub process_id: u32,
    /// What people call that.
    pub node: String,
}

/// The open tasks of one kind in one queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct QueueSection {
    /// The tenant.
    pub namespace: String,
    /// The queue.
    pub queue: String,
    /// `workflow` or `activity`.
    pub kind: &'static str,
    /// All of them.
    pub open: u64,
    /// To be claimed now.
    pub ready_due: u64,
    /// For how long the first of these has been due.
    pub max_ready_due_age_ms: u64,
    /// To be claimed later.
    pub delayed: u64,
    /// Under way.
    pub leased: u64,
    /// Under way by a lease that has ended.
    pub lease_expired: u64,
    /// Set aside.
    pub blocked: u64,
    /// To be claimed again after something went wrong.
    pub retrying: u64,
    /// How many live workers serve the queue.
    pub workers: u64,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct NodeSection {
    /// This life of it.
    pub instance_id: String,
    /// What people call it.
    pub node: String,
    /// The build with which it marks new runs.
    pub build: Option<String>,
    /// Its number in its system.
    pub process_id: u32,
    /// Whether it takes no more work.
    pub is_draining: bool,
    /// When it began.
    #[serde(serialize_with = "instant")]
    pub started_at: Timestamp,
    /// Its last sign of life.
    #[serde(serialize_with = "instant")]
    pub heartbeat_at: Timestamp,
    /// What it did in the minute before that; `None` before its first one, and of a version that
    /// does not write it.
    pub last_minute: Option<Figures>,
}

/// Who does something for all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RoleSection {
    /// What.
    pub role: &'static str,
    /// Who had it last.
    pub holder: Option<String>,
    /// Whether that process has it now.
    pub is_held: bool,
    /// Until when, unless it is renewed.
    #[serde(serialize_with = "instant")]
    pub expires_at: Timestamp,
}

/// A namespace that has runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct NamespaceSection {
    /// It.
    pub namespace: String,
    /// For how long its closed runs are kept.
    pub retention_ms: u64,
    /// When the run was closed that is kept for the longest time.
    #[serde(serialize_with = "some_instant")]
    pub oldest_closed_at: Option<Timestamp>,
    /// By how much that one is past its retention.
    pub max_retention_overdue_ms: u64,
}

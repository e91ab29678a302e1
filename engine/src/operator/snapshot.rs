//! The snapshot: pure, of what was read of the database.

use std::collections::BTreeSet;
use std::time::Duration;

use coord_core::Calendar;
use serde::{Serialize, Serializer};

use super::Figures;
use super::refused::{self, RefusalSection, RefusedShown};
use crate::builds::Blocked;
use crate::model::{BuildId, RunStatus, TaskKind, Timestamp};
use crate::recovery::Recovery;
use crate::refusals::Refusals;
use crate::store::{Census, NodeRecord, QueueCensus, Role, Survey, Tally, Tenant, WorkerRecord};
use crate::upkeep;
use crate::wake::{Dispatch, Health};

/// What was read of the database, each in a snapshot of its own.
pub(super) struct Seen<'a> {
    pub(super) census: &'a Census,
    pub(super) survey: &'a Survey,
    pub(super) tenants: &'a [Tenant],
    pub(super) workers: &'a [WorkerRecord],
    pub(super) blocked: &'a Blocked,
    pub(super) refusals: &'a Refusals,
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

pub(super) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn of(
    seen: &Seen<'_>,
    required: Option<&BuildId>,
    (recovery, retention): (Recovery, Duration),
    (wake, dispatch): (Health, Dispatch),
) -> Snapshot {
    let (census, survey) = (seen.census, seen.survey);
    let nodes: Vec<_> = survey.nodes.iter().map(node).collect();
    let fleet = Figures::of_all(nodes.iter().filter_map(|node| node.last_minute.as_ref()));
    let tasks = tasks(census);
    let activities = activities(census, &fleet);
    let runs = runs(seen);
    Snapshot {
        at: census.now,
        is_capped: census.is_capped() || survey.is_capped(),
        backlog: BacklogSection {
            runnable_tasks: tasks.ready_due,
            delayed_tasks: tasks.delayed,
            leased_tasks: tasks.leased,
            retrying_activities: activities.retrying,
            unhealthy_tasks: tasks.unhealthy,
            repair_needed_runs: runs.repair_needed,
            claim_failed_runs: runs.claim_failed,
            compatibility_blocked_runs: runs.compatibility_blocked,
            oldest_compatibility_blocked_started_at: seen.blocked.oldest(),
            max_compatibility_blocked_age_ms: ms(seen.blocked.age()),
            tasks_added_last_minute: fleet.tasks_added + fleet.tasks_taken_along,
            tasks_dispatched_last_minute: fleet.workflow_tasks_claimed
                + fleet.activity_tasks_claimed
                + fleet.tasks_taken_along,
            tasks_completed_last_minute: fleet.workflow_tasks_done + fleet.activity_tasks_done,
        },
        repair: RepairSection {
            existing_task_candidates: tasks.lease_expired + activities.timeout_overdue,
            missing_task_candidates: survey.lacking.count,
            oldest_missing_run_started_at: survey.lacking.since,
            max_missing_run_age_ms: ms(survey.lacking.age(survey.now)),
            recovered_last_minute: fleet.tasks_recovered,
        },
        repair_policy: RepairPolicy {
            instance_ttl_ms: ms(recovery.ttl),
            heartbeat_ms: ms(recovery.heartbeat),
            loop_throttle_ms: ms(recovery.every),
            scan_limit: upkeep::LIMIT,
            poison_after: upkeep::POISON_AFTER,
        },
        runs,
        tasks,
        activities,
        schedules: schedules(census),
        workers: workers(seen.workers, required),
        queues: census
            .queues
            .iter()
            .map(|queue| self::queue(queue, census.now, seen.workers))
            .collect(),
        refusals: refused::by_reason(seen.refusals),
        refused: refused::by_type(seen.refusals),
        nodes,
        fleet,
        roles: Role::ALL
            .into_iter()
            .map(|role| self::role(role, census))
            .collect(),
        namespaces: seen
            .tenants
            .iter()
            .map(|tenant| namespace(tenant, retention, census.now))
            .collect(),
        acceleration: match wake {
            Health::Alone => "alone",
            Health::Healthy => "healthy",
            Health::Degraded => "degraded",
        },
        task_dispatch_mode: dispatch.as_str(),
    }
}

fn runs(seen: &Seen<'_>) -> RunSection {
    let (census, survey) = (seen.census, seen.survey);
    let standing = |status| survey.open.iter().find(|it| it.status == status);
    let open = |status| standing(status).map_or(0, |it| it.runs);
    let all_open: u64 = survey.open.iter().map(|it| it.runs).sum();
    let closed = |reason: &str| count(&survey.closed, reason);
    let all_closed: u64 = survey.closed.iter().map(|(_, runs)| runs).sum();
    let now = survey.now;
    let first = survey.open.iter().map(|it| it.started_at).min();
    let wait = standing(RunStatus::Waiting).map(|it| it.unchanged_since);
    let age = |since: Option<Timestamp>| since.map_or(0, |since| ms(now.since(since)));
    let blocked = census.total(QueueCensus::set_aside);
    let of_turns = |of: fn(&QueueCensus) -> Tally| {
        let turns = census.queues.iter();
        let turns = turns.filter(|queue| queue.kind == TaskKind::Workflow);
        turns.map(of).fold(Tally::default(), Tally::and)
    };
    RunSection {
        total: all_open + all_closed,
        open: all_open,
        pending: open(RunStatus::Pending),
        running: open(RunStatus::Running),
        waiting: open(RunStatus::Waiting),
        completed: closed("completed"),
        failed: closed("failed"),
        cancelled: closed("cancelled"),
        terminated: closed("terminated"),
        timed_out: closed("timed_out"),
        continued_as_new: closed("continued_as_new"),
        archived: survey.archived,
        oldest_open_started_at: first,
        max_open_age_ms: age(first),
        oldest_wait_started_at: wait,
        max_wait_age_ms: age(wait),
        repair_needed: survey.lacking.count,
        oldest_repair_needed_at: survey.lacking.since,
        max_repair_needed_age_ms: age(survey.lacking.since),
        claim_failed: of_turns(|queue| queue.retrying).count,
        compatibility_blocked: seen.blocked.runs(),
        blocked_replay: census.total(|queue| queue.blocked_replay).count,
        blocked_poison: census.total(|queue| queue.blocked_poison).count,
        blocked_imported: census.total(|queue| queue.blocked_imported).count,
        oldest_blocked_at: blocked.since,
        max_blocked_age_ms: ms(blocked.age(census.now)),
        started_last_minute: survey.started_last_minute,
        closed_last_minute: survey.closed_last_minute.iter().map(|(_, runs)| runs).sum(),
        completed_last_minute: count(&survey.closed_last_minute, "completed"),
        failed_last_minute: count(&survey.closed_last_minute, "failed"),
    }
}

fn count(counts: &[(String, u64)], of: &str) -> u64 {
    let found = counts.iter().find(|(reason, _)| reason == of);
    found.map_or(0, |(_, runs)| *runs)
}

fn tasks(census: &Census) -> TaskSection {
    let now = census.now;
    let due = census.total(|queue| queue.due);
    let leased = census.total(|queue| queue.leased);
    let expired = census.total(|queue| queue.expired);
    let failed = census.total(|queue| queue.retrying);
    let overdue = census.total(|queue| queue.overdue);
    let blocked = census.total(QueueCensus::set_aside);
    let unhealthy = expired.and(overdue).and(blocked);
    let queues = || census.queues.iter();
    let delayed = queues().map(|queue| queue.later).sum();
    TaskSection {
        open: queues().map(|queue| queue.open).sum(),
        ready: due.count + delayed,
        ready_due: due.count,
        oldest_ready_due_at: due.since,
        max_ready_due_age_ms: ms(due.age(now)),
        delayed,
        leased: leased.count,
        oldest_leased_at: leased.since,
        max_leased_age_ms: ms(leased.age(now)),
        lease_expired: expired.count,
        oldest_lease_expired_at: expired.since,
        max_lease_expired_age_ms: ms(expired.age(now)),
        claim_failed: failed.count,
        oldest_claim_failed_at: failed.since,
        max_claim_failed_age_ms: ms(failed.age(now)),
        blocked: blocked.count,
        unhealthy: unhealthy.count,
        oldest_unhealthy_at: unhealthy.since,
        max_unhealthy_age_ms: ms(unhealthy.age(now)),
        max_attempt_count: queues().map(|it| it.most_attempts).max().unwrap_or(0),
        max_repair_count: queues().map(|it| it.most_recoveries).max().unwrap_or(0),
    }
}

fn activities(census: &Census, fleet: &Figures) -> ActivitySection {
    let of = |of: fn(&QueueCensus) -> Tally| {
        let queues = census.queues.iter();
        let ours = queues.filter(|queue| queue.kind == TaskKind::Activity);
        ours.map(of).fold(Tally::default(), Tally::and)
    };
    let ours = || {
        let queues = census.queues.iter();
        queues.filter(|queue| queue.kind == TaskKind::Activity)
    };
    let (retrying, overdue) = (of(|queue| queue.retrying), of(|queue| queue.overdue));
    let later: u64 = ours().map(|queue| queue.later).sum();
    ActivitySection {
        open: ours().map(|queue| queue.open).sum(),
        pending: of(|queue| queue.due).count + later,
        running: of(|queue| queue.leased).count,
        retrying: retrying.count,
        oldest_retrying_at: retrying.since,
        max_retrying_age_ms: ms(retrying.age(census.now)),
        timeout_overdue: overdue.count,
        oldest_timeout_overdue_at: overdue.since,
        max_timeout_overdue_age_ms: ms(overdue.age(census.now)),
        failed_attempts_last_minute: fleet.attempts_failed,
    }
}

fn schedules(census: &Census) -> ScheduleSection {
    let schedules = &census.schedules;
    ScheduleSection {
        active: schedules.active,
        paused: schedules.paused,
        overdue: schedules.overdue.count,
        oldest_overdue_at: schedules.overdue.since,
        max_overdue_ms: ms(schedules.overdue.age(census.now)),
        fires_total: schedules.fires,
        missed: schedules.missed,
    }
}

fn workers(workers: &[WorkerRecord], required: Option<&BuildId>) -> WorkerSection {
    let supports = |worker: &WorkerRecord| worker.enlistment.supported.holds(required);
    let scopes: BTreeSet<_> = workers
        .iter()
        .map(|worker| (&worker.enlistment.namespace, &worker.enlistment.queue))
        .collect();
    let shown = |worker: &WorkerRecord| WorkerShown {
        worker_id: worker.enlistment.worker.clone(),
        namespace: worker.enlistment.namespace.to_string(),
        queue: worker.enlistment.queue.to_string(),
        supported: worker.enlistment.supported.words(),
        supports_required: supports(worker),
        is_draining: worker.is_draining,
        recorded_at: worker.recorded_at,
        expires_at: worker.expires_at,
        host: worker.enlistment.host.clone(),
        process_id: worker.pid,
        node: worker.node.clone(),
    };
    WorkerSection {
        required_compatibility: required.map(ToString::to_string),
        active_workers: workers.len() as u64,
        active_worker_scopes: scopes.len() as u64,
        active_workers_supporting_required: workers.iter().filter(|it| supports(it)).count() as u64,
        fleet: workers.iter().map(shown).collect(),
    }
}

fn queue(queue: &QueueCensus, now: Timestamp, workers: &[WorkerRecord]) -> QueueSection {
    let serves = |worker: &&WorkerRecord| {
        worker.enlistment.namespace == queue.namespace && worker.enlistment.queue == queue.queue
    };
    QueueSection {
        namespace: queue.namespace.to_string(),
        queue: queue.queue.to_string(),
        kind: queue.kind.as_str(),
        open: queue.open,
        ready_due: queue.due.count,
        max_ready_due_age_ms: ms(queue.due.age(now)),
        delayed: queue.later,
        leased: queue.leased.count,
        lease_expired: queue.expired.count,
        blocked: queue.set_aside().count,
        retrying: queue.retrying.count,
        workers: workers.iter().filter(serves).count() as u64,
    }
}

fn node(record: &NodeRecord) -> NodeSection {
    let figures = record.figures.as_deref();
    NodeSection {
        instance_id: record.incarnation.id.to_string(),
        node: record.incarnation.node.clone(),
        build: record.incarnation.build.as_ref().map(ToString::to_string),
        process_id: record.incarnation.pid,
        is_draining: record.is_draining,
        started_at: record.started_at,
        heartbeat_at: record.heartbeat_at,
        last_minute: figures.and_then(|text| serde_json::from_str(text).ok()),
    }
}

fn role(role: Role, census: &Census) -> RoleSection {
    let held = census.roles.iter().find(|held| held.role == role);
    RoleSection {
        role: role.as_str(),
        holder: held.and_then(|held| held.holder.as_ref().map(ToString::to_string)),
        is_held: census.is_held(role),
        expires_at: held.map_or(Timestamp::default(), |held| held.expires_at),
    }
}

fn namespace(tenant: &Tenant, retention: Duration, now: Timestamp) -> NamespaceSection {
    let retention = tenant.retention.unwrap_or(retention);
    let closed_for = tenant.oldest_closed.map(|closed| now.since(closed));
    let overdue = closed_for.map_or(Duration::ZERO, |age| age.saturating_sub(retention));
    NamespaceSection {
        namespace: tenant.namespace.to_string(),
        retention_ms: ms(retention),
        oldest_closed_at: tenant.oldest_closed,
        max_retention_overdue_ms: ms(overdue),
    }
}

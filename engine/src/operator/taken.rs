//! How a snapshot is made: pure, of what was read of the database.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Figures;
use super::refused;
use super::snapshot::{
    ActivitySection, BacklogSection, NamespaceSection, NodeSection, QueueSection, RepairPolicy,
    RepairSection, RoleSection, RunSection, ScheduleSection, Snapshot, TaskSection, WorkerSection,
    WorkerShown, ms,
};
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

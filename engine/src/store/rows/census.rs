//! Rows of a census, and the statements that count them: the same text on every dialect, but for
//! how a parameter is written.

use coord_core::Result;

use super::super::census::{Census, NodeCensus, QueueCensus, RoleCensus, ScheduleCensus, Tally};
use super::super::{Role, answers};
use super::{read, some, unsigned};
use crate::model::{Namespace, OwnerId, Timestamp};

/// Counts open tasks. `$now` is the clock, `$scope` which namespaces are meant; the clock comes
/// first.
macro_rules! census_of_tasks {
    ($now:literal, $scope:literal) => {
        concat!(
            "SELECT t.namespace, t.queue, t.task_type, COUNT(*) AS all_open,
                COUNT(CASE WHEN status = 'ready' AND available_at <= at_now THEN 1 END) AS due,
                MIN(CASE WHEN status = 'ready' AND available_at <= at_now THEN available_at END)
                    AS due_since,
                COUNT(CASE WHEN status = 'ready' AND available_at > at_now THEN 1 END) AS later,
                COUNT(CASE WHEN status = 'leased' THEN 1 END) AS leased,
                MIN(CASE WHEN status = 'leased' THEN leased_at END) AS leased_since,
                COUNT(CASE WHEN status = 'leased' AND lease_expires_at <= at_now THEN 1 END)
                    AS expired,
                MIN(CASE WHEN status = 'leased' AND lease_expires_at <= at_now
                    THEN lease_expires_at END) AS expired_since,
                COUNT(CASE WHEN status = 'blocked' AND blocked_reason = 'replay' THEN 1 END)
                    AS replay,
                MIN(CASE WHEN status = 'blocked' AND blocked_reason = 'replay'
                    THEN available_at END) AS replay_since,
                COUNT(CASE WHEN status = 'blocked' AND blocked_reason = 'poison' THEN 1 END)
                    AS poison,
                MIN(CASE WHEN status = 'blocked' AND blocked_reason = 'poison'
                    THEN available_at END) AS poison_since,
                COUNT(CASE WHEN status = 'blocked' AND blocked_reason = 'imported' THEN 1 END)
                    AS imported,
                MIN(CASE WHEN status = 'blocked' AND blocked_reason = 'imported'
                    THEN available_at END) AS imported_since,
                COUNT(CASE WHEN status = 'ready' AND has_failed = 1 THEN 1 END) AS retrying,
                MIN(CASE WHEN status = 'ready' AND has_failed = 1 THEN created_at END)
                    AS retrying_since,
                COUNT(CASE WHEN deadline_at <= at_now THEN 1 END) AS overdue,
                MIN(CASE WHEN deadline_at <= at_now THEN deadline_at END) AS overdue_since,
                MAX(attempt_count) AS most_attempts, MAX(recover_count) AS most_recoveries
             FROM (SELECT ",
            $now,
            " AS at_now) c CROSS JOIN (
                SELECT namespace, queue, task_type, status, available_at, leased_at,
                    lease_expires_at, blocked_reason, created_at, deadline_at, attempt_count,
                    recover_count, CASE WHEN last_error IS NULL THEN 0 ELSE 1 END AS has_failed
                FROM workflow_tasks WHERE ",
            $scope,
            " LIMIT 100000) t
             GROUP BY t.namespace, t.queue, t.task_type
             ORDER BY t.namespace, t.queue, t.task_type"
        )
    };
}
pub(in super::super) use census_of_tasks;

/// Counts schedules. `$whole` is the type of a whole number of eight bytes.
macro_rules! census_of_schedules {
    ($now:literal, $scope:literal, $whole:literal) => {
        concat!(
            "SELECT COUNT(CASE WHEN status = 'active' THEN 1 END) AS active,
                COUNT(CASE WHEN status = 'paused' THEN 1 END) AS paused,
                COUNT(CASE WHEN status = 'active' AND next_fire_at <= at_now THEN 1 END)
                    AS overdue,
                MIN(CASE WHEN status = 'active' AND next_fire_at <= at_now
                    THEN next_fire_at END) AS overdue_since,
                CAST(COALESCE(SUM(fires_total), 0) AS ",
            $whole,
            ") AS fires, CAST(COALESCE(SUM(missed_total), 0) AS ",
            $whole,
            ") AS missed
             FROM (SELECT ",
            $now,
            " AS at_now) c CROSS JOIN workflow_schedules WHERE ",
            $scope
        )
    };
}
pub(in super::super) use census_of_schedules;

/// Counts processes.
macro_rules! census_of_nodes {
    ($now:literal, $scope:literal) => {
        concat!(
            "SELECT COUNT(CASE WHEN expires_at > at_now THEN 1 END) AS live,
                COUNT(CASE WHEN expires_at <= at_now THEN 1 END) AS silent,
                MIN(CASE WHEN expires_at <= at_now THEN expires_at END) AS silent_since
             FROM (SELECT ",
            $now,
            " AS at_now) c CROSS JOIN engine_instances
             WHERE status IN ('live', 'draining') AND (namespace IS NULL OR ",
            $scope,
            ")"
        )
    };
}
pub(in super::super) use census_of_nodes;

pub(in super::super) const SCHEMA: &str = "SELECT coalesce(max(version), 0) FROM engine_migrations";

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct QueueRow {
    namespace: String,
    queue: String,
    task_type: String,
    all_open: i64,
    due: i64,
    due_since: Option<i64>,
    later: i64,
    leased: i64,
    leased_since: Option<i64>,
    expired: i64,
    expired_since: Option<i64>,
    replay: i64,
    replay_since: Option<i64>,
    poison: i64,
    poison_since: Option<i64>,
    imported: i64,
    imported_since: Option<i64>,
    retrying: i64,
    retrying_since: Option<i64>,
    overdue: i64,
    overdue_since: Option<i64>,
    most_attempts: i32,
    most_recoveries: i32,
}

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct ScheduleCountRow {
    active: i64,
    paused: i64,
    overdue: i64,
    overdue_since: Option<i64>,
    fires: i64,
    missed: i64,
}

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct NodeCountRow {
    live: i64,
    silent: i64,
    silent_since: Option<i64>,
}

/// What was read of a database.
pub(in super::super) struct CensusRows {
    pub(in super::super) now: i64,
    /// The version that is there, and the one that this program brings.
    pub(in super::super) schema: (i64, usize),
    pub(in super::super) queues: Vec<QueueRow>,
    pub(in super::super) schedules: ScheduleCountRow,
    pub(in super::super) nodes: NodeCountRow,
    /// Each role as it is stored, who has it, since when and until when.
    pub(in super::super) roles: Vec<(String, Option<String>, i64, i64)>,
}

/// The roles as they are stored for a store that stays in `scope`.
pub(in super::super) fn role_keys(scope: Option<&Namespace>) -> [String; 3] {
    Role::ALL.map(|role| role.key(scope))
}

impl CensusRows {
    pub(in super::super) fn census(self, scope: Option<&Namespace>) -> Result<Census> {
        let queues: Result<Vec<QueueCensus>> =
            self.queues.into_iter().map(QueueRow::queue).collect();
        let mut roles = Vec::new();
        for (key, holder, acquired_at, expires_at) in self.roles {
            let role = Role::ALL.into_iter().find(|role| role.key(scope) == key);
            if let Some(role) = role {
                roles.push(RoleCensus {
                    role,
                    holder: some::<OwnerId>(holder, "owner id")?,
                    acquired_at: Timestamp::from_micros(acquired_at),
                    expires_at: Timestamp::from_micros(expires_at),
                });
            }
        }
        let schedules = self.schedules;
        Ok(Census {
            now: Timestamp::from_micros(self.now),
            schema: (unsigned(self.schema.0)?, self.schema.1 as u32),
            queues: queues?,
            schedules: ScheduleCensus {
                active: unsigned(schedules.active)?,
                paused: unsigned(schedules.paused)?,
                overdue: tally(schedules.overdue, schedules.overdue_since)?,
                fires: unsigned(schedules.fires)?,
                missed: unsigned(schedules.missed)?,
            },
            nodes: NodeCensus {
                live: unsigned(self.nodes.live)?,
                silent: tally(self.nodes.silent, self.nodes.silent_since)?,
            },
            roles,
        })
    }
}

impl QueueRow {
    fn queue(self) -> Result<QueueCensus> {
        Ok(QueueCensus {
            namespace: read(self.namespace, "namespace")?,
            queue: read(self.queue, "queue")?,
            kind: answers::kind_of(&self.task_type),
            open: unsigned(self.all_open)?,
            due: tally(self.due, self.due_since)?,
            later: unsigned(self.later)?,
            leased: tally(self.leased, self.leased_since)?,
            expired: tally(self.expired, self.expired_since)?,
            blocked_replay: tally(self.replay, self.replay_since)?,
            blocked_poison: tally(self.poison, self.poison_since)?,
            blocked_imported: tally(self.imported, self.imported_since)?,
            retrying: tally(self.retrying, self.retrying_since)?,
            overdue: tally(self.overdue, self.overdue_since)?,
            most_attempts: unsigned(self.most_attempts)?,
            most_recoveries: unsigned(self.most_recoveries)?,
        })
    }
}

fn tally(count: i64, since: Option<i64>) -> Result<Tally> {
    Ok(Tally {
        count: unsigned(count)?,
        since: since.map(Timestamp::from_micros),
    })
}

//! Leases. Rows are changed here as the batch changes them, under locks on their primary keys.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::answers::{self, Place, RenewedRow, SweptRow};
use super::super::rows::{RecordRow, TaskRow, TipRow, signed, task_columns};
use super::super::{BlockedReason, Claim, Claimed, Lease, Overdue, Renewal, Renewed, Sweep, Swept};
use super::Mysql;
use super::batch::{Transaction, json};
use super::error::{at, at_commit};
use super::sql::{self, event_columns, ids};
use crate::model::{Priority, TaskStatus};

/// The due tasks of one priority, in the order of the index.
macro_rules! probe {
    ($priority:literal) => {
        concat!(
            "(SELECT task_id, priority, available_at
              FROM workflow_tasks FORCE INDEX (workflow_tasks_claim)
              WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = ?
                AND priority = ",
            $priority,
            " AND available_at <= ? AND JSON_CONTAINS(?, JSON_QUOTE(name))
                AND (compatibility IS NULL OR ? IS NULL
                     OR JSON_CONTAINS(?, JSON_QUOTE(compatibility)))
              ORDER BY available_at, task_id LIMIT ?)"
        )
    };
}

/// What a claim would take, without a lock.
const CANDIDATES: &str = concat!(
    "SELECT task_id FROM (",
    probe!("0"),
    " UNION ALL ",
    probe!("1"),
    " UNION ALL ",
    probe!("2"),
    " UNION ALL ",
    probe!("3"),
    " UNION ALL ",
    probe!("4"),
    " UNION ALL ",
    probe!("5"),
    " UNION ALL ",
    probe!("6"),
    " UNION ALL ",
    probe!("7"),
    " UNION ALL ",
    probe!("8"),
    " UNION ALL ",
    probe!("9"),
    ") probes ORDER BY priority, available_at, task_id LIMIT ?"
);

/// When the next task of one priority will be due.
macro_rules! next {
    ($priority:literal) => {
        concat!(
            "(SELECT min(available_at) AS due
              FROM workflow_tasks FORCE INDEX (workflow_tasks_claim)
              WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = ?
                AND priority = ",
            $priority,
            " AND available_at > ?)"
        )
    };
}

const NEXT_DUE: &str = concat!(
    "SELECT min(due) FROM (",
    next!("0"),
    " UNION ALL ",
    next!("1"),
    " UNION ALL ",
    next!("2"),
    " UNION ALL ",
    next!("3"),
    " UNION ALL ",
    next!("4"),
    " UNION ALL ",
    next!("5"),
    " UNION ALL ",
    next!("6"),
    " UNION ALL ",
    next!("7"),
    " UNION ALL ",
    next!("8"),
    " UNION ALL ",
    next!("9"),
    ") probes"
);

/// Locks candidates that are still due, in their order, and passes by those that somebody has.
const LOCK_DUE: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    task_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id
      WHERE t.status = 'ready' AND t.available_at <= ? LIMIT ?
      FOR UPDATE /*!80000 OF t */ SKIP LOCKED"
);

const SCHEDULED: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    event_columns!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (
        run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.run_id',
        seq BIGINT PATH '$.seq')) w
      JOIN workflow_history h FORCE INDEX (PRIMARY) ON h.run_id = w.run_id AND h.seq = w.seq"
);

const OVERDUE: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks FORCE INDEX (workflow_tasks_deadline)
      WHERE deadline_at < 4611686018427387904 AND deadline_at <= ?
        AND (? IS NULL OR namespace = ?)
      ORDER BY deadline_at, task_id LIMIT ?"
);

/// A lease that has ended, or whose owner is gone.
macro_rules! stuck {
    () => {
        "status = 'leased' AND (lease_expires_at <= ? OR lease_owner IN (
            SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead')))"
    };
}

const STUCK: &str = concat!(
    "SELECT task_id FROM workflow_tasks FORCE INDEX (workflow_tasks_leased) WHERE ",
    stuck!(),
    " AND (? IS NULL OR namespace = ?) ORDER BY task_id LIMIT ?"
);

const LOCK_STUCK: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    task_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id WHERE ",
    stuck!(),
    " FOR UPDATE /*!80000 OF t */ SKIP LOCKED"
);

const LIVING: &str = "
    SELECT instance_id FROM engine_instances
    WHERE status IN ('live', 'draining') AND expires_at > ?";

/// How many times the limit is looked at before a claim that others were always faster gives up:
/// they took no more than their own limits.
const WIDER: [u32; 3] = [1, 4, 16];

const CLAIMING: &str = "claiming tasks";

pub(super) async fn claim(pool: &MySqlPool, claim: &Claim) -> Result<Claimed> {
    for factor in WIDER {
        let now = sqlx::query_scalar(sql::CLOCK).fetch_one(pool).await;
        let now: i64 = now.map_err(at(CLAIMING))?;
        let candidates = candidates(pool, claim, (now, factor)).await?;
        if candidates.is_empty() {
            return nothing(pool, claim, now).await;
        }
        let (now, tasks, events) = take(pool, claim, (now, candidates)).await?;
        if !tasks.is_empty() {
            return answers::claimed(now, tasks, events);
        }
    }
    let now = sqlx::query_scalar(sql::CLOCK).fetch_one(pool).await;
    nothing(pool, claim, now.map_err(at(CLAIMING))?).await
}

async fn candidates(
    pool: &MySqlPool,
    claim: &Claim,
    (now, factor): (i64, u32),
) -> Result<Vec<String>> {
    let names = json(&claim.names)?;
    let builds = claim.builds.as_ref().map(json).transpose()?;
    let limit = u64::from(claim.limit) * u64::from(factor);
    let mut query = sqlx::query_scalar(CANDIDATES);
    for _ in 0..Priority::COUNT {
        query = query
            .bind(claim.namespace.as_str())
            .bind(claim.queue.as_str())
            .bind(claim.kind.as_str())
            .bind(now)
            .bind(&names)
            .bind(&builds)
            .bind(&builds)
            .bind(limit);
    }
    let found = query.bind(limit).fetch_all(pool).await;
    found.map_err(at("looking for tasks"))
}

async fn nothing(pool: &MySqlPool, claim: &Claim, now: i64) -> Result<Claimed> {
    let mut query = sqlx::query_scalar(NEXT_DUE);
    for _ in 0..Priority::COUNT {
        query = query
            .bind(claim.namespace.as_str())
            .bind(claim.queue.as_str())
            .bind(claim.kind.as_str())
            .bind(now);
    }
    let next: Option<i64> = query
        .fetch_one(pool)
        .await
        .map_err(at("looking for tasks"))?;
    Ok(answers::nothing_claimed(now, next))
}

/// Leases those of the candidates that nobody else has.
async fn take(
    pool: &MySqlPool,
    claim: &Claim,
    (seen, candidates): (i64, Vec<String>),
) -> Result<(i64, Vec<TaskRow>, Vec<RecordRow>)> {
    let mut transaction = Transaction::begin(pool, CLAIMING).await?;
    let mut tasks: Vec<TaskRow> = sqlx::query_as(LOCK_DUE)
        .bind(json(&candidates)?)
        .bind(seen)
        .bind(u64::from(claim.limit))
        .fetch_all(&mut *transaction.0)
        .await
        .map_err(at(CLAIMING))?;
    let now = transaction.now().await?;
    let lease = Lease {
        owner: claim.owner.clone(),
        ttl: claim.ttl,
    };
    let mut attempts = claim.attempts.iter();
    for task in &mut tasks {
        task.lease(&lease, now);
        if task.is_activity() {
            task.attempt_id = attempts.next().map(ToString::to_string);
        }
    }
    transaction.put(sql::PUT_TASKS, &tasks).await?;
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    let committed = transaction.0.commit().await;
    committed.map_err(at_commit(CLAIMING))?;
    Ok((now, tasks, events))
}

async fn scheduled(transaction: &mut Transaction<'_>, places: &[Place]) -> Result<Vec<RecordRow>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    transaction.read(SCHEDULED, places).await
}

pub(super) async fn renew(pool: &MySqlPool, renewal: &Renewal) -> Result<Renewed> {
    const WHAT: &str = "renewing leases";
    let wanted = answers::renewals(renewal);
    let ids: Vec<_> = wanted.iter().map(|row| row.task_id.as_str()).collect();
    let mut transaction = Transaction::begin(pool, WHAT).await?;
    let locked: Vec<TaskRow> = transaction.read(sql::LOCK_TASKS, &ids).await?;
    let now = transaction.now().await?;
    let is_held = |task: &TaskRow| {
        task.is(TaskStatus::Leased)
            && task.lease_owner.as_deref() == Some(renewal.owner.as_str())
            && task.lease_expires_at.is_some_and(|end| end > now)
    };
    let mut tasks: Vec<_> = locked.into_iter().filter(is_held).collect();
    let until = answers::until(now, renewal.ttl);
    for task in &mut tasks {
        task.lease_expires_at = task.lease_expires_at.max(Some(until));
        let of_it = |row: &&answers::RenewalRow| {
            row.task_id == task.task_id && row.epoch == task.lease_epoch && row.beat == 1
        };
        if let Some(beat) = wanted.iter().find(of_it) {
            task.heartbeat_at = Some(now);
            task.heartbeat_codec.clone_from(&beat.codec);
            task.heartbeat_payload.clone_from(&beat.payload);
            task.deadline_at = task.deadline();
        }
    }
    // One that is held under another epoch than the one asked for is not ours to extend.
    tasks.retain(|task| {
        let is_it = |row: &answers::RenewalRow| {
            row.task_id == task.task_id && row.epoch == task.lease_epoch
        };
        wanted.iter().any(is_it)
    });
    transaction.put(sql::PUT_TASKS, &tasks).await?;
    let runs: Vec<_> = tasks.iter().map(|task| task.run_id.as_str()).collect();
    let tips: Vec<TipRow> = transaction.read(sql::READ_TIPS, &runs).await?;
    let committed = transaction.0.commit().await;
    committed.map_err(at_commit(WHAT))?;
    let seq = |run: &str| tips.iter().find(|tip| tip.run_id == run);
    let rows = tasks.iter().map(|task| RenewedRow {
        task_id: task.task_id.clone(),
        lease_epoch: task.lease_epoch,
        lease_expires_at: task.lease_expires_at.unwrap_or(now),
        inbox_seq: seq(&task.run_id).map_or(0, |tip| tip.inbox_seq),
    });
    Ok(answers::renewed(now, renewal, rows.collect()))
}

pub(super) async fn overdue(store: &Mysql, limit: u32) -> Result<Vec<Overdue>> {
    const WHAT: &str = "looking for overdue activities";
    let mut transaction = Transaction::begin(&store.pool, WHAT).await?;
    let now = transaction.now().await?;
    let tasks: Vec<TaskRow> = sqlx::query_as(OVERDUE)
        .bind(now)
        .bind(store.scope())
        .bind(store.scope())
        .bind(u64::from(limit))
        .fetch_all(&mut *transaction.0)
        .await
        .map_err(at(WHAT))?;
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    answers::overdue(now, tasks, events)
}

pub(super) async fn sweep(store: &Mysql, sweep: &Sweep) -> Result<Swept> {
    const WHAT: &str = "taking tasks back";
    let mut transaction = Transaction::begin(&store.pool, WHAT).await?;
    let now = transaction.now().await?;
    let stuck: Vec<String> = sqlx::query_scalar(STUCK)
        .bind(now)
        .bind(store.scope())
        .bind(store.scope())
        .bind(u64::from(sweep.limit))
        .fetch_all(&mut *transaction.0)
        .await
        .map_err(at(WHAT))?;
    if stuck.is_empty() {
        return Ok(Swept::default());
    }
    let mut tasks: Vec<TaskRow> = sqlx::query_as(LOCK_STUCK)
        .bind(json(&stuck)?)
        .bind(now)
        .fetch_all(&mut *transaction.0)
        .await
        .map_err(at(WHAT))?;
    let living: Vec<String> = sqlx::query_scalar(LIVING)
        .bind(now)
        .fetch_all(&mut *transaction.0)
        .await
        .map_err(at(WHAT))?;
    for task in &mut tasks {
        let lives = |owner: &String| living.contains(owner);
        if !task.lease_owner.as_ref().is_some_and(lives) {
            task.recover_count += 1;
        }
        if i64::from(task.recover_count) > signed(u64::from(sweep.poison_after)) {
            task.free(TaskStatus::Blocked, now);
            task.blocked_reason = Some(BlockedReason::Poison.as_str().to_owned());
        } else {
            task.free(TaskStatus::Ready, now);
        }
    }
    transaction.put(sql::PUT_TASKS, &tasks).await?;
    let committed = transaction.0.commit().await;
    committed.map_err(at_commit(WHAT))?;
    let swept = tasks.into_iter().map(|task| SweptRow {
        task_id: task.task_id,
        task_type: task.task_type,
        namespace: task.namespace,
        queue: task.queue,
        status: task.status,
    });
    answers::swept(swept.collect())
}

#[cfg(test)]
mod tests;

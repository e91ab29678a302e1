//! Leases. Rows are changed here as the batch changes them, under locks on their primary keys.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::answers::{self, Looked, LookedAtRow, Place, RenewedRow, SweptRow};
use super::super::fairness::{self, Charge, OfKind, OfKinds, Share};
use super::super::rows::{RecordRow, TaskRow, TipRow, signed, task_columns};
use super::super::{
    BlockedReason, Claim, Claimed, Lacking, Lease, Overdue, Renewal, Renewed, Sweep, Swept,
    Unattended,
};
use super::Mysql;
use super::batch::{Transaction, json};
use super::error::{at, at_commit};
use super::handed::{self, of_code};
use super::quotas;
use super::shares;
use super::sql::{self, event_columns, ids};
use crate::model::{Priority, TaskKind, TaskStatus};

/// The due tasks of one kind and priority, in the order of the index.
macro_rules! probe {
    ($kind:literal, $priority:literal) => {
        concat!(
            "(SELECT task_id, priority, available_at
              FROM workflow_tasks FORCE INDEX (workflow_tasks_claim)
              WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = '",
            $kind,
            "' AND priority = ",
            $priority,
            " AND available_at <= ? AND JSON_CONTAINS(?, JSON_QUOTE(name))
                AND (compatibility IS NULL OR ? IS NULL
                     OR JSON_CONTAINS(?, JSON_QUOTE(compatibility)))",
            of_code!("workflow_tasks"),
            " ORDER BY available_at, task_id LIMIT ?)"
        )
    };
}

/// When the next task of one kind and priority will be due.
macro_rules! next {
    ($kind:literal, $priority:literal) => {
        concat!(
            "(SELECT min(available_at) AS due
              FROM workflow_tasks FORCE INDEX (workflow_tasks_claim)
              WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = '",
            $kind,
            "' AND priority = ",
            $priority,
            " AND available_at > ?)"
        )
    };
}

/// One of the two for every priority.
macro_rules! each {
    ($probe:ident, $kind:literal) => {
        concat!(
            $probe!($kind, "0"),
            " UNION ALL ",
            $probe!($kind, "1"),
            " UNION ALL ",
            $probe!($kind, "2"),
            " UNION ALL ",
            $probe!($kind, "3"),
            " UNION ALL ",
            $probe!($kind, "4"),
            " UNION ALL ",
            $probe!($kind, "5"),
            " UNION ALL ",
            $probe!($kind, "6"),
            " UNION ALL ",
            $probe!($kind, "7"),
            " UNION ALL ",
            $probe!($kind, "8"),
            " UNION ALL ",
            $probe!($kind, "9")
        )
    };
}

/// What a claim would take of one kind, and, without an id, when the next will be due.
macro_rules! look {
    ($kind:literal) => {
        concat!(
            "(SELECT '",
            $kind,
            "' AS kind, task_id, available_at AS due FROM (",
            each!(probe, $kind),
            ") probes ORDER BY priority, available_at, task_id LIMIT ?)
             UNION ALL (SELECT '",
            $kind,
            "', NULL, min(due) FROM (",
            each!(next, $kind),
            ") nexts)"
        )
    };
}

/// All that a claim wants to know, without a lock.
pub(super) const LOOK: &str = concat!(look!("workflow"), " UNION ALL ", look!("activity"));

/// A line of the answer.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct LookRow {
    pub(super) kind: String,
    pub(super) task_id: Option<String>,
    pub(super) due: Option<i64>,
}

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
    "SELECT task_id FROM (
        SELECT task_id, row_number() OVER (PARTITION BY namespace, queue ORDER BY task_id) AS place
        FROM workflow_tasks FORCE INDEX (workflow_tasks_leased) WHERE ",
    stuck!(),
    " AND (? IS NULL OR namespace = ?)) AS ranked ORDER BY place, task_id LIMIT ?"
);

/// Open runs in the order of their index, and which of them lack their workflow task.
const UNATTENDED: &str = "
    SELECT run_id, started_at, CASE
        WHEN status NOT IN ('pending', 'running') AND NOT wait_reason <=> 'timer'
            AND inbox_seq <= inbox_drained THEN CASE
                WHEN wait_reason = 'activity' AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
                    WHERE t.task_id > concat(r.run_id, ':') AND t.task_id < concat(r.run_id, ';')) THEN 2
                ELSE 0 END
        WHEN EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.task_id = concat(r.run_id, ':0')) THEN 0
        ELSE 1 END AS lacks
    FROM workflow_runs r FORCE INDEX (workflow_runs_closed)
    WHERE namespace = ? AND closed_at IS NULL AND run_id > ?
    ORDER BY run_id LIMIT ?";

const LOCK_STUCK: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    task_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id WHERE ",
    stuck!(),
    " LIMIT ? FOR UPDATE /*!80000 OF t */ SKIP LOCKED"
);

const LIVING: &str = "
    SELECT instance_id FROM engine_instances
    WHERE status IN ('live', 'draining') AND expires_at > ?";

/// How many times the limit is looked at before a claim that others were always faster gives up:
/// they took no more than their own limits.
const WIDER: [u32; 3] = [1, 4, 16];

pub(super) const CLAIMING: &str = "claiming tasks";

pub(super) async fn claim(store: &Mysql, claim: &Claim) -> Result<Claimed> {
    let pool = &store.pool;
    let mut looked = Looked::default();
    for factor in WIDER {
        let (now, is_shared) = shares::now(pool, claim).await?;
        let mut found = look(pool, claim, (now, factor)).await?;
        looked = Looked {
            now,
            next_due: next_due(claim, &found, &[]),
        };
        if found.iter().all(|row| row.task_id.is_none()) {
            break;
        }
        let mut due = Vec::new();
        if is_shared {
            due = shares::look(store, claim, now).await?;
            found = shares::chosen(store, claim, (now, factor), (found, &due)).await?;
        }
        let (claimed, charges) = take(store, claim, (now, &found), &due).await?;
        shares::charge(store, claim, &charges).await;
        // What a quota holds back, a wider look does not find either.
        if !claimed.tasks.is_empty() || !claim.quotas.is_empty() {
            return Ok(claimed);
        }
    }
    answers::claimed(looked, Vec::new(), Vec::new())
}

async fn look(pool: &MySqlPool, claim: &Claim, (now, factor): (i64, u32)) -> Result<Vec<LookRow>> {
    let builds = claim.builds.as_ref().map(json).transpose()?;
    let mut query = sqlx::query_as(LOOK);
    for kind in [TaskKind::Workflow, TaskKind::Activity] {
        let wanted = claim.wanted_of(kind);
        // What is not wanted is of no tenant.
        let namespace = wanted.map(|_| claim.namespace.as_str());
        let names = json(wanted.map_or(&[][..], |wanted| &wanted.names))?;
        let code = handed::code(claim, kind)?;
        let limit = u64::from(wanted.map_or(0, |wanted| wanted.limit)) * u64::from(factor);
        for _ in 0..Priority::COUNT {
            query = query
                .bind(namespace)
                .bind(claim.queue.as_str())
                .bind(now)
                .bind(names.clone())
                .bind(builds.clone())
                .bind(builds.clone())
                .bind(code.clone())
                .bind(code.clone())
                .bind(limit);
        }
        query = query.bind(limit);
        for _ in 0..Priority::COUNT {
            query = query.bind(namespace).bind(claim.queue.as_str()).bind(now);
        }
    }
    let found = query.fetch_all(pool).await;
    found.map_err(at("looking for tasks"))
}

/// When the next task will be due of the wanted kinds of which `tasks` have none.
fn next_due(claim: &Claim, found: &[LookRow], tasks: &[TaskRow]) -> Option<i64> {
    let missed = claim.wanted.iter().map(|wanted| wanted.kind.as_str());
    let missed = missed.filter(|kind| tasks.iter().all(|task| task.task_type != *kind));
    let next = missed.filter_map(|kind| {
        let of_kind = |row: &&LookRow| row.task_id.is_none() && row.kind == kind;
        found.iter().find(of_kind)?.due
    });
    next.min()
}

/// Leases those of the candidates that nobody else has.
pub(super) async fn take(
    store: &Mysql,
    claim: &Claim,
    (seen, found): (i64, &[LookRow]),
    shares: &[OfKind<Share>],
) -> Result<(Claimed, OfKinds<Charge>)> {
    let mut transaction = Transaction::begin(store, CLAIMING).await?;
    let entered = quotas::enter(&mut transaction, claim).await?;
    let mut tasks: Vec<TaskRow> = Vec::new();
    // After the locks: what others have claimed until then is counted, and paid.
    let counted = match entered.as_slice() {
        [] => seen,
        _ => transaction.now().await?,
    };
    let bounded = claim.within(&entered, counted);
    for wanted in &bounded.claim.wanted {
        let of_kind = found.iter().filter(|row| row.kind == wanted.kind.as_str());
        let candidates: Vec<_> = of_kind.filter_map(|row| row.task_id.as_deref()).collect();
        let due = transaction.lock_free(LOCK_DUE, &candidates, (seen, wanted.limit));
        tasks.extend(due.await?);
    }
    let now = transaction.now().await?;
    let lease = Lease {
        owner: claim.owner.clone(),
        ttl: claim.ttl,
    };
    let activities = claim.wanted_of(TaskKind::Activity);
    let mut attempts = activities.into_iter().flat_map(|wanted| &wanted.attempts);
    for task in &mut tasks {
        task.lease(&lease, now);
        if task.is_activity() {
            task.attempt_id = attempts.next().map(ToString::to_string);
        }
    }
    transaction.put(sql::PUT_TASKS, &tasks).await?;
    let charges = shares.iter().map(|(kind, shares)| {
        let charges = fairness::charges_of(shares, *kind, &tasks);
        (*kind, charges)
    });
    let charges = charges.collect();
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    let looked = Looked {
        now,
        next_due: next_due(claim, found, &tasks),
    };
    let claimed = answers::claimed(looked, tasks, events)?;
    quotas::pay(&mut transaction, claim, (&entered, &claimed)).await?;
    let committed = transaction.inner.commit().await;
    committed.map_err(at_commit(CLAIMING))?;
    Ok((claimed.within(bounded), charges))
}

async fn scheduled(transaction: &mut Transaction<'_>, places: &[Place]) -> Result<Vec<RecordRow>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    transaction.read(SCHEDULED, places).await
}

pub(super) async fn renew(store: &Mysql, renewal: &Renewal) -> Result<Renewed> {
    const WHAT: &str = "renewing leases";
    let wanted = answers::renewals(renewal);
    let ids: Vec<_> = wanted.iter().map(|row| row.task_id.as_str()).collect();
    let mut transaction = Transaction::begin(store, WHAT).await?;
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
    let committed = transaction.inner.commit().await;
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
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let now = transaction.now().await?;
    let tasks: Vec<TaskRow> = sqlx::query_as(OVERDUE)
        .bind(now)
        .bind(store.scope())
        .bind(store.scope())
        .bind(u64::from(limit))
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    answers::overdue(now, tasks, events)
}

pub(super) async fn unattended(pool: &MySqlPool, page: &Unattended) -> Result<Lacking> {
    let rows: Vec<LookedAtRow> = sqlx::query_as(UNATTENDED)
        .bind(page.namespace.as_str())
        .bind(page.after.as_ref().map_or("", |(_, run)| run.as_str()))
        .bind(u64::from(page.limit))
        .fetch_all(pool)
        .await
        .map_err(at("looking for runs without a task"))?;
    answers::unattended(page, &rows)
}

pub(super) async fn sweep(store: &Mysql, sweep: &Sweep) -> Result<Swept> {
    const WHAT: &str = "taking tasks back";
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let now = transaction.now().await?;
    let stuck: Vec<String> = sqlx::query_scalar(STUCK)
        .bind(now)
        .bind(store.scope())
        .bind(store.scope())
        .bind(u64::from(sweep.limit))
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    if stuck.is_empty() {
        return Ok(Swept::default());
    }
    let stuck: Vec<_> = stuck.iter().map(String::as_str).collect();
    let locked = transaction.lock_free(LOCK_STUCK, &stuck, (now, sweep.limit));
    let mut tasks = locked.await?;
    let living: Vec<String> = sqlx::query_scalar(LIVING)
        .bind(now)
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let mut gone = Vec::with_capacity(tasks.len());
    for task in &mut tasks {
        let lives = |owner: &String| living.contains(owner);
        let is_gone = i32::from(!task.lease_owner.as_ref().is_some_and(lives));
        task.recover_count += is_gone;
        gone.push(i64::from(is_gone));
        if i64::from(task.recover_count) > signed(u64::from(sweep.poison_after)) {
            task.free(TaskStatus::Blocked, now);
            task.blocked_reason = Some(BlockedReason::Poison.as_str().to_owned());
        } else {
            task.free(TaskStatus::Ready, now);
        }
    }
    transaction.put(sql::PUT_TASKS, &tasks).await?;
    let committed = transaction.inner.commit().await;
    committed.map_err(at_commit(WHAT))?;
    let swept = tasks.into_iter().zip(gone).map(|(task, is_gone)| SweptRow {
        task_id: task.task_id,
        task_type: task.task_type,
        namespace: task.namespace,
        queue: task.queue,
        status: task.status,
        is_gone,
    });
    answers::swept(swept.collect())
}

#[cfg(test)]
mod tests;

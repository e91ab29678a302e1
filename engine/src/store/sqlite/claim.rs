//! Leases.

use coord_core::Result;
use sqlx::sqlite::{SqliteConnection, SqlitePool};

use super::super::answers::{self, Looked, LookedAtRow, Place, RenewedRow, SweptRow};
use super::super::fairness::{self, OfKinds, Share};
use super::super::rows::{NEVER, RecordRow, TaskRow, signed, task_columns};
use super::super::{
    Claim, Claimed, Lacking, Overdue, Renewal, Renewed, Sweep, Swept, Unattended, Wanted,
};
use super::Sqlite;
use super::batch::json;
use super::error::{at, at_commit};
use super::handed::{candidates, of_code, portioned, these};
use super::quotas;
use super::shares;
use super::sql::{self, clock, event_columns};
use crate::model::TaskKind;

/// The due tasks of one priority, in the order of the index.
macro_rules! probe {
    ($priority:literal, $now:expr) => {
        concat!(
            "SELECT * FROM (SELECT task_id, priority, available_at
             FROM workflow_tasks INDEXED BY workflow_tasks_claim
             WHERE status = 'ready' AND namespace = ?1 AND queue = ?2 AND task_type = ?3
               AND fairness_key = '' AND priority = ",
            $priority,
            " AND available_at <= ",
            $now,
            " AND name IN (SELECT value FROM json_each(?4))
               AND (compatibility IS NULL OR ?5 IS NULL
                    OR compatibility IN (SELECT value FROM json_each(?5)))",
            of_code!("?7"),
            " ORDER BY available_at, task_id LIMIT ?6)"
        )
    };
}

/// A probe of each priority.
macro_rules! probes {
    ($now:expr) => {
        concat!(
            "SELECT task_id FROM (",
            probe!("0", $now),
            " UNION ALL ",
            probe!("1", $now),
            " UNION ALL ",
            probe!("2", $now),
            " UNION ALL ",
            probe!("3", $now),
            " UNION ALL ",
            probe!("4", $now),
            " UNION ALL ",
            probe!("5", $now),
            " UNION ALL ",
            probe!("6", $now),
            " UNION ALL ",
            probe!("7", $now),
            " UNION ALL ",
            probe!("8", $now),
            " UNION ALL ",
            probe!("9", $now),
            ") ORDER BY priority, available_at, task_id LIMIT ?6"
        )
    };
}

/// What a claim would take, in one statement that writes nothing, where nothing with a key is due.
pub(super) const CANDIDATES: &str = probes!(clock!());

/// What it would take of a portion of a share.
pub(super) const PORTION: &str = concat!(
    "SELECT task_id FROM workflow_tasks INDEXED BY workflow_tasks_claim
     WHERE status = 'ready' AND namespace = ?1 AND queue = ?2 AND task_type = ?3
       AND fairness_key = ?7 AND priority = ?8 AND available_at <= ",
    clock!(),
    " AND name IN (SELECT value FROM json_each(?4))
       AND (compatibility IS NULL OR ?5 IS NULL
            OR compatibility IN (SELECT value FROM json_each(?5)))",
    of_code!("?10"),
    " ORDER BY available_at, task_id LIMIT ?6 OFFSET ?9"
);

/// Of tasks without a key, and of those with one.
const NEXT_DUE: &str = concat!(
    "SELECT min(due) FROM (SELECT (SELECT min(available_at)
        FROM workflow_tasks INDEXED BY workflow_tasks_claim
        WHERE status = 'ready' AND namespace = ?1 AND queue = ?2 AND task_type = ?3
          AND fairness_key = '' AND priority = p.value AND available_at > ",
    clock!(),
    ") AS due FROM json_each('[0,1,2,3,4,5,6,7,8,9]') p
     UNION ALL SELECT (SELECT min(available_at)
        FROM workflow_tasks INDEXED BY workflow_tasks_shared
        WHERE status = 'ready' AND fairness_key > '' AND namespace = ?1 AND queue = ?2
          AND task_type = ?3 AND available_at > ",
    clock!(),
    "))"
);

const CLAIM: &str = concat!(
    "UPDATE workflow_tasks SET status = 'leased', lease_owner = ?2, lease_epoch = lease_epoch + 1,
        attempt_count = attempt_count + 1, leased_at = ?3, lease_expires_at = ?4,
        started_at = ?3, heartbeat_at = ?3, attempt_id = w.value->>'attempt_id',
        deadline_at = min(schedule_to_close_at, ?3 + start_to_close_us, ?3 + heartbeat_us)
     FROM json_each(?1) w WHERE task_id = w.value->>'task_id' AND status = 'ready'
     RETURNING ",
    task_columns!()
);

const SCHEDULED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM json_each(?1) w JOIN workflow_history h
      ON h.run_id = w.value->>'run_id' AND h.seq = w.value->>'seq'"
);

const RENEW: &str = "
    UPDATE workflow_tasks SET lease_expires_at = max(lease_expires_at, ?4),
        heartbeat_at = CASE w.value->>'beat' WHEN 1 THEN ?3 ELSE heartbeat_at END,
        heartbeat_codec = CASE w.value->>'beat' WHEN 1 THEN w.value->>'codec' ELSE heartbeat_codec END,
        heartbeat_payload = CASE w.value->>'beat'
            WHEN 1 THEN unhex(w.value->>'payload') ELSE heartbeat_payload END,
        deadline_at = CASE w.value->>'beat'
            WHEN 1 THEN min(schedule_to_close_at, started_at + start_to_close_us, ?3 + heartbeat_us)
            ELSE deadline_at END
    FROM json_each(?1) w
    WHERE task_id = w.value->>'task_id' AND lease_epoch = w.value->>'epoch'
      AND status = 'leased' AND lease_owner = ?2 AND lease_expires_at > ?3
    RETURNING task_id, lease_epoch, lease_expires_at, coalesce(
        (SELECT r.inbox_seq FROM workflow_runs r WHERE r.run_id = workflow_tasks.run_id), 0)
        AS inbox_seq";

const OVERDUE: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks INDEXED BY workflow_tasks_deadline
      WHERE deadline_at < 4611686018427387904 AND deadline_at <= ?1
        AND (?3 IS NULL OR namespace = ?3)
      ORDER BY deadline_at, task_id LIMIT ?2"
);

const SWEEP: &str = "
    UPDATE workflow_tasks SET
        status = CASE WHEN stuck.recoveries > ?2 THEN 'blocked' ELSE 'ready' END,
        blocked_reason = CASE WHEN stuck.recoveries > ?2 THEN 'poison' ELSE NULL END,
        recover_count = stuck.recoveries, available_at = ?1,
        lease_owner = NULL, lease_epoch = lease_epoch + 1, leased_at = NULL, lease_expires_at = NULL,
        attempt_id = NULL, started_at = NULL, heartbeat_at = NULL,
        deadline_at = schedule_to_close_at
    FROM (
        SELECT task_id AS id, recover_count + CASE WHEN lease_owner IN (
                SELECT instance_id FROM engine_instances
                WHERE status IN ('live', 'draining') AND expires_at > ?1)
            THEN 0 ELSE 1 END AS recoveries
        FROM (
            SELECT *, row_number() OVER (PARTITION BY namespace, queue ORDER BY task_id) AS place
            FROM workflow_tasks WHERE status = 'leased'
                AND (?4 IS NULL OR namespace = ?4) AND (lease_expires_at <= ?1
                OR lease_owner IN (
                    SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead'))))
        ORDER BY place, task_id LIMIT ?3) AS stuck
    WHERE task_id = stuck.id
    RETURNING task_id, task_type, namespace, queue, status, 1 AS is_gone";

/// What somebody has who lives and has let his lease end. `RETURNING` knows nothing of what was.
const SLOW: &str = "
    SELECT task_id FROM workflow_tasks WHERE status = 'leased' AND lease_expires_at <= ?1
        AND lease_owner IN (SELECT instance_id FROM engine_instances
            WHERE status IN ('live', 'draining') AND expires_at > ?1)";

/// Open runs in the order of their index, and which of them lack their workflow task.
const UNATTENDED: &str = "
    SELECT run_id, started_at, CASE
        WHEN status NOT IN ('pending', 'running') AND wait_reason IS NOT 'timer'
            AND inbox_seq <= inbox_drained THEN CASE
                WHEN wait_reason = 'activity' AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
                    WHERE t.task_id > r.run_id || ':' AND t.task_id < r.run_id || ';') THEN 2
                ELSE 0 END
        WHEN EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.task_id = r.run_id || ':0') THEN 0
        ELSE 1 END AS lacks
    FROM workflow_runs r INDEXED BY workflow_runs_open
    WHERE closed_at IS NULL AND namespace = ?1 AND (started_at, run_id) > (?2, ?3)
    ORDER BY started_at, run_id LIMIT ?4";

/// A task to lease, with what a claim gives it.
#[derive(Debug, serde::Serialize)]
struct Taken {
    task_id: String,
    attempt_id: Option<String>,
}

/// A task that may be leased.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct Candidate {
    task_id: String,
}

/// Gives each task that is to be leased the id of its attempt.
fn taken(wanted: &Wanted, candidates: Vec<Candidate>) -> Vec<Taken> {
    let mut attempts = wanted.attempts.iter();
    let is_activity = wanted.kind == TaskKind::Activity;
    let taken = candidates.into_iter().map(|candidate| Taken {
        task_id: candidate.task_id,
        attempt_id: attempts
            .next()
            .filter(|_| is_activity)
            .map(ToString::to_string),
    });
    taken.collect()
}

/// What a claim found: what to lease, and when the next task will be due of a kind that has none.
struct Found {
    taken: Vec<Taken>,
    next_due: Option<i64>,
    /// From which shares it chose, where something with a key is due.
    shares: OfKinds<Share>,
}

pub(super) async fn claim(store: &Sqlite, claim: &Claim) -> Result<Claimed> {
    const WHAT: &str = "claiming tasks";
    // Most polls find nothing, and need not wait for the write lock to see that.
    let mut reader = store.reader.acquire().await.map_err(at(WHAT))?;
    let found = look(store, &mut reader, claim).await?;
    if found.taken.is_empty() {
        let looked = Looked {
            now: now(&mut reader).await?,
            next_due: found.next_due,
        };
        return answers::claimed(looked, Vec::new(), Vec::new());
    }
    drop(reader);
    let begun = super::begin(&store.writer).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let entered = quotas::enter(&mut transaction, claim).await?;
    let now: i64 = now(&mut transaction).await?;
    let bounded = claim.within(&entered, now);
    let found = look(store, &mut transaction, &bounded.claim).await?;
    let tasks: Vec<TaskRow> = sqlx::query_as(CLAIM)
        .bind(json(&found.taken)?)
        .bind(claim.owner.as_str())
        .bind(now)
        .bind(answers::until(now, claim.ttl))
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    for (kind, shares) in &found.shares {
        let charges = fairness::charges_of(shares, *kind, &tasks);
        shares::charge(&mut transaction, claim, (*kind, &charges)).await?;
    }
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    let looked = Looked {
        now,
        next_due: found.next_due,
    };
    let claimed = answers::claimed(looked, tasks, events)?;
    quotas::pay(&mut transaction, claim, (&entered, &claimed)).await?;
    transaction.commit().await.map_err(at_commit(WHAT))?;
    Ok(claimed.within(bounded))
}

async fn look(store: &Sqlite, connection: &mut SqliteConnection, claim: &Claim) -> Result<Found> {
    let (mut all, mut next, mut shares) = (Vec::new(), None::<i64>, Vec::new());
    for wanted in &claim.wanted {
        let due = shares::look(store, connection, (claim, wanted.kind)).await?;
        let candidates = match (&claim.only, due) {
            (None, None) => candidates(connection, claim, wanted).await?,
            (None, Some((now, due))) => {
                let portions = fairness::portions(&due, now, wanted.limit);
                shares.push((wanted.kind, due));
                portioned(connection, (claim, wanted), &portions).await?
            }
            // Nothing else waits: what is taken counts, and nothing is chosen.
            (Some(only), due) => {
                shares.extend(due.map(|_| (wanted.kind, Vec::new())));
                these(connection, (claim, wanted), only).await?
            }
        };
        if candidates.is_empty() && claim.only.is_none() {
            let due = next_due(connection, claim, wanted.kind).await?;
            next = [next, due].into_iter().flatten().min();
        }
        all.extend(taken(wanted, candidates));
    }
    Ok(Found {
        taken: all,
        next_due: next,
        shares,
    })
}

async fn next_due(
    connection: &mut SqliteConnection,
    claim: &Claim,
    kind: TaskKind,
) -> Result<Option<i64>> {
    let next = sqlx::query_scalar(NEXT_DUE)
        .bind(claim.namespace.as_str())
        .bind(claim.queue.as_str())
        .bind(kind.as_str())
        .fetch_one(connection);
    next.await.map_err(at("looking for tasks"))
}

pub(super) async fn now(connection: &mut SqliteConnection) -> Result<i64> {
    let now = sqlx::query_scalar(sql::CLOCK).fetch_one(connection);
    now.await.map_err(at("reading the clock"))
}

async fn scheduled(connection: &mut SqliteConnection, places: &[Place]) -> Result<Vec<RecordRow>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let events = sqlx::query_as(SCHEDULED).bind(json(places)?);
    let events = events.fetch_all(connection).await;
    events.map_err(at("reading what scheduled activities"))
}

pub(super) async fn renew(pool: &SqlitePool, renewal: &Renewal) -> Result<Renewed> {
    const WHAT: &str = "renewing leases";
    let begun = super::begin(pool).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let rows: Vec<RenewedRow> = sqlx::query_as(RENEW)
        .bind(json(&answers::renewals(renewal))?)
        .bind(renewal.owner.as_str())
        .bind(now)
        .bind(answers::until(now, renewal.ttl))
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    transaction.commit().await.map_err(at_commit(WHAT))?;
    Ok(answers::renewed(now, renewal, rows))
}

pub(super) async fn overdue(store: &Sqlite, limit: u32) -> Result<Vec<Overdue>> {
    const WHAT: &str = "looking for overdue activities";
    let mut transaction = store.reader.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let tasks: Vec<TaskRow> = sqlx::query_as(OVERDUE)
        .bind(now.min(NEVER))
        .bind(i64::from(limit))
        .bind(store.scope())
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let events = scheduled(&mut transaction, &answers::scheduled(&tasks)).await?;
    transaction.commit().await.map_err(at(WHAT))?;
    answers::overdue(now, tasks, events)
}

pub(super) async fn unattended(pool: &SqlitePool, page: &Unattended) -> Result<Lacking> {
    let after = page.after.as_ref();
    let rows: Vec<LookedAtRow> = sqlx::query_as(UNATTENDED)
        .bind(page.namespace.as_str())
        .bind(after.map_or(-1, |(at, _)| at.as_micros()))
        .bind(after.map_or("", |(_, run)| run.as_str()))
        .bind(i64::from(page.limit))
        .fetch_all(pool)
        .await
        .map_err(at("looking for runs without a task"))?;
    answers::unattended(page, &rows)
}

pub(super) async fn sweep(store: &Sqlite, sweep: &Sweep) -> Result<Swept> {
    const WHAT: &str = "taking tasks back";
    let begun = super::begin(&store.writer).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let slow = sqlx::query_scalar(SLOW).bind(now);
    let slow = slow.fetch_all(&mut *transaction).await;
    let slow: Vec<String> = slow.map_err(at(WHAT))?;
    let mut rows: Vec<SweptRow> = sqlx::query_as(SWEEP)
        .bind(now)
        .bind(signed(u64::from(sweep.poison_after)))
        .bind(i64::from(sweep.limit))
        .bind(store.scope())
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    transaction.commit().await.map_err(at_commit(WHAT))?;
    for row in &mut rows {
        row.is_gone = i64::from(!slow.contains(&row.task_id));
    }
    answers::swept(rows)
}

#[cfg(test)]
mod tests;

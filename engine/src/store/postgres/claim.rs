//! Leases.

use coord_core::{Error, Result};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{FromRow, Row};

use super::super::answers::{self, Looked, LookedAtRow, Place, RenewedRow, SweptRow};
use super::super::rows::{RecordRow, TaskRow, signed, task_columns};
use super::super::{
    Claim, Claimed, Lacking, Overdue, Renewal, Renewed, Sweep, Swept, Unattended, Wanted,
};
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::{self, clock, event_columns, never};
use super::{Postgres, READ, Statements, Transaction, WRITE};
use crate::model::TaskKind;

/// The due tasks of one kind in the order of the index. No more are locked than are taken: a
/// priority is probed only while the ones before it left something to take.
macro_rules! due {
    ($kind:literal, $names:literal, $most:literal) => {
        concat!(
            "AS MATERIALIZED (
        SELECT probe.task_id
        FROM generate_series(0, 9) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT t.task_id FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2
              AND t.task_type = '",
            $kind,
            "' AND t.priority = p.priority AND t.available_at <= (SELECT now FROM clock)
              AND t.name = ANY (",
            $names,
            ")
              AND (t.compatibility IS NULL OR $3::text[] IS NULL OR t.compatibility = ANY ($3))
            ORDER BY t.available_at, t.task_id LIMIT ",
            $most,
            " FOR UPDATE SKIP LOCKED) probe
        LIMIT ",
            $most,
            ")"
        )
    };
}

/// Takes due tasks of both kinds, and looks when the next one will be due of a kind that has none.
const CLAIM: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    clock!(),
    " AS now),
     turns ",
    due!("workflow", "$4", "$5"),
    ",
     activities ",
    due!("activity", "$6", "$7"),
    ",
     attempts AS MATERIALIZED (SELECT array_agg(task_id) AS ids FROM activities),
     taken AS MATERIALIZED (
        SELECT (SELECT array_agg(task_id) FROM turns) || (SELECT ids FROM attempts) AS ids),
     claimed AS (
        UPDATE workflow_tasks w SET status = 'leased', lease_owner = $8,
            lease_epoch = lease_epoch + 1, attempt_count = attempt_count + 1,
            leased_at = clock.now, lease_expires_at = least(clock.now + $9, ",
    never!(),
    "),
            started_at = clock.now, heartbeat_at = clock.now,
            attempt_id = ($10::text[])[array_position((SELECT ids FROM attempts), w.task_id)],
            deadline_at = least(schedule_to_close_at, clock.now + start_to_close_us,
                clock.now + heartbeat_us)
        FROM clock WHERE w.task_id = ANY ((SELECT ids FROM taken)::text[])
        RETURNING w.task_id, task_type, namespace, queue, priority, status, available_at,
            workflow_id, run_id, step_seq, name, compatibility, attempt_count, recover_count,
            lease_owner, lease_epoch, leased_at, lease_expires_at, blocked_reason, last_error,
            created_at, scheduled_seq, attempt_id, started_at, heartbeat_at, heartbeat_codec,
            heartbeat_payload, schedule_to_start_at, schedule_to_close_at, start_to_close_us,
            heartbeat_us, deadline_at),
     missed AS MATERIALIZED (
        SELECT 'workflow' AS kind WHERE $5 > 0 AND NOT EXISTS (SELECT FROM turns)
        UNION ALL
        SELECT 'activity' WHERE $7 > 0 AND NOT EXISTS (SELECT FROM activities)),
     next AS MATERIALIZED (
        SELECT min(probe.due) AS due
        FROM missed CROSS JOIN generate_series(0, 9) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT t.available_at AS due FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2
              AND t.task_type = missed.kind AND t.priority = p.priority
              AND t.available_at > (SELECT now FROM clock)
            ORDER BY t.available_at LIMIT 1) probe)
     SELECT clock.now, next.due, claimed.*
     FROM clock CROSS JOIN next LEFT JOIN claimed ON true"
);

const SCHEDULED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM unnest($1::text[], $2::int8[]) AS w (run_id, seq)
      JOIN workflow_history h ON h.run_id = w.run_id AND h.seq = w.seq"
);

const LOCK: &str =
    "SELECT task_id FROM workflow_tasks WHERE task_id = ANY ($1) ORDER BY task_id FOR UPDATE";

const RENEW: &str = "
    UPDATE workflow_tasks t SET lease_expires_at = greatest(lease_expires_at, $8),
        heartbeat_at = CASE w.beat WHEN 1 THEN $7 ELSE heartbeat_at END,
        heartbeat_codec = CASE w.beat WHEN 1 THEN w.codec ELSE heartbeat_codec END,
        heartbeat_payload = CASE w.beat WHEN 1 THEN w.payload ELSE heartbeat_payload END,
        deadline_at = CASE w.beat
            WHEN 1 THEN least(schedule_to_close_at, started_at + start_to_close_us, $7 + heartbeat_us)
            ELSE deadline_at END
    FROM unnest($1::text[], $2::int8[], $3::int2[], $4::text[], $5::bytea[])
        AS w (task_id, epoch, beat, codec, payload)
    WHERE t.task_id = w.task_id AND t.lease_epoch = w.epoch
      AND t.status = 'leased' AND t.lease_owner = $6 AND t.lease_expires_at > $7
    RETURNING t.task_id, t.lease_epoch, t.lease_expires_at, coalesce(
        (SELECT r.inbox_seq FROM workflow_runs r WHERE r.run_id = t.run_id), 0) AS inbox_seq";

const OVERDUE: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks WHERE deadline_at < 4611686018427387904 AND deadline_at <= $1
        AND ($3::text IS NULL OR namespace = $3)
      ORDER BY deadline_at, task_id LIMIT $2"
);

const SWEEP: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    clock!(),
    " AS now),
     ranked AS (
        SELECT task_id, row_number() OVER (PARTITION BY namespace, queue ORDER BY task_id) AS place
        FROM workflow_tasks WHERE status = 'leased'
          AND ($3::text IS NULL OR namespace = $3)
          AND (lease_expires_at <= (SELECT now FROM clock) OR lease_owner IN (
              SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead')))),
     wanted AS MATERIALIZED (
        SELECT array_agg(task_id) AS ids
        FROM (SELECT task_id FROM ranked ORDER BY place, task_id LIMIT $2) AS first),
     stuck AS MATERIALIZED (
        SELECT task_id, recover_count + CASE WHEN lease_owner IN (
                SELECT instance_id FROM engine_instances
                WHERE status IN ('live', 'draining') AND expires_at > (SELECT now FROM clock))
            THEN 0 ELSE 1 END AS recoveries
        FROM workflow_tasks
        WHERE task_id = ANY ((SELECT ids FROM wanted)::text[]) AND status = 'leased'
          AND (lease_expires_at <= (SELECT now FROM clock) OR lease_owner IN (
              SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead')))
        ORDER BY task_id FOR UPDATE SKIP LOCKED),
     taken AS MATERIALIZED (SELECT array_agg(task_id) AS ids FROM stuck)
     UPDATE workflow_tasks t SET
        status = CASE WHEN recoveries > $1 THEN 'blocked' ELSE 'ready' END,
        blocked_reason = CASE WHEN recoveries > $1 THEN 'poison' END,
        recover_count = recoveries, available_at = clock.now,
        lease_owner = NULL, lease_epoch = lease_epoch + 1, leased_at = NULL, lease_expires_at = NULL,
        attempt_id = NULL, started_at = NULL, heartbeat_at = NULL,
        deadline_at = schedule_to_close_at
     FROM clock, stuck
     WHERE t.task_id = ANY ((SELECT ids FROM taken)::text[]) AND t.task_id = stuck.task_id
     RETURNING t.task_id, task_type, namespace, queue, status"
);

/// Open runs in the order of their index, and which of them lack their workflow task.
const UNATTENDED: &str = "
    SELECT run_id, started_at, CASE
        WHEN status NOT IN ('pending', 'running') AND wait_reason IS DISTINCT FROM 'timer'
            AND inbox_seq <= inbox_drained THEN 0::bigint
        WHEN EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.task_id = r.run_id || ':0') THEN 0
        ELSE 1 END AS lacks
    FROM workflow_runs r
    WHERE closed_at IS NULL AND namespace = $1 AND (started_at, run_id) > ($2, $3)
    ORDER BY started_at, run_id LIMIT $4";

pub(super) const CLAIMING: &str = "claiming tasks";

pub(super) async fn claim(store: &Postgres, claim: &Claim) -> Result<Claimed> {
    let mut connection = Single::begin(store, CLAIMING).await?;
    let claimed = take(store.statements, &mut connection, claim).await?;
    connection.end(store, CLAIMING).await?;
    Ok(claimed)
}

/// Claims, over a connection or in a transaction.
pub(super) async fn take(
    statements: Statements,
    connection: &mut PgConnection,
    claim: &Claim,
) -> Result<Claimed> {
    const WHAT: &str = CLAIMING;
    let of = |kind| claim.wanted_of(kind);
    let names = |wanted: Option<&Wanted>| wanted.map_or(Vec::new(), |it| texts(&it.names));
    let most = |wanted: Option<&Wanted>| wanted.map_or(0, |it| i64::from(it.limit));
    let (turns, activities) = (of(TaskKind::Workflow), of(TaskKind::Activity));
    let rows = statements
        .done(CLAIM)
        .bind(claim.namespace.as_str())
        .bind(claim.queue.as_str())
        .bind(claim.builds.as_ref().map(|builds| texts(builds)))
        .bind(names(turns))
        .bind(most(turns))
        .bind(names(activities))
        .bind(most(activities))
        .bind(claim.owner.as_str())
        .bind(answers::span(claim.ttl))
        .bind(activities.map_or(Vec::new(), |it| texts(&it.attempts)))
        .fetch_all(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    let (looked, tasks) = looked(&rows).map_err(at(WHAT))?;
    // Events do not change, so they are read after the claim, which is a transaction of its own.
    let places = answers::scheduled(&tasks);
    let events = scheduled(statements, connection, &places);
    let unread = |error: Error| Error::timeout(WHAT).with_source(error);
    answers::claimed(looked, tasks, events.await.map_err(unread)?)
}

fn looked(rows: &[PgRow]) -> Result<(Looked, Vec<TaskRow>), sqlx::Error> {
    let (mut looked, mut tasks) = (Looked::default(), Vec::with_capacity(rows.len()));
    for row in rows {
        looked.now = row.try_get("now")?;
        looked.next_due = row.try_get("due")?;
        if row.try_get::<Option<&str>, _>("task_id")?.is_some() {
            tasks.push(TaskRow::from_row(row)?);
        }
    }
    Ok((looked, tasks))
}

/// Ids as an array.
fn texts<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) async fn now(transaction: &mut Transaction<'_>) -> Result<i64> {
    let now = transaction.statements.rows(sql::CLOCK);
    let now = now.fetch_one(&mut *transaction.inner).await;
    let (now,) = now.map_err(at("reading the clock"))?;
    Ok(now)
}

async fn scheduled(
    statements: Statements,
    connection: &mut PgConnection,
    places: &[Place],
) -> Result<Vec<RecordRow>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Vec<_> = places.iter().map(|place| place.run_id.as_str()).collect();
    let numbers: Vec<_> = places.iter().map(|place| place.seq).collect();
    let events = statements.rows(SCHEDULED).bind(runs);
    let events = events.bind(numbers).fetch_all(connection);
    events
        .await
        .map_err(at("reading what scheduled activities"))
}

pub(super) async fn renew(store: &Postgres, renewal: &Renewal) -> Result<Renewed> {
    const WHAT: &str = "renewing leases";
    let rows = answers::renewals(renewal);
    let tasks: Vec<_> = rows.iter().map(|row| row.task_id.as_str()).collect();
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let locked = store.statements.done(LOCK).bind(&tasks);
    let locked = locked.execute(&mut *transaction.inner).await;
    locked.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let renewed: Vec<RenewedRow> = store
        .statements
        .rows(RENEW)
        .bind(&tasks)
        .bind(rows.iter().map(|row| row.epoch).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.beat).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| &row.codec).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| &row.payload).collect::<Vec<_>>())
        .bind(renewal.owner.as_str())
        .bind(now)
        .bind(answers::until(now, renewal.ttl))
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let committed = transaction.inner.commit().await;
    committed.map_err(at_commit(WHAT))?;
    Ok(answers::renewed(now, renewal, renewed))
}

pub(super) async fn overdue(store: &Postgres, limit: u32) -> Result<Vec<Overdue>> {
    const WHAT: &str = "looking for overdue activities";
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let tasks: Vec<TaskRow> = store
        .statements
        .rows(OVERDUE)
        .bind(now)
        .bind(i64::from(limit))
        .bind(store.scope())
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let places = answers::scheduled(&tasks);
    let events = scheduled(store.statements, &mut transaction.inner, &places).await?;
    answers::overdue(now, tasks, events)
}

pub(super) async fn unattended(store: &Postgres, page: &Unattended) -> Result<Lacking> {
    const WHAT: &str = "looking for runs without a task";
    let after = page.after.as_ref();
    let mut connection = Single::begin(store, WHAT).await?;
    let rows: Vec<LookedAtRow> = store
        .statements
        .rows(UNATTENDED)
        .bind(page.namespace.as_str())
        .bind(after.map_or(-1, |(at, _)| at.as_micros()))
        .bind(after.map_or("", |(_, run)| run.as_str()))
        .bind(i64::from(page.limit))
        .fetch_all(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::unattended(page, &rows)
}

pub(super) async fn sweep(store: &Postgres, sweep: &Sweep) -> Result<Swept> {
    const WHAT: &str = "taking tasks back";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows: Vec<SweptRow> = store
        .statements
        .rows(SWEEP)
        .bind(signed(u64::from(sweep.poison_after)))
        .bind(i64::from(sweep.limit))
        .bind(store.scope())
        .fetch_all(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::swept(rows)
}

#[cfg(test)]
mod tests;

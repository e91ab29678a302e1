//! Leases.

use coord_core::{Error, Result};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{FromRow, Row};

use super::super::answers::{self, Looked, LookedAtRow, Place, RenewedRow, SweptRow};
use super::super::fairness::{self, Charge, OfKind, OfKinds, Portion, Share};
use super::super::rows::{RecordRow, TaskRow, signed, task_columns};
use super::super::{
    Claim, Claimed, Lacking, Overdue, Renewal, Renewed, Sweep, Swept, Unattended, Wanted,
};
use super::batch::{PgQuery, bind};
use super::error::{at, at_commit};
use super::handed::{self, leased, of_code};
use super::shares;
use super::single::Single;
use super::sql::{self, clock, event_columns, never};
use super::{Postgres, READ, Statements, Transaction, WRITE};
use crate::model::{Priority, TaskKind};

/// The due tasks of one kind from portions of shares, each in the order of the index. No more are
/// locked than are taken: a portion is probed only while the ones before it left something to take.
macro_rules! due {
    ($kind:literal, $names:literal, $most:literal, $portions:literal, $code:expr) => {
        concat!(
            "AS MATERIALIZED (
        SELECT probe.task_id
        FROM unnest(",
            $portions,
            ") AS p (fairness_key, priority, most, beyond)
        CROSS JOIN LATERAL (
            SELECT t.task_id FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2
              AND t.task_type = '",
            $kind,
            "' AND t.fairness_key = p.fairness_key AND t.priority = p.priority
              AND t.available_at <= (SELECT now FROM clock)
              AND t.name = ANY (",
            $names,
            ")
              AND (t.compatibility IS NULL OR $3::text[] IS NULL OR t.compatibility = ANY ($3))",
            $code,
            " ORDER BY t.available_at, t.task_id LIMIT p.most OFFSET p.beyond
            FOR UPDATE SKIP LOCKED) probe
        LIMIT ",
            $most,
            ")"
        )
    };
}

/// Whether a task of one kind that has a key is due.
macro_rules! is_shared {
    ($kind:literal, $most:literal) => {
        concat!(
            $most,
            " > 0 AND EXISTS (SELECT FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.fairness_key > '' AND t.namespace = $1
              AND t.queue = $2 AND t.task_type = '",
            $kind,
            "' AND t.available_at <= (SELECT now FROM clock))"
        )
    };
}

/// Takes due tasks of both kinds, and looks when the next one will be due of a kind that has none,
/// and whether something with a key is due.
pub(super) const CLAIM: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    clock!(),
    " AS now),
     turns ",
    due!(
        "workflow",
        "$4",
        "$5",
        "$11::text[], $12::int2[], $13::int8[], $14::int8[]",
        of_code!("$19")
    ),
    ",
     activities ",
    due!(
        "activity",
        "$6",
        "$7",
        "$15::text[], $16::int2[], $17::int8[], $18::int8[]",
        ""
    ),
    ",
     ",
    leased!(),
    ",
     missed AS MATERIALIZED (
        SELECT 'workflow' AS kind WHERE $5 > 0 AND NOT EXISTS (SELECT FROM turns)
        UNION ALL
        SELECT 'activity' WHERE $7 > 0 AND NOT EXISTS (SELECT FROM activities)),
     next AS MATERIALIZED (
        SELECT min(probe.due) AS due FROM missed CROSS JOIN LATERAL (
            SELECT own.due FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
                SELECT t.available_at AS due FROM workflow_tasks t
                WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2
                  AND t.task_type = missed.kind AND t.fairness_key = ''
                  AND t.priority = p.priority AND t.available_at > (SELECT now FROM clock)
                ORDER BY t.available_at LIMIT 1) own
            UNION ALL
            (SELECT t.available_at FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.fairness_key > '' AND t.namespace = $1
              AND t.queue = $2 AND t.task_type = missed.kind
              AND t.available_at > (SELECT now FROM clock)
            ORDER BY t.available_at LIMIT 1)) probe),
     shared AS MATERIALIZED (
        SELECT ",
    is_shared!("workflow", "$5"),
    " OR ",
    is_shared!("activity", "$7"),
    " AS is_shared)
     SELECT clock.now, next.due, shared.is_shared, claimed.*
     FROM clock CROSS JOIN next CROSS JOIN shared LEFT JOIN claimed ON true"
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
            THEN 0 ELSE 1 END AS recoveries, recover_count AS recovered
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
     RETURNING t.task_id, task_type, namespace, queue, status,
        (recoveries - recovered)::int8 AS is_gone"
);

/// Open runs in the order of their index, and which of them lack their workflow task.
const UNATTENDED: &str = "
    SELECT run_id, started_at, CASE
        WHEN status NOT IN ('pending', 'running') AND wait_reason IS DISTINCT FROM 'timer'
            AND inbox_seq <= inbox_drained THEN CASE
                WHEN wait_reason = 'activity' AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
                    WHERE t.task_id > r.run_id || ':' AND t.task_id < r.run_id || ';') THEN 2::bigint
                ELSE 0::bigint END
        WHEN EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.task_id = r.run_id || ':0') THEN 0
        ELSE 1 END AS lacks
    FROM workflow_runs r
    WHERE closed_at IS NULL AND namespace = $1 AND (started_at, run_id) > ($2, $3)
    ORDER BY started_at, run_id LIMIT $4";

pub(super) const CLAIMING: &str = "claiming tasks";

pub(super) async fn claim(store: &Postgres, claim: &Claim) -> Result<Claimed> {
    let mut connection = Single::begin(store, CLAIMING).await?;
    let (claimed, charges) = handed::take(store, &mut connection, claim).await?;
    connection.end(store, CLAIMING).await?;
    shares::charge(store, claim, &charges).await;
    Ok(claimed)
}

/// Claims, over a connection or in a transaction. What it took of shares is still to be charged.
pub(super) async fn take(
    store: &Postgres,
    connection: &mut PgConnection,
    claim: &Claim,
) -> Result<(Claimed, OfKinds<Charge>)> {
    if !store.shared.contains(claim) {
        let without_keys = claim
            .wanted
            .iter()
            .map(|it| (it.kind, without_keys(it.limit)));
        let portions: OfKinds<Portion> = without_keys.collect();
        let taken = take_portions(store, connection, claim, (&portions, &[])).await?;
        // Most queues know no keys, and this was all. Otherwise it is to be chosen.
        if !taken.is_shared || !taken.claimed.tasks.is_empty() {
            return Ok((taken.claimed, Vec::new()));
        }
    }
    let (now, shares) = shares::look(store, connection, claim).await?;
    let portions = claim.wanted.iter().map(|wanted| {
        let of_kind = shares.iter().find(|(kind, _)| *kind == wanted.kind);
        let of_kind = of_kind.map_or(&[][..], |(_, shares)| shares);
        (wanted.kind, fairness::portions(of_kind, now, wanted.limit))
    });
    let portions: OfKinds<Portion> = portions.collect();
    let taken = take_portions(store, connection, claim, (&portions, &shares)).await?;
    Ok((taken.claimed, taken.charges))
}

/// A portion of each priority, for a queue in which nothing that has a key is due.
fn without_keys(limit: u32) -> Vec<Portion> {
    let portions = (0..i16::from(Priority::COUNT)).map(|priority| Portion {
        fairness_key: String::new(),
        priority,
        most: i64::from(limit),
        beyond: 0,
    });
    portions.collect()
}

/// What a claim got.
struct Taken {
    claimed: Claimed,
    /// Whether something with a key was due.
    is_shared: bool,
    charges: OfKinds<Charge>,
}

async fn take_portions(
    store: &Postgres,
    connection: &mut PgConnection,
    claim: &Claim,
    (portions, shares): (&[OfKind<Portion>], &[OfKind<Share>]),
) -> Result<Taken> {
    const WHAT: &str = CLAIMING;
    let mut query = of_claim(store.statements.done(CLAIM), claim);
    for kind in [TaskKind::Workflow, TaskKind::Activity] {
        let of_kind = portions.iter().find(|(of, _)| *of == kind);
        let of_kind = of_kind.map_or(&[][..], |(_, portions)| portions);
        query = bind!(query, of_kind; fairness_key priority most beyond);
    }
    let code = claim.fingerprints.as_ref().map(|known| texts(known));
    let rows = query.bind(code).fetch_all(&mut *connection).await;
    let rows = rows.map_err(at_commit(WHAT))?;
    let (looked, is_shared, tasks) = looked(&rows).map_err(at(WHAT))?;
    store.shared.set(claim, is_shared);
    let charges = shares.iter().map(|(kind, shares)| {
        let charges = fairness::charges_of(shares, *kind, &tasks);
        (*kind, charges)
    });
    let charges = charges.collect();
    // Events do not change, so they are read after the claim, which is a transaction of its own.
    let places = answers::scheduled(&tasks);
    let events = scheduled(store.statements, connection, &places);
    let unread = |error: Error| Error::timeout(WHAT).with_source(error);
    Ok(Taken {
        claimed: answers::claimed(looked, tasks, events.await.map_err(unread)?)?,
        is_shared,
        charges,
    })
}

/// Binds what every claim says, whatever it is to take: the parameters 1 to 10.
pub(super) fn of_claim<'q>(query: PgQuery<'q>, claim: &'q Claim) -> PgQuery<'q> {
    let of = |kind| claim.wanted_of(kind);
    let names = |wanted: Option<&Wanted>| wanted.map_or(Vec::new(), |it| texts(&it.names));
    let most = |wanted: Option<&Wanted>| wanted.map_or(0, |it| i64::from(it.limit));
    let (turns, activities) = (of(TaskKind::Workflow), of(TaskKind::Activity));
    query
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
}

pub(super) fn looked(rows: &[PgRow]) -> Result<(Looked, bool, Vec<TaskRow>), sqlx::Error> {
    let (mut looked, mut is_shared) = (Looked::default(), false);
    let mut tasks = Vec::with_capacity(rows.len());
    for row in rows {
        looked.now = row.try_get("now")?;
        looked.next_due = row.try_get("due")?;
        is_shared = row.try_get("is_shared")?;
        if row.try_get::<Option<&str>, _>("task_id")?.is_some() {
            tasks.push(TaskRow::from_row(row)?);
        }
    }
    Ok((looked, is_shared, tasks))
}

/// Ids as an array.
pub(super) fn texts<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) async fn now(transaction: &mut Transaction<'_>) -> Result<i64> {
    let now = transaction.statements.rows(sql::CLOCK);
    let now = now.fetch_one(&mut *transaction.inner).await;
    let (now,) = now.map_err(at("reading the clock"))?;
    Ok(now)
}

pub(super) async fn scheduled(
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

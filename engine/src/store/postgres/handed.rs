//! Claims of certain tasks: those that were handed over to whoever claims.

use coord_core::{Error, Result};
use sqlx::postgres::PgConnection;

use super::super::answers;
use super::super::fairness::{self, Charge, OfKinds};
use super::super::{Claim, Claimed};
use super::Postgres;
use super::claim::{self, CLAIMING, looked, of_claim, scheduled, texts};
use super::error::{at, at_commit};
use super::sql::{clock, never};
use crate::model::TaskId;

/// Leases what `turns` and `activities` have found.
macro_rules! leased {
    () => {
        concat!(
            "attempts AS MATERIALIZED (SELECT array_agg(task_id) AS ids FROM activities),
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
            heartbeat_us, deadline_at, fairness_key, fairness_weight)"
        )
    };
}
pub(super) use leased;

/// Not those of runs that began with other code than the claimer has.
macro_rules! of_code {
    ($known:literal) => {
        concat!(
            " AND (",
            $known,
            "::text[] IS NULL OR NOT EXISTS (SELECT FROM workflow_runs began
                WHERE began.run_id = t.run_id AND began.fingerprint IS NOT NULL
                  AND began.fingerprint <> ALL (",
            $known,
            ")))"
        )
    };
}
pub(super) use of_code;

/// Those of certain tasks of one kind that may be claimed.
macro_rules! these {
    ($kind:literal, $names:literal, $most:literal, $code:expr) => {
        concat!(
            "AS MATERIALIZED (
        SELECT t.task_id FROM workflow_tasks t
        WHERE t.task_id = ANY ($11) AND t.status = 'ready' AND t.namespace = $1
          AND t.queue = $2 AND t.task_type = '",
            $kind,
            "' AND t.available_at <= (SELECT now FROM clock) AND t.name = ANY (",
            $names,
            ")
          AND (t.compatibility IS NULL OR $3::text[] IS NULL OR t.compatibility = ANY ($3))",
            $code,
            " ORDER BY t.priority, t.available_at, t.task_id LIMIT ",
            $most,
            " FOR UPDATE SKIP LOCKED)"
        )
    };
}

const CLAIM: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    clock!(),
    " AS now),
     turns ",
    these!("workflow", "$4", "$5", of_code!("$12")),
    ",
     activities ",
    these!("activity", "$6", "$7", ""),
    ",
     ",
    leased!(),
    " SELECT clock.now, NULL::int8 AS due, false AS is_shared, claimed.*
     FROM clock LEFT JOIN claimed ON true"
);

/// Claims, over a connection or in a transaction. What it took of shares is still to be charged.
pub(super) async fn take(
    store: &Postgres,
    connection: &mut PgConnection,
    claim: &Claim,
) -> Result<(Claimed, OfKinds<Charge>)> {
    match &claim.only {
        None => claim::take(store, connection, claim).await,
        Some(only) => take_these(store, connection, (claim, only)).await,
    }
}

async fn take_these(
    store: &Postgres,
    connection: &mut PgConnection,
    (claim, only): (&Claim, &[TaskId]),
) -> Result<(Claimed, OfKinds<Charge>)> {
    const WHAT: &str = CLAIMING;
    let rows = of_claim(store.statements.done(CLAIM), claim)
        .bind(texts(only))
        .bind(claim.fingerprints.as_ref().map(|known| texts(known)))
        .fetch_all(&mut *connection)
        .await;
    let rows = rows.map_err(at_commit(WHAT))?;
    let (looked, _, tasks) = looked(&rows).map_err(at(WHAT))?;
    let is_shared =
        store.shared.contains(claim) || tasks.iter().any(|task| !task.fairness_key.is_empty());
    // Nothing was chosen among shares, since nothing else waits; what was taken counts all the same.
    let kinds = claim.wanted.iter().filter(|_| is_shared);
    let charges = kinds.map(|wanted| {
        let charges = fairness::charges_of(&[], wanted.kind, &tasks);
        (wanted.kind, charges)
    });
    let charges = charges.collect();
    let places = answers::scheduled(&tasks);
    let events = scheduled(store.statements, connection, &places).await;
    let unread = |error: Error| Error::timeout(WHAT).with_source(error);
    let claimed = answers::claimed(looked, tasks, events.map_err(unread)?)?;
    Ok((claimed, charges))
}

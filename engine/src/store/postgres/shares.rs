//! Shares of a queue: what is ready under which key, and what each was served.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use coord_core::Result;
use sqlx::postgres::PgConnection;

use super::super::fairness::{COMPARED, Charge, OfKind, OfKinds, Share};
use super::super::{Claim, answers};
use super::Postgres;
use super::claim::CLAIMING;
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::clock;
use crate::committer::locked;
use crate::model::{Namespace, Queue, TaskKind};

/// What each share was served, beside those that `shares` finds.
macro_rules! with_served {
    ($shares:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $shares,
            " SELECT ",
            clock!(),
            " AS now, w.fairness_key, w.priority, w.due, s.fairness_weight, s.served
              FROM shares w LEFT JOIN LATERAL (
                SELECT fairness_weight, served FROM engine_shares s
                WHERE s.namespace = $1 AND s.queue = $2 AND s.task_type = $3
                  AND s.fairness_key = w.fairness_key AND s.priority = w.priority
                OFFSET 0) s ON true
              ORDER BY w.fairness_key, w.priority"
        )
    };
}

/// The share of tasks without a key, a row each priority, and that of the task with a key that is
/// due for the longest.
const ALWAYS: &str = with_served!(
    "shares AS MATERIALIZED (
        SELECT '' AS fairness_key, p.priority::int2 AS priority, probe.due
        FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
            SELECT t.available_at AS due FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2 AND t.task_type = $3
              AND t.fairness_key = '' AND t.priority = p.priority
            ORDER BY t.available_at LIMIT 1) probe
        UNION ALL
        (SELECT t.fairness_key, t.priority, t.available_at FROM workflow_tasks t
        WHERE t.status = 'ready' AND t.fairness_key > '' AND t.namespace = $1 AND t.queue = $2
          AND t.task_type = $3
        ORDER BY t.available_at LIMIT 1))"
);

/// A page of those that have a key: each is one look at the index, whatever it holds.
const PAGE: &str = with_served!(
    "shares (fairness_key, priority, due, place) AS (
        (SELECT t.fairness_key, t.priority, t.available_at, 1::int8 FROM workflow_tasks t
        WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2 AND t.task_type = $3
          AND t.fairness_key > $4
        ORDER BY t.fairness_key, t.priority, t.available_at LIMIT 1)
        UNION ALL
        SELECT n.fairness_key, n.priority, n.available_at, w.place + 1
        FROM shares w CROSS JOIN LATERAL (
            SELECT t.fairness_key, t.priority, t.available_at FROM workflow_tasks t
            WHERE t.status = 'ready' AND t.namespace = $1 AND t.queue = $2 AND t.task_type = $3
              AND (t.fairness_key, t.priority) > (w.fairness_key, w.priority)
            ORDER BY t.fairness_key, t.priority, t.available_at LIMIT 1) n
        WHERE w.place < $5)"
);

/// Locks the rows in their order.
const CHARGE: &str = concat!(
    "INSERT INTO engine_shares AS s (namespace, queue, task_type, fairness_key, priority,
        fairness_weight, served, served_at)
     SELECT $1, $2, $3, w.fairness_key, w.priority, w.fairness_weight, w.start + w.cost, ",
    clock!(),
    " FROM unnest($4::text[], $5::int2[], $6::int2[], $7::int8[], $8::int8[])
        AS w (fairness_key, priority, fairness_weight, start, cost)
     ON CONFLICT (namespace, queue, task_type, fairness_key, priority) DO UPDATE SET
        fairness_weight = excluded.fairness_weight,
        served = (SELECT greatest(s.served + w.cost, excluded.served)
            FROM unnest($4::text[], $5::int2[], $8::int8[]) AS w (fairness_key, priority, cost)
            WHERE w.fairness_key = excluded.fairness_key AND w.priority = excluded.priority),
        served_at = excluded.served_at"
);

/// Those of which nothing was claimed for long.
const FORGET: &str = concat!(
    "DELETE FROM engine_shares
     WHERE (namespace, queue, task_type, fairness_key, priority) IN (
        SELECT s.namespace, s.queue, s.task_type, s.fairness_key, s.priority
        FROM engine_shares s WHERE s.served_at <= ",
    clock!(),
    " - $1 AND ($3::text IS NULL OR s.namespace = $3) LIMIT $2 FOR UPDATE SKIP LOCKED)"
);

/// The queues in which something with a key was due when they were looked at last.
#[derive(Default, Debug)]
pub(super) struct Shared(Mutex<HashSet<(Namespace, Queue)>>);

impl Shared {
    pub(super) fn contains(&self, claim: &Claim) -> bool {
        let queue = (claim.namespace.clone(), claim.queue.clone());
        locked(&self.0).contains(&queue)
    }

    pub(super) fn set(&self, claim: &Claim, is_shared: bool) {
        let queue = (claim.namespace.clone(), claim.queue.clone());
        let mut shared = locked(&self.0);
        if is_shared {
            shared.insert(queue);
        } else {
            shared.remove(&queue);
        }
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    now: i64,
    #[sqlx(flatten)]
    share: Share,
}

/// The due shares of each kind that `claim` wants, and when it was looked.
pub(super) async fn look(
    store: &Postgres,
    connection: &mut PgConnection,
    claim: &Claim,
) -> Result<(i64, OfKinds<Share>)> {
    let (mut now, mut of_kinds) = (0, Vec::new());
    for wanted in &claim.wanted {
        let kind = wanted.kind.as_str();
        let mut tour = store.tours.begin(claim, wanted.kind);
        let always = store.statements.rows(ALWAYS).bind(claim.namespace.as_str());
        let always = always.bind(claim.queue.as_str()).bind(kind);
        let always: Vec<Row> = always
            .fetch_all(&mut *connection)
            .await
            .map_err(at(CLAIMING))?;
        if let Some(row) = always.first() {
            now = row.now;
        }
        let is_due = |row: &Row| !row.share.fairness_key.is_empty() && row.share.due <= now;
        let is_shared = always.iter().any(is_due);
        tour.seed(always.into_iter().map(|row| row.share), now);
        while let Some(after) = tour.after().filter(|_| is_shared) {
            let page = store.statements.rows(PAGE).bind(claim.namespace.as_str());
            let page = page.bind(claim.queue.as_str()).bind(kind).bind(after);
            let page = page.bind(COMPARED).fetch_all(&mut *connection).await;
            let page: Vec<Row> = page.map_err(at(CLAIMING))?;
            tour.add(page.into_iter().map(|row| row.share).collect(), now);
        }
        of_kinds.push((wanted.kind, store.tours.end(tour)));
    }
    Ok((now, of_kinds))
}

/// Charges what was claimed, after it was: so no claim waits for another. What is lost of it, with
/// its process or with the database, costs the others a few turns.
pub(super) async fn charge(store: &Postgres, claim: &Claim, charges: &[OfKind<Charge>]) {
    for (kind, charges) in charges.iter().filter(|(_, charges)| !charges.is_empty()) {
        // The next call says what is wrong with the database.
        _ = charge_of(store, claim, *kind, charges).await;
    }
}

async fn charge_of(
    store: &Postgres,
    claim: &Claim,
    kind: TaskKind,
    charges: &[Charge],
) -> Result<()> {
    const WHAT: &str = "charging shares";
    let keys: Vec<_> = charges.iter().map(|it| it.fairness_key.as_str()).collect();
    let mut connection = Single::begin(store, WHAT).await?;
    let charged = store
        .statements
        .done(CHARGE)
        .bind(claim.namespace.as_str())
        .bind(claim.queue.as_str())
        .bind(kind.as_str())
        .bind(keys)
        .bind(charges.iter().map(|it| it.priority).collect::<Vec<_>>())
        .bind(
            charges
                .iter()
                .map(|it| it.fairness_weight)
                .collect::<Vec<_>>(),
        )
        .bind(charges.iter().map(|it| it.start).collect::<Vec<_>>())
        .bind(charges.iter().map(|it| it.cost).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await;
    charged.map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await
}

/// Lets go of what shares were served that had nothing to do for `idle`.
pub(super) async fn forget(
    store: &Postgres,
    connection: &mut PgConnection,
    (idle, limit): (Duration, u32),
) -> Result<()> {
    let gone = store.statements.done(FORGET).bind(answers::span(idle));
    let gone = gone.bind(i64::from(limit)).bind(store.scope());
    let gone = gone.execute(connection).await;
    gone.map_err(at_commit("forgetting shares"))?;
    Ok(())
}

#[cfg(test)]
mod tests;

//! Shares of a queue: what is ready under which key, and what each was served.

use std::time::Duration;

use coord_core::Result;
use sqlx::sqlite::SqliteConnection;

use super::super::fairness::{COMPARED, Charge, Share};
use super::super::{Claim, answers};
use super::Sqlite;
use super::batch::json;
use super::claim;
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::TaskKind;

const WHAT: &str = "claiming tasks";

/// What each share was served, beside those that `shares` finds.
macro_rules! with_served {
    ($shares:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $shares,
            " SELECT w.fairness_key, w.priority, w.due, s.fairness_weight, s.served
              FROM shares w LEFT JOIN engine_shares s
                ON s.namespace = ?1 AND s.queue = ?2 AND s.task_type = ?3
                  AND s.fairness_key = w.fairness_key AND s.priority = w.priority
              WHERE w.due IS NOT NULL ORDER BY w.fairness_key, w.priority"
        )
    };
}

/// The task with a key that is due for the longest.
const FIRST: &str = with_served!(
    "shares AS (
        SELECT fairness_key, priority, available_at AS due
        FROM workflow_tasks INDEXED BY workflow_tasks_shared
        WHERE status = 'ready' AND fairness_key > '' AND namespace = ?1 AND queue = ?2
          AND task_type = ?3
        ORDER BY available_at LIMIT 1)"
);

/// The share of tasks without a key, a row each priority.
const WITHOUT: &str = with_served!(
    "shares AS (
        SELECT '' AS fairness_key, p.value AS priority, (
            SELECT min(available_at) FROM workflow_tasks INDEXED BY workflow_tasks_claim
            WHERE status = 'ready' AND namespace = ?1 AND queue = ?2 AND task_type = ?3
              AND fairness_key = '' AND priority = p.value) AS due
        FROM json_each('[0,1,2,3,4,5,6,7,8,9]') p)"
);

/// Those of a page of keys: each is a few looks at the index, whatever it holds.
const PAGE: &str = with_served!(
    "keys (fairness_key) AS (
        SELECT min(fairness_key) FROM workflow_tasks INDEXED BY workflow_tasks_claim
        WHERE status = 'ready' AND namespace = ?1 AND queue = ?2 AND task_type = ?3
          AND fairness_key > ?4
        UNION ALL
        SELECT (SELECT min(t.fairness_key) FROM workflow_tasks t INDEXED BY workflow_tasks_claim
            WHERE t.status = 'ready' AND t.namespace = ?1 AND t.queue = ?2 AND t.task_type = ?3
              AND t.fairness_key > k.fairness_key)
        FROM keys k WHERE k.fairness_key IS NOT NULL LIMIT ?5),
     shares AS (
        SELECT k.fairness_key, p.value AS priority, (
            SELECT min(t.available_at) FROM workflow_tasks t INDEXED BY workflow_tasks_claim
            WHERE t.status = 'ready' AND t.namespace = ?1 AND t.queue = ?2 AND t.task_type = ?3
              AND t.fairness_key = k.fairness_key AND t.priority = p.value) AS due
        FROM keys k CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') p
        WHERE k.fairness_key IS NOT NULL)"
);

const CHARGE: &str = concat!(
    "INSERT INTO engine_shares (namespace, queue, task_type, fairness_key, priority,
        fairness_weight, served, served_at)
     SELECT ?1, ?2, ?3, value->>'fairness_key', value->>'priority', value->>'fairness_weight',
        value->>'start' + value->>'cost', ",
    clock!(),
    " FROM json_each(?4) WHERE true
     ON CONFLICT DO UPDATE SET
        fairness_weight = excluded.fairness_weight,
        served = max(excluded.served, engine_shares.served + (
            SELECT w.value->>'cost' FROM json_each(?4) w
            WHERE w.value->>'fairness_key' = excluded.fairness_key
              AND w.value->>'priority' = excluded.priority)),
        served_at = excluded.served_at"
);

/// Those of which nothing was claimed for long.
const FORGET: &str = concat!(
    "DELETE FROM engine_shares
     WHERE (namespace, queue, task_type, fairness_key, priority) IN (
        SELECT namespace, queue, task_type, fairness_key, priority FROM engine_shares
        WHERE served_at <= ",
    clock!(),
    " - ?1 AND (?3 IS NULL OR namespace = ?3) LIMIT ?2)"
);

/// The due shares of a kind, and when it was looked; `None` when nothing with a key is due.
pub(super) async fn look(
    store: &Sqlite,
    connection: &mut SqliteConnection,
    (claim, kind): (&Claim, TaskKind),
) -> Result<Option<(i64, Vec<Share>)>> {
    let of_queue = |sql: &'static str| {
        let query = sqlx::query_as::<_, Share>(sql).bind(claim.namespace.as_str());
        query.bind(claim.queue.as_str()).bind(kind.as_str())
    };
    let first = of_queue(FIRST).fetch_optional(&mut *connection).await;
    let Some(first) = first.map_err(at(WHAT))? else {
        return Ok(None);
    };
    let now = claim::now(connection).await?;
    if first.due > now {
        return Ok(None);
    }
    let mut tour = store.tours.begin(claim, kind);
    tour.seed([first], now);
    let without = of_queue(WITHOUT).fetch_all(&mut *connection).await;
    tour.seed(without.map_err(at(WHAT))?, now);
    while let Some(after) = tour.after() {
        let page = of_queue(PAGE).bind(after).bind(COMPARED);
        let page = page.fetch_all(&mut *connection).await;
        tour.add(page.map_err(at(WHAT))?, now);
    }
    Ok(Some((now, store.tours.end(tour))))
}

/// Charges what was claimed.
pub(super) async fn charge(
    connection: &mut SqliteConnection,
    claim: &Claim,
    (kind, charges): (TaskKind, &[Charge]),
) -> Result<()> {
    if charges.is_empty() {
        return Ok(());
    }
    let charge = sqlx::query(CHARGE).bind(claim.namespace.as_str());
    let charge = charge.bind(claim.queue.as_str()).bind(kind.as_str());
    let charged = charge.bind(json(&charges)?).execute(connection).await;
    charged.map_err(at(WHAT))?;
    Ok(())
}

/// Lets go of what shares were served that had nothing to do for `idle`.
pub(super) async fn forget(store: &Sqlite, (idle, limit): (Duration, u32)) -> Result<()> {
    let gone = sqlx::query(FORGET).bind(answers::span(idle));
    let gone = gone.bind(i64::from(limit)).bind(store.scope());
    let gone = gone.execute(&store.writer).await;
    gone.map_err(at_commit("forgetting shares"))?;
    Ok(())
}

#[cfg(test)]
mod tests;

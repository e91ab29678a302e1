//! Shares of a queue: what is ready under which key, and what each was served.

use std::fmt::Write as _;
use std::time::Duration;

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::fairness::{self, COMPARED, Charge, OfKind, OfKinds, Portion, Share};
use super::super::{Claim, Wanted, answers};
use super::Mysql;
use super::batch::json;
use super::claim::{CLAIMING, LookRow};
use super::error::{at, at_commit};
use super::handed::{self, of_code};
use super::sql::clock;
use crate::model::TaskKind;

/// The clock, and whether anything with a key is ready.
const NOW: &str = concat!(
    "SELECT ",
    clock!(),
    " AS now, EXISTS (
        SELECT 1 FROM workflow_tasks FORCE INDEX (workflow_tasks_shared)
        WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type IN ('workflow', 'activity')
          AND fairness_key > '') AS is_shared"
);

/// What each share was served, beside a page of those that are ready: each is one look at the
/// index, whatever it holds.
macro_rules! page {
    ($key:literal) => {
        concat!(
            "SELECT w.fairness_key, w.priority, w.due, s.fairness_weight, s.served FROM (
                SELECT namespace, queue, task_type, fairness_key, priority,
                    min(available_at) AS due
                FROM workflow_tasks FORCE INDEX (workflow_tasks_shared)
                WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = ? AND ",
            $key,
            " GROUP BY status, namespace, queue, task_type, fairness_key, priority
                ORDER BY status, namespace, queue, task_type, fairness_key, priority LIMIT ?) w
             LEFT JOIN engine_shares s FORCE INDEX (PRIMARY) ON s.namespace = w.namespace
                AND s.queue = w.queue AND s.task_type = w.task_type
                AND s.fairness_key = w.fairness_key AND s.priority = w.priority
             ORDER BY w.fairness_key, w.priority"
        )
    };
}

/// The share of tasks without a key.
const WITHOUT: &str = page!("fairness_key = ?");
const PAGE: &str = page!("fairness_key > ?");

/// What a claim would take of one portion of a share, in the order of the index.
const PORTION: &str = concat!(
    "
    (SELECT ? AS place, task_id, available_at
     FROM workflow_tasks FORCE INDEX (workflow_tasks_shared)
     WHERE status = 'ready' AND namespace = ? AND queue = ? AND task_type = ?
       AND fairness_key = ? AND priority = ? AND available_at <= ? AND JSON_CONTAINS(?, JSON_QUOTE(name))
       AND (compatibility IS NULL OR ? IS NULL OR JSON_CONTAINS(?, JSON_QUOTE(compatibility)))",
    of_code!("workflow_tasks"),
    " ORDER BY available_at, task_id LIMIT ? OFFSET ?)"
);

const CHARGE: &str = concat!(
    "INSERT INTO engine_shares (namespace, queue, task_type, fairness_key, priority,
        fairness_weight, served, served_at)
     SELECT ?, ?, ?, w.`fairness_key`, w.`priority`, w.`fairness_weight`, w.`start` + w.`cost`, ",
    clock!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `fairness_key` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
                PATH '$.fairness_key',
            `priority` BIGINT PATH '$.priority',
            `fairness_weight` BIGINT PATH '$.fairness_weight',
            `start` BIGINT PATH '$.start',
            `cost` BIGINT PATH '$.cost')) w
     ON DUPLICATE KEY UPDATE
        fairness_weight = VALUES(fairness_weight),
        served = greatest(engine_shares.served + w.`cost`, VALUES(served)),
        served_at = VALUES(served_at)"
);

/// Those of which nothing was claimed for long.
const FORGET: &str = concat!(
    "DELETE FROM engine_shares WHERE served_at <= ",
    clock!(),
    " - ? AND (? IS NULL OR namespace = ?) LIMIT ?"
);

/// The clock, and whether anything with a key is ready.
pub(super) async fn now(pool: &MySqlPool, claim: &Claim) -> Result<(i64, bool)> {
    let now = sqlx::query_as(NOW).bind(claim.namespace.as_str());
    let now = now.bind(claim.queue.as_str()).fetch_one(pool).await;
    now.map_err(at(CLAIMING))
}

/// The due shares of each kind that `claim` wants.
pub(super) async fn look(store: &Mysql, claim: &Claim, now: i64) -> Result<OfKinds<Share>> {
    let mut of_kinds = Vec::new();
    for wanted in &claim.wanted {
        let mut tour = store.tours.begin(claim, wanted.kind);
        tour.seed(page(store, (claim, wanted.kind), WITHOUT, "").await?, now);
        while let Some(after) = tour.after() {
            tour.add(page(store, (claim, wanted.kind), PAGE, &after).await?, now);
        }
        of_kinds.push((wanted.kind, store.tours.end(tour)));
    }
    Ok(of_kinds)
}

async fn page(
    store: &Mysql,
    (claim, kind): (&Claim, TaskKind),
    sql: &'static str,
    key: &str,
) -> Result<Vec<Share>> {
    let page = sqlx::query_as(sql).bind(claim.namespace.as_str());
    let page = page.bind(claim.queue.as_str()).bind(kind.as_str());
    let page = page.bind(key).bind(COMPARED);
    page.fetch_all(&store.pool).await.map_err(at(CLAIMING))
}

#[derive(sqlx::FromRow)]
struct Candidate {
    place: i64,
    task_id: String,
    available_at: i64,
}

/// What a claim would take, chosen by `shares` in place of what was `found` without them.
pub(super) async fn chosen(
    store: &Mysql,
    claim: &Claim,
    (now, factor): (i64, u32),
    (mut found, shares): (Vec<LookRow>, &[OfKind<Share>]),
) -> Result<Vec<LookRow>> {
    for (kind, shares) in shares.iter().filter(|(_, shares)| !shares.is_empty()) {
        let Some(wanted) = claim.wanted_of(*kind) else {
            continue;
        };
        let limit = wanted.limit.saturating_mul(factor);
        let portions = fairness::portions(shares, now, limit);
        let is_first = |it: &Portion| it.beyond == 0 && it.most < i64::from(limit);
        let (first, rest): (Vec<_>, Vec<_>) = portions.into_iter().partition(is_first);
        let ids = candidates(store, (claim, wanted), now, &first).await?;
        let mut ids = in_turns(ids, &first);
        if ids.len() < limit as usize {
            ids.extend(candidates(store, (claim, wanted), now, &rest).await?);
        }
        found.retain(|row| row.task_id.is_none() || row.kind != kind.as_str());
        found.extend(ids.into_iter().take(limit as usize).map(|it| LookRow {
            kind: kind.as_str().to_owned(),
            task_id: Some(it.task_id),
            due: Some(it.available_at),
        }));
    }
    Ok(found)
}

async fn candidates(
    store: &Mysql,
    (claim, wanted): (&Claim, &Wanted),
    now: i64,
    portions: &[Portion],
) -> Result<Vec<Candidate>> {
    if portions.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = String::new();
    for index in 0..portions.len() {
        let glue = if index == 0 { "" } else { " UNION ALL " };
        _ = write!(sql, "{glue}{PORTION}");
    }
    sql.push_str(" ORDER BY place, available_at, task_id");
    let builds = claim.builds.as_ref().map(json).transpose()?;
    let (names, code) = (json(&wanted.names)?, handed::code(claim, wanted.kind)?);
    // Its length is that of the portions: nothing to be kept prepared.
    let mut query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).persistent(false);
    for (place, portion) in (0_i64..).zip(portions) {
        query = query
            .bind(place)
            .bind(claim.namespace.as_str())
            .bind(claim.queue.as_str())
            .bind(wanted.kind.as_str())
            .bind(portion.fairness_key.clone())
            .bind(portion.priority)
            .bind(now)
            .bind(names.clone())
            .bind(builds.clone())
            .bind(builds.clone())
            .bind(code.clone())
            .bind(code.clone())
            .bind(portion.most)
            .bind(portion.beyond);
    }
    let found = query.fetch_all(&store.pool).await;
    found.map_err(at("looking for tasks"))
}

/// Puts the tasks of `portions` in an order in which any number of the first ones are of them all
/// as their sizes are: others may take some of them first.
fn in_turns(found: Vec<Candidate>, portions: &[Portion]) -> Vec<Candidate> {
    let mut counts = vec![0_i64; portions.len()];
    let mut placed: Vec<_> = found
        .into_iter()
        .map(|it| {
            let place = usize::try_from(it.place).unwrap_or(0);
            let most = portions[place].most.max(1);
            counts[place] += 1;
            // By how much of its portion has come, in millionths.
            (counts[place] * 1_000_000 / most, place, it)
        })
        .collect();
    placed.sort_by_key(|(part, place, _)| (*part, *place));
    placed.into_iter().map(|(.., it)| it).collect()
}

/// Charges what was claimed, after it was: so no claim waits for another. What is lost of it, with
/// its process or with the database, costs the others a few turns.
pub(super) async fn charge(store: &Mysql, claim: &Claim, charges: &[OfKind<Charge>]) {
    for (kind, charges) in charges.iter().filter(|(_, charges)| !charges.is_empty()) {
        // The next call says what is wrong with the database.
        _ = charge_of(store, claim, *kind, charges).await;
    }
}

async fn charge_of(store: &Mysql, claim: &Claim, kind: TaskKind, charges: &[Charge]) -> Result<()> {
    let charge = sqlx::query(store.text(CHARGE)).bind(claim.namespace.as_str());
    let charge = charge.bind(claim.queue.as_str()).bind(kind.as_str());
    let charged = charge.bind(json(&charges)?).execute(&store.pool).await;
    charged.map_err(at_commit("charging shares"))?;
    Ok(())
}

/// Lets go of what shares were served that had nothing to do for `idle`.
pub(super) async fn forget(store: &Mysql, (idle, limit): (Duration, u32)) -> Result<()> {
    let gone = sqlx::query(FORGET)
        .bind(answers::span(idle))
        .bind(store.scope());
    let gone = gone.bind(store.scope()).bind(u64::from(limit));
    let gone = gone.execute(&store.pool).await;
    gone.map_err(at_commit("forgetting shares"))?;
    Ok(())
}

#[cfg(test)]
mod tests;

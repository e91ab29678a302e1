//! Claims of certain tasks: those that were handed over to whoever claims.

use std::collections::BTreeSet;

use coord_core::Result;

use super::super::fairness::{OfKinds, Share};
use super::super::{Claim, Claimed, Wanted};
use super::Mysql;
use super::batch::json;
use super::claim::{self, CLAIMING, LookRow};
use super::error::at;
use super::shares;
use super::sql::ids;
use crate::model::{TaskId, TaskKind};

/// Not those of runs that began with other code than the claimer has. Both parameters are that, as
/// [`code`] gives it.
macro_rules! of_code {
    ($task:literal) => {
        concat!(
            " AND (? IS NULL OR NOT EXISTS (SELECT 1 FROM workflow_runs began
                WHERE began.run_id = ",
            $task,
            ".run_id AND began.fingerprint IS NOT NULL
                  AND NOT JSON_CONTAINS(?, JSON_QUOTE(began.fingerprint))))"
        )
    };
}
pub(super) use of_code;

/// The code of the claimer, where it matters for tasks of `kind`.
pub(super) fn code(claim: &Claim, kind: TaskKind) -> Result<Option<String>> {
    let known = claim.fingerprints.as_ref();
    let known = known.filter(|_| kind == TaskKind::Workflow);
    known.map(json).transpose()
}

/// Those of certain tasks of one kind that may be claimed, without a lock.
const THESE: &str = concat!(
    "SELECT STRAIGHT_JOIN t.task_type AS kind, t.task_id, t.available_at AS due FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id
      WHERE t.status = 'ready' AND t.namespace = ? AND t.queue = ? AND t.task_type = ?
        AND t.available_at <= ? AND JSON_CONTAINS(?, JSON_QUOTE(t.name))
        AND (t.compatibility IS NULL OR ? IS NULL
             OR JSON_CONTAINS(?, JSON_QUOTE(t.compatibility)))",
    of_code!("t"),
    " ORDER BY t.priority, t.available_at, t.task_id"
);

pub(super) async fn claim(store: &Mysql, claim: &Claim) -> Result<Claimed> {
    let Some(only) = &claim.only else {
        return claim::claim(store, claim).await;
    };
    // A join has a row for each that is named, and a task is leased once.
    let only: BTreeSet<&str> = only.iter().map(TaskId::as_str).collect();
    let only = json(&only)?;
    let (now, is_shared) = shares::now(&store.pool, claim).await?;
    let mut found = Vec::new();
    for wanted in &claim.wanted {
        found.extend(look(store, (claim, wanted), (&only, now)).await?);
    }
    // Nothing is chosen among shares, since nothing else waits; what is taken counts all the same.
    let kinds = claim.wanted.iter().filter(|_| is_shared);
    let shares: OfKinds<Share> = kinds.map(|wanted| (wanted.kind, Vec::new())).collect();
    let (claimed, charges) = claim::take(store, claim, (now, &found), &shares).await?;
    shares::charge(store, claim, &charges).await;
    Ok(claimed)
}

async fn look(
    store: &Mysql,
    (claim, wanted): (&Claim, &Wanted),
    (only, now): (&str, i64),
) -> Result<Vec<LookRow>> {
    let builds = claim.builds.as_ref().map(json).transpose()?;
    let code = code(claim, wanted.kind)?;
    let found = sqlx::query_as(store.text(THESE))
        .bind(only)
        .bind(claim.namespace.as_str())
        .bind(claim.queue.as_str())
        .bind(wanted.kind.as_str())
        .bind(now)
        .bind(json(&wanted.names)?)
        .bind(builds.clone())
        .bind(builds)
        .bind(code.clone())
        .bind(code)
        .fetch_all(&store.pool)
        .await;
    found.map_err(at(CLAIMING))
}

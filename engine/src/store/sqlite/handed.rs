//! What a claim would take: what is due by its order, of shares, or of the tasks that were handed
//! over to whoever claims.

use coord_core::Result;
use sqlx::Sqlite;
use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};

use super::super::fairness::Portion;
use super::super::{Claim, Wanted};
use super::batch::json;
use super::claim::{CANDIDATES, Candidate, PORTION};
use super::error::at;
use super::sql::clock;
use crate::model::{TaskId, TaskKind};

/// Not those of runs that began with other code than the claimer has.
macro_rules! of_code {
    ($known:literal) => {
        concat!(
            " AND (",
            $known,
            " IS NULL OR NOT EXISTS (SELECT 1 FROM workflow_runs began
                WHERE began.run_id = workflow_tasks.run_id AND began.fingerprint IS NOT NULL
                  AND began.fingerprint NOT IN (SELECT value FROM json_each(",
            $known,
            "))))"
        )
    };
}
pub(super) use of_code;

/// The code of the claimer, where it matters for what is wanted.
fn code(claim: &Claim, wanted: &Wanted) -> Result<Option<String>> {
    let known = claim.fingerprints.as_ref();
    let known = known.filter(|_| wanted.kind == TaskKind::Workflow);
    known.map(json).transpose()
}

/// Those of certain tasks that may be claimed.
const THESE: &str = concat!(
    "SELECT task_id FROM workflow_tasks
     WHERE task_id IN (SELECT value FROM json_each(?7)) AND status = 'ready' AND namespace = ?1
       AND queue = ?2 AND task_type = ?3 AND available_at <= ",
    clock!(),
    " AND name IN (SELECT value FROM json_each(?4))
       AND (compatibility IS NULL OR ?5 IS NULL
            OR compatibility IN (SELECT value FROM json_each(?5)))",
    of_code!("?8"),
    " ORDER BY priority, available_at, task_id LIMIT ?6"
);

/// Binds what every claim says: the parameters 1 to 6.
fn of_claim<'q>(
    sql: &'static str,
    claim: &'q Claim,
    wanted: &'q Wanted,
) -> Result<QueryAs<'q, Sqlite, Candidate, SqliteArguments>> {
    let builds = claim.builds.as_ref().map(json).transpose()?;
    Ok(sqlx::query_as(sql)
        .bind(claim.namespace.as_str())
        .bind(claim.queue.as_str())
        .bind(wanted.kind.as_str())
        .bind(json(&wanted.names)?)
        .bind(builds)
        .bind(i64::from(wanted.limit)))
}

/// What a claim would take where nothing with a key is due.
pub(super) async fn candidates(
    connection: &mut SqliteConnection,
    claim: &Claim,
    wanted: &Wanted,
) -> Result<Vec<Candidate>> {
    of_claim(CANDIDATES, claim, wanted)?
        .bind(code(claim, wanted)?)
        .fetch_all(connection)
        .await
        .map_err(at("looking for tasks"))
}

/// What a claim would take of `portions`, until it has as many as it wants.
pub(super) async fn portioned(
    connection: &mut SqliteConnection,
    (claim, wanted): (&Claim, &Wanted),
    portions: &[Portion],
) -> Result<Vec<Candidate>> {
    let builds = claim.builds.as_ref().map(json).transpose()?;
    let (names, code) = (json(&wanted.names)?, code(claim, wanted)?);
    let (mut left, mut found) = (i64::from(wanted.limit), Vec::new());
    for portion in portions {
        if left <= 0 {
            break;
        }
        let of_it: Vec<Candidate> = sqlx::query_as(PORTION)
            .bind(claim.namespace.as_str())
            .bind(claim.queue.as_str())
            .bind(wanted.kind.as_str())
            .bind(names.as_str())
            .bind(builds.as_deref())
            .bind(portion.most.min(left))
            .bind(portion.fairness_key.as_str())
            .bind(portion.priority)
            .bind(portion.beyond)
            .bind(code.as_deref())
            .fetch_all(&mut *connection)
            .await
            .map_err(at("looking for tasks"))?;
        left -= i64::try_from(of_it.len()).unwrap_or(left);
        found.extend(of_it);
    }
    Ok(found)
}

/// What it would take of certain tasks.
pub(super) async fn these(
    connection: &mut SqliteConnection,
    (claim, wanted): (&Claim, &Wanted),
    only: &[TaskId],
) -> Result<Vec<Candidate>> {
    of_claim(THESE, claim, wanted)?
        .bind(json(only)?)
        .bind(code(claim, wanted)?)
        .fetch_all(connection)
        .await
        .map_err(at("looking for tasks"))
}

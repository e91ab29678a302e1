//! Where runs stand and who works, in one snapshot.

use coord_core::Result;

use super::super::Survey;
use super::super::rows::{
    MINUTE_US, SurveyRows, survey_namespaces, survey_of_archives, survey_of_closed, survey_of_ends,
    survey_of_nodes, survey_of_open, survey_of_starts,
};
use super::super::survey::MOST_NODES;
use super::Mysql;
use super::error::at;
use super::read::snapshot;
use super::sql::CLOCK;

const OPEN: &str = survey_of_open!(
    "STRAIGHT_JOIN workflow_runs r FORCE INDEX (workflow_runs_closed)",
    "concat(r.run_id, ':0')",
    "(? IS NULL OR n.namespace = ?)"
);
const CLOSED: &str = survey_of_closed!(
    "STRAIGHT_JOIN workflow_runs r FORCE INDEX (workflow_runs_closed)",
    "(? IS NULL OR n.namespace = ?)"
);
const ENDS: &str = survey_of_ends!(
    "STRAIGHT_JOIN workflow_runs r FORCE INDEX (workflow_runs_closed)",
    "?",
    "(? IS NULL OR n.namespace = ?)"
);
const STARTS: &str = survey_of_starts!(
    "STRAIGHT_JOIN workflow_runs r FORCE INDEX (workflow_runs_by_age)",
    "?",
    "(? IS NULL OR n.namespace = ?)"
);
const ARCHIVES: &str = survey_of_archives!("(? IS NULL OR n.namespace = ?)");
const NODES: &str = survey_of_nodes!("?", "? IS NULL OR namespace = ?", "?");

pub(super) async fn survey(store: &Mysql) -> Result<Survey> {
    const WHAT: &str = "counting where runs stand";
    let scope = store.scope();
    let mut transaction = snapshot(&store.pool, WHAT).await?;
    let connection = &mut *transaction;
    let now: sqlx::Result<i64> = sqlx::query_scalar(CLOCK).fetch_one(&mut *connection).await;
    let now = now.map_err(at(WHAT))?;
    let since = now - MINUTE_US;
    let open = sqlx::query_as(OPEN).bind(scope).bind(scope);
    let open = open.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let closed = sqlx::query_as(CLOSED).bind(scope).bind(scope);
    let closed = closed.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let ends = sqlx::query_as(ENDS).bind(since).bind(scope).bind(scope);
    let ends = ends.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let starts = sqlx::query_scalar(STARTS).bind(since);
    let starts = starts.bind(scope).bind(scope).fetch_one(&mut *connection);
    let starts = starts.await.map_err(at(WHAT))?;
    let archived = sqlx::query_scalar(ARCHIVES).bind(scope).bind(scope);
    let archived = archived.fetch_one(&mut *connection).await;
    let nodes = sqlx::query_as(NODES).bind(now).bind(scope).bind(scope);
    let nodes = nodes.bind(MOST_NODES).fetch_all(&mut *connection).await;
    let rows = SurveyRows {
        now,
        open,
        closed,
        archived: archived.map_err(at(WHAT))?,
        starts,
        ends,
        nodes: nodes.map_err(at(WHAT))?,
    };
    rows.survey()
}

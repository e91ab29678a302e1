//! Where runs stand and who works, in one snapshot.

use coord_core::Result;

use super::super::Survey;
use super::super::rows::{
    MINUTE_US, SurveyRows, survey_namespaces, survey_of_archives, survey_of_closed, survey_of_ends,
    survey_of_nodes, survey_of_open, survey_of_starts,
};
use super::super::survey::MOST_NODES;
use super::Sqlite;
use super::claim::now;
use super::error::at;

const OPEN: &str = survey_of_open!(
    "CROSS JOIN workflow_runs r",
    "r.run_id || ':0'",
    "(?1 IS NULL OR n.namespace = ?1)"
);
const CLOSED: &str = survey_of_closed!(
    "CROSS JOIN workflow_runs r",
    "(?1 IS NULL OR n.namespace = ?1)"
);
const ENDS: &str = survey_of_ends!(
    "CROSS JOIN workflow_runs r",
    "?1",
    "(?2 IS NULL OR n.namespace = ?2)"
);
const STARTS: &str = survey_of_starts!(
    "CROSS JOIN workflow_runs r",
    "?1",
    "(?2 IS NULL OR n.namespace = ?2)"
);
const ARCHIVES: &str = survey_of_archives!("(?1 IS NULL OR n.namespace = ?1)");
const NODES: &str = survey_of_nodes!("?1", "?2 IS NULL OR namespace = ?2", "?3");

pub(super) async fn survey(store: &Sqlite) -> Result<Survey> {
    const WHAT: &str = "counting where runs stand";
    let scope = store.scope();
    let mut transaction = store.reader.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let since = now - MINUTE_US;
    let connection = &mut *transaction;
    let open = sqlx::query_as(OPEN).bind(scope);
    let open = open.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let closed = sqlx::query_as(CLOSED).bind(scope);
    let closed = closed.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let ends = sqlx::query_as(ENDS).bind(since).bind(scope);
    let ends = ends.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let starts = sqlx::query_scalar(STARTS).bind(since).bind(scope);
    let starts = starts.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    let archived = sqlx::query_scalar(ARCHIVES).bind(scope);
    let archived = archived.fetch_one(&mut *connection).await;
    let nodes = sqlx::query_as(NODES).bind(now).bind(scope);
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

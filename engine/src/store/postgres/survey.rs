//! Where runs stand and who works, in one snapshot.

use coord_core::Result;

use super::super::Survey;
use super::super::rows::{
    MINUTE_US, SurveyRows, survey_namespaces, survey_of_archives, survey_of_closed, survey_of_ends,
    survey_of_nodes, survey_of_open, survey_of_starts,
};
use super::super::survey::MOST_NODES;
use super::claim::now;
use super::error::at;
use super::{Postgres, READ};

const OPEN: &str = survey_of_open!(
    "JOIN workflow_runs r",
    "r.run_id || ':0'",
    "($1::text IS NULL OR n.namespace = $1)"
);
const CLOSED: &str = survey_of_closed!(
    "JOIN workflow_runs r",
    "($1::text IS NULL OR n.namespace = $1)"
);
const ENDS: &str = survey_of_ends!(
    "JOIN workflow_runs r",
    "$1::int8",
    "($2::text IS NULL OR n.namespace = $2)"
);
const STARTS: &str = survey_of_starts!(
    "JOIN workflow_runs r",
    "$1::int8",
    "($2::text IS NULL OR n.namespace = $2)"
);
const ARCHIVES: &str = survey_of_archives!("($1::text IS NULL OR n.namespace = $1)");
const NODES: &str = survey_of_nodes!("$1::int8", "$2::text IS NULL OR namespace = $2", "$3");

pub(super) async fn survey(store: &Postgres) -> Result<Survey> {
    const WHAT: &str = "counting where runs stand";
    let (statements, scope) = (store.statements, store.scope());
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let since = now - MINUTE_US;
    let connection = &mut *transaction.inner;
    let open = statements.rows(OPEN).bind(scope);
    let open = open.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let closed = statements.rows(CLOSED).bind(scope);
    let closed = closed.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let ends = statements.rows(ENDS).bind(since).bind(scope);
    let ends = ends.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let starts = statements.rows(STARTS).bind(since).bind(scope);
    let (starts,): (i64,) = starts.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    let archived = statements.rows(ARCHIVES).bind(scope);
    let (archived,): (i64,) = archived
        .fetch_one(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    let nodes = statements.rows(NODES).bind(now).bind(scope);
    let nodes = nodes.bind(MOST_NODES).fetch_all(&mut *connection).await;
    let rows = SurveyRows {
        now,
        open,
        closed,
        archived,
        starts,
        ends,
        nodes: nodes.map_err(at(WHAT))?,
    };
    rows.survey()
}

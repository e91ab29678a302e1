//! Why a run does not move.

use axum::Json;
use coord_engine::Refusal;
use coord_engine::client::Untyped;
use coord_engine::model::{RunId, WorkflowId};
use coord_engine::store::Target;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Read};
use super::input::At;
use super::instant::shown;
use super::problem::Problem;
use super::run::RunDetail;
use super::runs::of_workflow;
use super::workflows;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(debug))
        .routes(routes!(debug_run))
}

/// Where a run stands, and what holds it up.
#[derive(Serialize, ToSchema)]
struct Diagnosis {
    namespace: String,
    workflow_id: String,
    run_id: String,
    /// A word for where it stands, such as `waiting_for_signal` or `workflow_task_ready`.
    liveness_state: &'static str,
    /// Why no worker has taken its task, when that may be claimed: a word such as `queue_unserved`,
    /// `type_unknown`, `compatibility_unsupported`, `queue_active_limit` or `workers_busy`.
    refusal: Option<&'static str>,
    /// What holds it up, for people.
    message: String,
    /// What to do about it.
    remediation: String,
    /// Since when.
    since: Option<String>,
    age_ms: u64,
    /// When it ends by itself, if it does: a timer, a retry, a lease.
    until: Option<String>,
    /// The row of the database that it waits for.
    row: DatabaseRow,
    execution: RunDetail,
}

/// A row of the database.
#[derive(Serialize, ToSchema)]
struct DatabaseRow {
    table: &'static str,
    key: String,
}

/// Why the current run of a workflow does not move: what holds it up, since when, and what to do
/// about it.
#[utoipa::path(get, path = "/workflows/{workflow_id}/debug", tag = "workflows",
    params(("workflow_id" = String, Path)), responses((status = 200, body = Diagnosis)))]
async fn debug(caller: Caller<Read>, At(id): At<WorkflowId>) -> Result<Json<Diagnosis>, Problem> {
    let client = caller.client().untyped();
    let current = Target::Current(caller.namespace.clone(), id.clone());
    let found = diagnosed(&client, &current, true).await?;
    found
        .ok_or_else(|| workflows::missing(&caller.namespace, &id))
        .map(Json)
}

/// Why a run of a workflow does not move.
#[utoipa::path(get, path = "/workflows/{workflow_id}/runs/{run_id}/debug", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = Diagnosis)))]
async fn debug_run(
    caller: Caller<Read>,
    At((id, run)): At<(WorkflowId, RunId)>,
) -> Result<Json<Diagnosis>, Problem> {
    let client = caller.client().untyped();
    of_workflow(&client, &caller.namespace, &id, &run).await?;
    let current = Target::Current(caller.namespace.clone(), id.clone());
    let is_current = client.find(&current).await?.is_some_and(|it| it.run == run);
    let found = diagnosed(&client, &Target::Run(run), is_current).await?;
    found
        .ok_or_else(|| workflows::missing(&caller.namespace, &id))
        .map(Json)
}

async fn diagnosed(
    client: &Untyped,
    target: &Target,
    is_current: bool,
) -> Result<Option<Diagnosis>, Problem> {
    let Some(explained) = client.explain(target).await? else {
        return Ok(None);
    };
    // The run that was explained, whichever is the current one by now.
    let run = Target::Run(explained.run.clone());
    let Some(described) = client.describe(&run).await? else {
        return Ok(None);
    };
    Ok(Some(Diagnosis {
        namespace: described.run.namespace.to_string(),
        workflow_id: described.run.workflow.to_string(),
        run_id: explained.run.to_string(),
        liveness_state: explained.state.as_str(),
        refusal: explained.refusal.map(Refusal::as_str),
        message: explained.message,
        remediation: explained.action,
        since: shown(explained.since),
        age_ms: u64::try_from(explained.age.as_millis()).unwrap_or(u64::MAX),
        until: explained.until.and_then(shown),
        row: DatabaseRow {
            table: explained.row.table,
            key: explained.row.key,
        },
        execution: RunDetail::read(client, described, is_current).await?,
    }))
}

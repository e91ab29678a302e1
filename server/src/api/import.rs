//! Histories from elsewhere.

use axum::Json;
use axum::http::StatusCode;
use coord_engine::model::{History, WorkflowId};
use coord_engine::store::Target;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Operate};
use super::input::{At, Body};
use super::problem::Problem;
use super::run::bucket;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new().routes(routes!(import))
}

/// A run that was imported.
#[derive(Serialize, ToSchema)]
struct Imported {
    namespace: String,
    workflow_id: String,
    run_id: String,
    status: &'static str,
    status_bucket: &'static str,
    /// Always `imported`.
    outcome: &'static str,
    history_length: u64,
    /// Whether it had not ended: then it is set aside, and goes on once it is repaired.
    is_set_aside: bool,
}

/// Puts a run with its whole history into the namespace, under its own ids: what the export of a
/// history gave, here or elsewhere.
///
/// A run that had not ended is set aside until it is repaired, so that it does not go on in two
/// places. It counts as started now. A history is at most as large as a body may be.
#[utoipa::path(post, path = "/workflows/{workflow_id}/import", tag = "workflows",
    params(("workflow_id" = String, Path)), request_body = Object,
    responses((status = 201, body = Imported)))]
async fn import(
    caller: Caller<Operate>,
    At(id): At<WorkflowId>,
    Body(document): Body<Value>,
) -> Result<(StatusCode, Json<Imported>), Problem> {
    let history = History::from_json(&document.to_string())
        .map_err(|error| Problem::unfit("invalid_history", error.message()))?;
    let of = &history.started().workflow;
    if *of != id {
        let why = format!("it is the history of workflow {of}, and the path names {id}");
        return Err(Problem::unfit("workflow_id_mismatch", why));
    }
    let client = caller.client();
    let untyped = client.untyped();
    let namespace = &caller.namespace;
    let current = Target::Current(namespace.clone(), id.clone());
    for target in [current, Target::Run(history.run().clone())] {
        if untyped.find(&target).await?.is_some() {
            let why = format!("a workflow {id}, or this run of it, is there");
            return Err(Problem::conflict("duplicate_not_allowed", why));
        }
    }
    client.import(&history).await?;
    let run = untyped.find(&Target::Run(history.run().clone())).await?;
    let run = run.ok_or_else(|| super::workflows::missing(namespace, &id))?;
    let imported = Imported {
        namespace: namespace.to_string(),
        workflow_id: id.to_string(),
        run_id: run.run.to_string(),
        status: run.status.as_str(),
        status_bucket: bucket(run.status),
        outcome: "imported",
        history_length: run.history_length,
        is_set_aside: run.status.is_open(),
    };
    Ok((StatusCode::CREATED, Json(imported)))
}

//! How a workflow ends before its time, and how one that was set aside goes on.

use axum::Json;
use axum::http::StatusCode;
use coord_engine::client::Reached;
use coord_engine::model::{RunId, WorkflowId};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::addressee::{Accepted, Addressee, Receipt};
use super::caller::{Caller, Operate};
use super::input::{At, Body, request_id};
use super::problem::Problem;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(cancel_run))
        .routes(routes!(terminate))
        .routes(routes!(terminate_run))
        .routes(routes!(repair))
        .routes(routes!(repair_run))
}

/// Why a workflow is to end.
#[derive(Deserialize, ToSchema)]
struct Ending {
    /// Why, for people.
    reason: Option<String>,
    /// Carries it out once for this id.
    request_id: Option<String>,
    /// The same under another name.
    idempotency_key: Option<String>,
}

/// How a workflow is to end.
#[derive(Clone, Copy)]
enum End {
    Cancel,
    Terminate,
}

/// Asks the current run to end. It may clean up first, or refuse.
#[utoipa::path(post, path = "/workflows/{workflow_id}/cancel", tag = "workflows",
    params(("workflow_id" = String, Path)), request_body = Ending,
    responses((status = 202, body = Receipt)))]
async fn cancel(
    caller: Caller<Operate>,
    At(id): At<WorkflowId>,
    Body(ending): Body<Ending>,
) -> Result<Accepted, Problem> {
    end(Addressee::current(&caller, id), End::Cancel, ending).await
}

/// Asks a run to end, if it has not.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/cancel", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path)), request_body = Ending,
    responses((status = 202, body = Receipt)))]
async fn cancel_run(
    caller: Caller<Operate>,
    At((id, run)): At<(WorkflowId, RunId)>,
    Body(ending): Body<Ending>,
) -> Result<Accepted, Problem> {
    end(Addressee::run(&caller, id, run).await?, End::Cancel, ending).await
}

/// Ends the current run, whatever it does. Its open children end by their policy.
#[utoipa::path(post, path = "/workflows/{workflow_id}/terminate", tag = "workflows",
    params(("workflow_id" = String, Path)), request_body = Ending,
    responses((status = 202, body = Receipt)))]
async fn terminate(
    caller: Caller<Operate>,
    At(id): At<WorkflowId>,
    Body(ending): Body<Ending>,
) -> Result<Accepted, Problem> {
    end(Addressee::current(&caller, id), End::Terminate, ending).await
}

/// Ends a run, if it has not, whatever it does.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/terminate", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path)), request_body = Ending,
    responses((status = 202, body = Receipt)))]
async fn terminate_run(
    caller: Caller<Operate>,
    At((id, run)): At<(WorkflowId, RunId)>,
    Body(ending): Body<Ending>,
) -> Result<Accepted, Problem> {
    end(
        Addressee::run(&caller, id, run).await?,
        End::Terminate,
        ending,
    )
    .await
}

async fn end(of: Addressee, how: End, ending: Ending) -> Result<Accepted, Problem> {
    let request = request_id(ending.request_id, ending.idempotency_key)?;
    let reason = ending.reason.unwrap_or_default();
    let (target, sent) = (of.target.clone(), request.clone());
    let (reached, operation, outcome) = match how {
        End::Cancel => {
            let reached = of.client.cancel(target, &reason, sent).await?;
            (reached, "cancel", "cancellation_requested")
        }
        End::Terminate => {
            let reached = of.client.terminate(target, &reason, sent).await?;
            (reached, "terminate", "terminated")
        }
    };
    let (run, retained) = of.reached(reached, operation)?;
    let receipt = of
        .receipt(&run, outcome)
        .of_request(request.as_ref(), retained);
    Ok((StatusCode::ACCEPTED, Json(receipt)))
}

/// Makes the current run go on after it was set aside, with the code that runs now.
#[utoipa::path(post, path = "/workflows/{workflow_id}/repair", tag = "workflows",
    params(("workflow_id" = String, Path)), responses((status = 200, body = Receipt)))]
async fn repair(caller: Caller<Operate>, At(id): At<WorkflowId>) -> Result<Json<Receipt>, Problem> {
    resume(Addressee::current(&caller, id)).await
}

/// Makes a run go on after it was set aside.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/repair", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = Receipt)))]
async fn repair_run(
    caller: Caller<Operate>,
    At((id, run)): At<(WorkflowId, RunId)>,
) -> Result<Json<Receipt>, Problem> {
    resume(Addressee::run(&caller, id, run).await?).await
}

async fn resume(of: Addressee) -> Result<Json<Receipt>, Problem> {
    let found = of.client.find(&of.target).await?;
    found.ok_or_else(|| of.missing())?;
    match of.client.resume(of.target.clone()).await? {
        Reached::Now(run) | Reached::Before(run) => Ok(Json(of.receipt(&run, "repaired"))),
        Reached::Closed => Err(of.closed("repair")),
        Reached::Full | Reached::Missing => {
            let why = format!("workflow {} was not set aside", of.id);
            Err(Problem::conflict("repair_not_needed", why))
        }
    }
}

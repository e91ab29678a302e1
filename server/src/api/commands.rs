//! What is said to a workflow that was started: signals, queries and updates.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::client::{Queried, Updated};
use coord_engine::model::{RequestId, RunId, TypeName, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::addressee::{Accepted, Addressee, Receipt};
use super::caller::{Caller, Operate, Read};
use super::envelope::{self, Arguments, Envelope};
use super::input::{At, Body, request_id};
use super::problem::Problem;
use crate::Node;

/// How long an update is waited for unless the caller says otherwise.
const USUAL_WAIT: u64 = 10;
/// The longest wait for an update: a little less than a request may take.
const LONGEST_WAIT: u64 = 25;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(signal))
        .routes(routes!(signal_run))
        .routes(routes!(query))
        .routes(routes!(query_run))
        .routes(routes!(update))
        .routes(routes!(update_run))
}

/// Arguments for a handler of a workflow.
#[derive(Deserialize, ToSchema)]
struct Call {
    /// The arguments, as the published SDKs send them.
    input: Option<Arguments>,
    /// The arguments, as the published interface describes them.
    arguments: Option<Arguments>,
    /// Carries it out once for this id, however often it is sent to this workflow.
    request_id: Option<String>,
    /// The same under another name.
    idempotency_key: Option<String>,
}

/// Sends a signal to the current run, durably.
#[utoipa::path(post, path = "/workflows/{workflow_id}/signal/{signal_name}", tag = "workflows",
    params(("workflow_id" = String, Path), ("signal_name" = String, Path)), request_body = Call,
    responses((status = 202, body = Receipt)))]
async fn signal(
    caller: Caller<Operate>,
    At((id, name)): At<(WorkflowId, TypeName)>,
    Body(call): Body<Call>,
) -> Result<Accepted, Problem> {
    send(Addressee::current(&caller, id), name, call).await
}

/// Sends a signal to a run, if it has not ended.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/signal/{signal_name}",
    tag = "workflows", request_body = Call, responses((status = 202, body = Receipt)),
    params(("workflow_id" = String, Path), ("run_id" = String, Path), ("signal_name" = String, Path)))]
async fn signal_run(
    caller: Caller<Operate>,
    At((id, run, name)): At<(WorkflowId, RunId, TypeName)>,
    Body(call): Body<Call>,
) -> Result<Accepted, Problem> {
    send(Addressee::run(&caller, id, run).await?, name, call).await
}

async fn send(to: Addressee, name: TypeName, call: Call) -> Result<Accepted, Problem> {
    let value = envelope::value(call.input.or(call.arguments))?;
    let request = request_id(call.request_id, call.idempotency_key)?;
    let sent = to
        .client
        .signal(to.target.clone(), name.clone(), &value, request.clone());
    let (run, retained) = to.reached(sent.await?, "signal")?;
    let receipt = to.receipt(&run, "signal_received").of_signal(&name);
    let receipt = receipt.of_request(request.as_ref(), retained);
    Ok((StatusCode::ACCEPTED, Json(receipt)))
}

/// What the code of a workflow answered.
#[derive(Serialize, ToSchema)]
struct Answer {
    namespace: String,
    workflow_id: String,
    query_name: String,
    result: Value,
    result_envelope: Envelope,
}

/// Asks the code of the current run a question. Nothing is written.
///
/// The code runs in this node, so a worker that knows the workflow must be here.
#[utoipa::path(post, path = "/workflows/{workflow_id}/query/{query_name}", tag = "workflows",
    params(("workflow_id" = String, Path), ("query_name" = String, Path)), request_body = Call,
    responses((status = 200, body = Answer)))]
async fn query(
    caller: Caller<Read>,
    At((id, name)): At<(WorkflowId, TypeName)>,
    Body(call): Body<Call>,
) -> Result<Json<Answer>, Problem> {
    ask(Addressee::current(&caller, id), name, call).await
}

/// Asks the code of a run a question, also of one that has ended.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/query/{query_name}",
    tag = "workflows", request_body = Call, responses((status = 200, body = Answer)),
    params(("workflow_id" = String, Path), ("run_id" = String, Path), ("query_name" = String, Path)))]
async fn query_run(
    caller: Caller<Read>,
    At((id, run, name)): At<(WorkflowId, RunId, TypeName)>,
    Body(call): Body<Call>,
) -> Result<Json<Answer>, Problem> {
    ask(Addressee::run(&caller, id, run).await?, name, call).await
}

async fn ask(of: Addressee, name: TypeName, call: Call) -> Result<Json<Answer>, Problem> {
    let value = envelope::value(call.input.or(call.arguments))?;
    match of.client.query(&of.target, &name, &value).await? {
        Queried::Answered(result) => Ok(Json(Answer {
            namespace: of.namespace.to_string(),
            workflow_id: of.id.to_string(),
            query_name: name.to_string(),
            result_envelope: Envelope::of(&result),
            result,
        })),
        Queried::Missing => Err(of.missing()),
        Queried::NotKnown => {
            let why = format!("workflow {} answers no query {name}", of.id);
            Err(Problem::missing("query_not_found", why))
        }
        Queried::Refused(failure) => Err(Problem::conflict("query_rejected", failure.message)),
        Queried::NobodyHere => {
            let why = format!("no worker of this node has the code of workflow {}", of.id);
            Err(Problem::conflict("query_worker_unavailable", why))
        }
    }
}

/// A request that a workflow answers.
#[derive(Deserialize, ToSchema)]
struct Update {
    #[serde(flatten)]
    call: Call,
    /// `accepted`, the default, to be answered once it is durable, or `completed` to wait for what
    /// the workflow says.
    wait_for: Option<String>,
    /// How long to wait for `completed`, from 1 to 25. Default: 10.
    #[schema(minimum = 1, maximum = 25)]
    wait_timeout_seconds: Option<u64>,
}

/// What became of an update.
#[derive(Serialize, ToSchema)]
struct UpdateAnswer {
    namespace: String,
    workflow_id: String,
    run_id: String,
    update_name: String,
    /// The id under which it was sent.
    request_id: String,
    /// The same: an update is known by the id of its request.
    update_id: String,
    /// `update_completed` or `update_accepted`.
    outcome: &'static str,
    command_status: &'static str,
    /// `completed` or `accepted`.
    update_status: &'static str,
    wait_for: String,
    wait_timed_out: bool,
    result: Value,
    result_envelope: Option<Envelope>,
}

/// Sends an update to the current run, durably, and answers with what it says.
#[utoipa::path(post, path = "/workflows/{workflow_id}/update/{update_name}", tag = "workflows",
    params(("workflow_id" = String, Path), ("update_name" = String, Path)), request_body = Update,
    responses((status = 200, body = UpdateAnswer, description = "It was answered."),
        (status = 202, body = UpdateAnswer, description = "It was sent.")))]
async fn update(
    caller: Caller<Operate>,
    At((id, name)): At<(WorkflowId, TypeName)>,
    Body(update): Body<Update>,
) -> Result<(StatusCode, Json<UpdateAnswer>), Problem> {
    let request = caller.node.make_request();
    carry_out(Addressee::current(&caller, id), name, update, request).await
}

/// Sends an update to a run, if it has not ended.
#[utoipa::path(post, path = "/workflows/{workflow_id}/runs/{run_id}/update/{update_name}",
    tag = "workflows", request_body = Update,
    params(("workflow_id" = String, Path), ("run_id" = String, Path), ("update_name" = String, Path)),
    responses((status = 200, body = UpdateAnswer, description = "It was answered."),
        (status = 202, body = UpdateAnswer, description = "It was sent.")))]
async fn update_run(
    caller: Caller<Operate>,
    At((id, run, name)): At<(WorkflowId, RunId, TypeName)>,
    Body(update): Body<Update>,
) -> Result<(StatusCode, Json<UpdateAnswer>), Problem> {
    let request = caller.node.make_request();
    carry_out(
        Addressee::run(&caller, id, run).await?,
        name,
        update,
        request,
    )
    .await
}

async fn carry_out(
    to: Addressee,
    name: TypeName,
    update: Update,
    made: RequestId,
) -> Result<(StatusCode, Json<UpdateAnswer>), Problem> {
    let wait_for = update.wait_for.unwrap_or_else(|| "accepted".to_owned());
    let seconds = update.wait_timeout_seconds.unwrap_or(USUAL_WAIT);
    if !(1..=LONGEST_WAIT).contains(&seconds) {
        let why = format!("it is from 1 to {LONGEST_WAIT}");
        return Err(Problem::field("wait_timeout_seconds", why));
    }
    let wait = match wait_for.as_str() {
        "accepted" => Duration::ZERO,
        "completed" => Duration::from_secs(seconds),
        _ => return Err(Problem::field("wait_for", "it is accepted or completed")),
    };
    let call = update.call;
    let value = envelope::value(call.input.or(call.arguments))?;
    let request = request_id(call.request_id, call.idempotency_key)?.unwrap_or(made);
    let sent = (name.clone(), &value);
    let updated = to
        .client
        .update(to.target.clone(), sent, request.clone(), wait);
    let answer = |run: RunId, result: Option<Value>| {
        let is_completed = result.is_some();
        UpdateAnswer {
            namespace: to.namespace.to_string(),
            workflow_id: to.id.to_string(),
            run_id: run.to_string(),
            update_name: name.to_string(),
            request_id: request.to_string(),
            update_id: request.to_string(),
            outcome: if is_completed {
                "update_completed"
            } else {
                "update_accepted"
            },
            command_status: "accepted",
            update_status: if is_completed {
                "completed"
            } else {
                "accepted"
            },
            wait_timed_out: !is_completed && !wait.is_zero(),
            wait_for: wait_for.clone(),
            result_envelope: result.as_ref().map(Envelope::of),
            result: result.unwrap_or_default(),
        }
    };
    match updated.await? {
        Updated::Answered(run, Ok(result)) => Ok((StatusCode::OK, Json(answer(run, Some(result))))),
        Updated::Sent(run) => Ok((StatusCode::ACCEPTED, Json(answer(run, None)))),
        Updated::Answered(run, Err(failure)) => {
            let why = failure.message.clone();
            Err(Problem::unfit("update_failed", why.clone())
                .with("update_status", "failed")
                .with("failure_message", why)
                .with("update_id", request.to_string())
                .with("run_id", run.to_string()))
        }
        Updated::Closed => Err(to.closed("update")),
        Updated::Missing => Err(to.missing()),
    }
}

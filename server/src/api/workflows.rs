//! Workflows: started, listed and described.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::model::{
    Fairness, FairnessKey, FairnessWeight, Namespace, Priority, Queue, RunId, Timestamp, TypeName,
    WorkflowId,
};
use coord_engine::store::{Filter, Listing, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Operate, Read};
use super::envelope::{self, Arguments, CODEC};
use super::input::{Asked, At, Body, request_id};
use super::problem::Problem;
use super::run::{RunDetail, RunItem, bucket};
use super::{attributes, page, visibility};
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(describe))
}

/// A workflow to be started.
#[derive(Deserialize, ToSchema)]
struct Start {
    /// The name of the workflow, as workers know it.
    #[schema(min_length = 1, max_length = 255)]
    workflow_type: String,
    /// What it is called from here on. Default: one that is made up.
    #[schema(min_length = 1, max_length = 255)]
    workflow_id: Option<String>,
    /// Where its tasks wait. Default: `default`.
    #[schema(min_length = 1, max_length = 255)]
    task_queue: Option<String>,
    /// Its arguments.
    input: Option<Arguments>,
    /// How long it may take, with all runs that it continues as. Default: without a bound.
    #[schema(minimum = 1)]
    execution_timeout_seconds: Option<u64>,
    /// `fail`, the default, or `use-existing` to be answered with the open run under this id.
    duplicate_policy: Option<String>,
    /// Which of two due tasks goes first, 0 before 9. Default: 5.
    #[schema(maximum = 9)]
    priority: Option<u8>,
    /// Whose share of the queue its tasks count against, within their priority: those of different
    /// keys are worked on in proportion to their weights. Default: it shares with all others
    /// without a key.
    #[schema(min_length = 1, max_length = 64)]
    fairness_key: Option<String>,
    /// How large that share is. Default: 1.
    #[schema(minimum = 1, maximum = 1000)]
    fairness_weight: Option<u16>,
    /// What describes it to people.
    memo: Option<Map<String, Value>>,
    /// What it is found by.
    search_attributes: Option<Map<String, Value>>,
    /// Starts it once, however often it is asked for with the same id.
    #[schema(min_length = 1, max_length = 255)]
    request_id: Option<String>,
}

/// A workflow that was started.
#[derive(Serialize, ToSchema)]
struct Started {
    namespace: String,
    workflow_id: String,
    run_id: String,
    workflow_type: String,
    task_queue: String,
    payload_codec: &'static str,
    /// `started_new` or `returned_existing_active`.
    outcome: &'static str,
    status: &'static str,
    status_bucket: &'static str,
    is_terminal: bool,
}

fn fairness(key: Option<String>, weight: Option<u16>) -> Result<Option<Fairness>, Problem> {
    let Some(key) = key else {
        return match weight {
            None => Ok(None),
            Some(_) => Err(Problem::field(
                "fairness_weight",
                "it goes with a fairness_key",
            )),
        };
    };
    let key = named("fairness_key", FairnessKey::new(key))?;
    let weight = match weight {
        None => FairnessWeight::default(),
        Some(weight) => named("fairness_weight", FairnessWeight::new(weight))?,
    };
    Ok(Some(Fairness { key, weight }))
}

/// Starts a workflow, durably.
///
/// Sent again with the same `request_id` it is answered as the first time.
#[utoipa::path(post, path = "/workflows", tag = "workflows", request_body = Start,
    responses((status = 201, body = Started, description = "It was started."),
        (status = 200, body = Started, description = "It was there, and is open.")))]
async fn start(
    caller: Caller<Operate>,
    Body(start): Body<Start>,
) -> Result<(StatusCode, Json<Started>), Problem> {
    let takes_existing = match start.duplicate_policy.as_deref() {
        None | Some("fail") => false,
        Some("use-existing") => true,
        Some(_) => {
            let why = "it is fail or use-existing";
            return Err(Problem::field("duplicate_policy", why));
        }
    };
    let client = caller.client().untyped();
    let name = named("workflow_type", TypeName::new(start.workflow_type))?;
    let id = match start.workflow_id {
        Some(id) => named("workflow_id", WorkflowId::new(id))?,
        None => caller.node.make_id(),
    };
    let queue = match start.task_queue {
        Some(queue) => named("task_queue", Queue::new(queue))?,
        None => Queue::default(),
    };
    let input = envelope::value(start.input)?;
    let mut call = client
        .start(name.clone(), id.clone(), &input)
        .queue(queue.clone())
        .search_attributes(attributes::read(
            &start.search_attributes.unwrap_or_default(),
        )?)
        .or_existing();
    if let Some(priority) = start.priority {
        call = call.priority(named("priority", Priority::new(priority))?);
    }
    if let Some(fairness) = fairness(start.fairness_key, start.fairness_weight)? {
        call = call.fairness(fairness);
    }
    if let Some(seconds) = start.execution_timeout_seconds {
        if seconds == 0 {
            let why = "it is a second at least";
            return Err(Problem::field("execution_timeout_seconds", why));
        }
        call = call.within(Duration::from_secs(seconds));
    }
    for (name, value) in start.memo.unwrap_or_default() {
        call = call.memo(name, value);
    }
    if let Some(request) = request_id(start.request_id, None)? {
        call = call.request(request);
    }
    let started = call.await?;
    let run = started.handle.run().map(RunId::to_string);
    let mut answer = Started {
        namespace: caller.namespace.to_string(),
        workflow_id: id.to_string(),
        run_id: run.unwrap_or_default(),
        workflow_type: name.to_string(),
        task_queue: queue.to_string(),
        payload_codec: CODEC,
        outcome: "started_new",
        status: "pending",
        status_bucket: "running",
        is_terminal: false,
    };
    if started.was_created {
        return Ok((StatusCode::CREATED, Json(answer)));
    }
    let current = Target::Current(caller.namespace.clone(), id.clone());
    let existing = client.find(&current).await?;
    let open = existing.filter(|run| takes_existing && run.status.is_open());
    let Some(run) = open else {
        let why = format!("a workflow {id} is there, and an id is used once");
        let taken = Problem::conflict("duplicate_not_allowed", why);
        return Err(taken.with("workflow_id", answer.workflow_id));
    };
    answer.run_id = run.run.to_string();
    answer.workflow_type = run.name.to_string();
    answer.task_queue = run.queue.to_string();
    answer.outcome = "returned_existing_active";
    (answer.status, answer.status_bucket) = (run.status.as_str(), bucket(run.status));
    Ok((StatusCode::OK, Json(answer)))
}

/// A value that the field `name` has, if it can be.
pub(super) fn named<T>(name: &str, value: coord_core::Result<T>) -> Result<T, Problem> {
    value.map_err(|error| Problem::field(name, error.message()))
}

/// Which runs to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Only runs of this type.
    workflow_type: Option<String>,
    /// Only runs that stand so.
    status: Option<String>,
    /// Only runs whose workflow id begins so.
    workflow_id_prefix: Option<String>,
    /// Only runs for which all comparisons hold: `WorkflowType = 'a' AND customer = 'b'`.
    query: Option<String>,
    /// How many at most, from 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200)]
    page_size: Option<u32>,
    /// Where the page begins, as the page before said.
    next_page_token: Option<String>,
}

/// A page of runs.
#[derive(Serialize, ToSchema)]
struct WorkflowPage {
    namespace: String,
    workflows: Vec<RunItem>,
    next_page_token: Option<String>,
}

/// Runs, the youngest first.
///
/// A page goes on exactly where the one before it ended; runs that are started meanwhile are younger
/// than all pages.
#[utoipa::path(get, path = "/workflows", tag = "workflows", params(Wanted),
    responses((status = 200, body = WorkflowPage)))]
async fn list(
    caller: Caller<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<WorkflowPage>, Problem> {
    let mut filter = Filter::all(caller.namespace.clone());
    if let Some(query) = &wanted.query {
        visibility::narrow(&mut filter, query)?;
    }
    if let Some(name) = wanted.workflow_type {
        filter.name = Some(named("workflow_type", TypeName::new(name))?);
    }
    if let Some(status) = &wanted.status {
        filter.statuses = vec![visibility::status(status)?];
    }
    filter.id_prefix = wanted.workflow_id_prefix;
    let listing = Listing {
        filter,
        limit: page::length(wanted.page_size)?,
        after: page::place::<(Timestamp, RunId)>(wanted.next_page_token.as_deref())?,
    };
    let found = caller.client().list(&listing).await?;
    Ok(Json(WorkflowPage {
        namespace: caller.namespace.to_string(),
        workflows: found.runs.iter().map(RunItem::of).collect(),
        next_page_token: found.next.as_ref().map(page::token),
    }))
}

/// The current run of a workflow, and why it does or does not move.
#[utoipa::path(get, path = "/workflows/{workflow_id}", tag = "workflows",
    params(("workflow_id" = String, Path)), responses((status = 200, body = RunDetail)))]
async fn describe(
    caller: Caller<Read>,
    At(id): At<WorkflowId>,
) -> Result<Json<RunDetail>, Problem> {
    let client = caller.client().untyped();
    let current = Target::Current(caller.namespace.clone(), id.clone());
    let described = client.describe(&current).await?;
    let described = described.ok_or_else(|| missing(&caller.namespace, &id))?;
    Ok(Json(RunDetail::read(&client, described, true).await?))
}

/// There is no such workflow.
pub(super) fn missing(namespace: &Namespace, id: &WorkflowId) -> Problem {
    let why = format!("there is no workflow {id} in namespace {namespace}");
    Problem::missing("instance_not_found", why).with("workflow_id", id.to_string())
}

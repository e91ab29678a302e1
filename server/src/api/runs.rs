//! The runs of a workflow, and their histories.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use coord_engine::client::Untyped;
use coord_engine::model::{Event, EventKind, History, Namespace, Run, RunId, WorkflowId};
use coord_engine::store::{Filter, Listing, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Read};
use super::envelope::{CODEC, Envelope};
use super::input::{Asked, At};
use super::instant::shown;
use super::problem::Problem;
use super::run::{RunDetail, RunItem, shown_failure};
use super::{page, workflows};
use crate::Node;

/// How many events a page of a history holds unless the caller says otherwise.
const USUAL_EVENTS: u32 = 500;
/// The longest page of a history.
const MOST_EVENTS: u32 = 1000;
/// The most runs of one workflow that are listed, the latest: a workflow that continued more often
/// is read page by page through the list of workflows.
const MOST_RUNS: u32 = 200;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(describe))
        .routes(routes!(history))
        .routes(routes!(export))
}

/// The runs of a workflow.
#[derive(Serialize, ToSchema)]
struct RunList {
    namespace: String,
    workflow_id: String,
    /// How many there were, with those that are not kept any more.
    run_count: u32,
    /// The latest 200, the oldest first.
    runs: Vec<RunItem>,
}

/// All runs of a workflow, the oldest first.
#[utoipa::path(get, path = "/workflows/{workflow_id}/runs", tag = "workflows",
    params(("workflow_id" = String, Path)), responses((status = 200, body = RunList)))]
async fn list(caller: Caller<Read>, At(id): At<WorkflowId>) -> Result<Json<RunList>, Problem> {
    let listing = Listing {
        filter: Filter {
            workflow: Some(id.clone()),
            ..Filter::all(caller.namespace.clone())
        },
        limit: MOST_RUNS,
        after: None,
    };
    let mut found = caller.client().list(&listing).await?.runs;
    found.sort_by_key(|run| run.number);
    let last = found.last();
    let last = last.ok_or_else(|| workflows::missing(&caller.namespace, &id))?;
    Ok(Json(RunList {
        namespace: caller.namespace.to_string(),
        workflow_id: id.to_string(),
        run_count: last.number,
        runs: found.iter().map(RunItem::of).collect(),
    }))
}

/// A run of a workflow, also one that has ended.
#[utoipa::path(get, path = "/workflows/{workflow_id}/runs/{run_id}", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = RunDetail)))]
async fn describe(
    caller: Caller<Read>,
    At((id, run)): At<(WorkflowId, RunId)>,
) -> Result<Json<RunDetail>, Problem> {
    let client = caller.client().untyped();
    of_workflow(&client, &caller.namespace, &id, &run).await?;
    let described = client.describe(&Target::Run(run.clone())).await?;
    let described = described.ok_or_else(|| missing(&id, &run))?;
    let current = Target::Current(caller.namespace.clone(), id);
    let is_current = client.find(&current).await?.is_some_and(|it| it.run == run);
    let detail = RunDetail::read(&client, described, is_current).await?;
    Ok(Json(detail))
}

/// Whether the run `run` is one of the workflow `id` of the namespace: otherwise it is not there.
pub(super) async fn of_workflow(
    client: &Untyped,
    namespace: &Namespace,
    id: &WorkflowId,
    run: &RunId,
) -> Result<(), Problem> {
    let found = client.find(&Target::Run(run.clone())).await?;
    let is_of = |run: &Run| run.namespace == *namespace && run.workflow == *id;
    match found.as_ref().map(is_of) {
        Some(true) => Ok(()),
        _ => Err(missing(id, run)),
    }
}

fn missing(id: &WorkflowId, run: &RunId) -> Problem {
    let why = format!("workflow {id} has no run {run}");
    let missing = Problem::missing("run_not_found", why);
    missing
        .with("workflow_id", id.to_string())
        .with("run_id", run.to_string())
}

/// Which events of a history.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// How many at most, from 1 to 1000. Default: 500.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// Where the page begins, as the page before said.
    next_page_token: Option<String>,
}

/// A page of a history.
#[derive(Serialize, ToSchema)]
struct HistoryPage {
    namespace: String,
    workflow_id: String,
    run_id: String,
    events: Vec<EventItem>,
    next_page_token: Option<String>,
}

/// One durable fact of a run.
#[derive(Serialize, ToSchema)]
struct EventItem {
    namespace: String,
    /// Its number in the run, dense from 1.
    sequence: u64,
    event_type: String,
    /// When it was decided, on the database's clock.
    timestamp: Option<String>,
    /// What belongs to it: its details, and what it carries as an envelope.
    payload: Value,
}

/// The history of a run, from its first event on.
#[utoipa::path(get, path = "/workflows/{workflow_id}/runs/{run_id}/history", tag = "workflows",
    params(("workflow_id" = String, Path), ("run_id" = String, Path), Wanted),
    responses((status = 200, body = HistoryPage)))]
async fn history(
    caller: Caller<Read>,
    At((id, run)): At<(WorkflowId, RunId)>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<HistoryPage>, Problem> {
    let length = wanted.page_size;
    let length = page::bounded("page_size", length, USUAL_EVENTS, MOST_EVENTS)?;
    let after = page::place::<u64>(wanted.next_page_token.as_deref())?.unwrap_or(0);
    let client = caller.client().untyped();
    let read = client.events(&run, after, length).await?;
    let (found, events) = read.ok_or_else(|| missing(&id, &run))?;
    if found.namespace != caller.namespace || found.workflow != id {
        return Err(missing(&id, &run));
    }
    let is_full = events.len() == length as usize;
    let last = events.last().map(|event| event.seq).filter(|_| is_full);
    let shown = events.iter().map(|event| item(&client, &found, event));
    Ok(Json(HistoryPage {
        namespace: caller.namespace.to_string(),
        workflow_id: id.to_string(),
        run_id: run.to_string(),
        events: shown.collect::<Result<_, _>>()?,
        next_page_token: last.map(|seq| page::token(&seq)),
    }))
}

fn item(client: &Untyped, run: &Run, event: &Event) -> Result<EventItem, Problem> {
    let details = event.record()?.details;
    let mut payload = match details.map(|text| serde_json::from_str(&text)) {
        Some(Ok(Value::Object(details))) => details,
        _ => Map::new(),
    };
    if let Some(step) = event.step {
        payload.insert("step".to_owned(), step.into());
    }
    if let Some(value) = &event.payload {
        let envelope = Envelope::of(&client.decode(Some(value))?);
        let name = match event.kind {
            EventKind::Completed(_) => "output",
            EventKind::Started(_) => "input",
            _ => "value",
        };
        let envelope = serde_json::to_value(envelope).unwrap_or_default();
        payload.insert(name.to_owned(), envelope);
        payload.insert("payload_codec".to_owned(), CODEC.into());
    }
    if let Some(failure) = ended_by(&event.kind) {
        let Value::Object(shown) = shown_failure(failure) else {
            unreachable!("a failure is an object");
        };
        payload.extend(shown);
        payload.insert("reason".to_owned(), failure.message.clone().into());
    }
    Ok(EventItem {
        namespace: run.namespace.to_string(),
        sequence: event.seq,
        event_type: event_type(&event.kind),
        timestamp: shown(event.at),
        payload: Value::Object(payload),
    })
}

const fn ended_by(kind: &EventKind) -> Option<&coord_engine::model::Failure> {
    match kind {
        EventKind::Failed(failed)
        | EventKind::Cancelled(failed)
        | EventKind::Terminated(failed)
        | EventKind::TimedOut(failed) => Some(&failed.failure),
        _ => None,
    }
}

/// What the wire calls it: what begins and ends a run is named after the workflow.
fn event_type(kind: &EventKind) -> String {
    let name = kind.name();
    match kind {
        EventKind::Started(_)
        | EventKind::Completed(_)
        | EventKind::Failed(_)
        | EventKind::Cancelled(_)
        | EventKind::Terminated(_)
        | EventKind::TimedOut(_)
        | EventKind::ContinuedAsNew(_) => format!("Workflow{name}"),
        _ => name.to_owned(),
    }
}

/// The whole history of a run as a document of the engine, which can be imported and replayed.
#[utoipa::path(get, path = "/workflows/{workflow_id}/runs/{run_id}/history/export",
    tag = "workflows", params(("workflow_id" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = Object, content_type = "application/json")))]
async fn export(
    caller: Caller<Read>,
    At((id, run)): At<(WorkflowId, RunId)>,
) -> Result<([(axum::http::HeaderName, &'static str); 1], String), Problem> {
    let client = caller.client().untyped();
    of_workflow(&client, &caller.namespace, &id, &run).await?;
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page = client.events(&run, after, MOST_EVENTS).await?;
        let (_, page) = page.ok_or_else(|| missing(&id, &run))?;
        let is_last = page.len() < MOST_EVENTS as usize;
        events.extend(page);
        if is_last {
            break;
        }
    }
    let document = History::new(run, events)?.to_json()?;
    Ok(([(CONTENT_TYPE, "application/json")], document))
}

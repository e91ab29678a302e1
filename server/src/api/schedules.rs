//! Schedules: workflows that start again and again.

mod definition;
mod shown;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::client::{ScheduleHandle, Triggered};
use coord_engine::model::{Overlap, Schedule, ScheduleId};
use coord_engine::store::{ScheduleDescription, ScheduleListing};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Operate, Read};
use super::input::{Asked, At, Body};
use super::problem::Problem;
use super::workflows::named;
use super::{instant, page};
use crate::Node;
use definition::{Change, Create, overlap};
use shown::{FireItem, ScheduleItem, fires};

/// How many fires a page of a history holds unless the caller says otherwise, which is as many as
/// the engine keeps.
const KEPT_FIRES: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(describe, update, delete))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(trigger))
        .routes(routes!(backfill))
        .routes(routes!(history))
}

/// What became of a change.
#[derive(Serialize, ToSchema)]
struct Changed {
    namespace: String,
    schedule_id: String,
    /// `created`, `updated`, `paused`, `resumed` or `deleted`.
    outcome: &'static str,
}

fn changed<R>(caller: &Caller<R>, id: &ScheduleId, outcome: &'static str) -> Json<Changed> {
    Json(Changed {
        namespace: caller.namespace.to_string(),
        schedule_id: id.to_string(),
        outcome,
    })
}

/// Creates a schedule.
#[utoipa::path(post, path = "/schedules", tag = "schedules", request_body = Create,
    responses((status = 201, body = Changed)))]
async fn create(
    caller: Caller<Operate>,
    Body(mut create): Body<Create>,
) -> Result<(StatusCode, Json<Changed>), Problem> {
    let id = match create.schedule_id.take() {
        Some(id) => named("schedule_id", ScheduleId::new(id))?,
        None => ScheduleId::new(caller.node.make_id().as_str())?,
    };
    let client = caller.client();
    let (paused, note) = (create.paused, create.note.take());
    let schedule = create.schedule(&client.untyped())?;
    let mut call = client.untyped().create_schedule(id.clone(), schedule);
    if paused {
        call = call.paused(note.unwrap_or_default());
    }
    let handle = client.schedule(id.clone());
    if handle.describe().await?.is_some() {
        return Err(taken(&id));
    }
    if let Err(error) = call.await {
        // Somebody was faster, or it never could be.
        return match handle.describe().await? {
            Some(_) => Err(taken(&id)),
            None => Err(error.into()),
        };
    }
    Ok((StatusCode::CREATED, changed(&caller, &id, "created")))
}

fn taken(id: &ScheduleId) -> Problem {
    Problem::conflict(
        "schedule_already_exists",
        format!("a schedule {id} is there"),
    )
}

fn missing(id: &ScheduleId) -> Problem {
    Problem::missing("schedule_not_found", format!("there is no schedule {id}"))
}

/// The schedule of the path, which is there.
async fn existing<R>(
    caller: &Caller<R>,
    id: &ScheduleId,
) -> Result<(ScheduleHandle, ScheduleDescription), Problem> {
    let handle = caller.client().schedule(id.clone());
    let described = handle.describe().await?.ok_or_else(|| missing(id))?;
    Ok((handle, described))
}

/// Which schedules to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// How many at most, from 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200)]
    page_size: Option<u32>,
    /// Where the page begins, as the page before said.
    next_page_token: Option<String>,
}

/// A page of schedules.
#[derive(Serialize, ToSchema)]
struct SchedulePage {
    namespace: String,
    schedules: Vec<ScheduleItem>,
    schedule_count: usize,
    next_page_token: Option<String>,
}

/// Schedules, by their ids.
#[utoipa::path(get, path = "/schedules", tag = "schedules", params(Wanted),
    responses((status = 200, body = SchedulePage)))]
async fn list(
    caller: Caller<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<SchedulePage>, Problem> {
    let listing = ScheduleListing {
        namespace: caller.namespace.clone(),
        limit: page::length(wanted.page_size)?,
        after: page::place(wanted.next_page_token.as_deref())?,
    };
    let client = caller.client();
    let found = client.list_schedules(&listing).await?;
    let shown = found.schedules.iter();
    let shown: Vec<_> = shown
        .map(|record| ScheduleItem::of(&client.untyped(), record, None))
        .collect::<Result<_, _>>()?;
    Ok(Json(SchedulePage {
        namespace: caller.namespace.to_string(),
        schedule_count: shown.len(),
        schedules: shown,
        next_page_token: found.next.as_ref().map(page::token),
    }))
}

/// A schedule, and where it stands.
#[utoipa::path(get, path = "/schedules/{schedule_id}", tag = "schedules",
    params(("schedule_id" = String, Path)), responses((status = 200, body = ScheduleItem)))]
async fn describe(
    caller: Caller<Read>,
    At(id): At<ScheduleId>,
) -> Result<Json<ScheduleItem>, Problem> {
    let (_, described) = existing(&caller, &id).await?;
    let client = caller.client().untyped();
    let last = described.fires.first();
    Ok(Json(ScheduleItem::of(&client, &described.record, last)?))
}

/// Gives a schedule another definition. What is left out stays as it is.
#[utoipa::path(put, path = "/schedules/{schedule_id}", tag = "schedules", request_body = Change,
    params(("schedule_id" = String, Path)), responses((status = 200, body = Changed)))]
async fn update(
    caller: Caller<Operate>,
    At(id): At<ScheduleId>,
    Body(change): Body<Change>,
) -> Result<Json<Changed>, Problem> {
    let (handle, described) = existing(&caller, &id).await?;
    let record = described.record;
    let schedule: Schedule = change.of(&caller.client().untyped(), record.schedule)?;
    if !handle.update(record.state.version, &schedule).await? {
        let why = format!("schedule {id} was changed by somebody else at the same time");
        return Err(Problem::conflict("schedule_changed", why));
    }
    Ok(changed(&caller, &id, "updated"))
}

/// Deletes a schedule. The workflows that it has started go on.
#[utoipa::path(delete, path = "/schedules/{schedule_id}", tag = "schedules",
    params(("schedule_id" = String, Path)), responses((status = 200, body = Changed)))]
async fn delete(caller: Caller<Operate>, At(id): At<ScheduleId>) -> Result<Json<Changed>, Problem> {
    if caller.client().schedule(id.clone()).delete().await? {
        return Ok(changed(&caller, &id, "deleted"));
    }
    Err(missing(&id))
}

/// Why a schedule is paused, or goes on.
#[derive(Deserialize, ToSchema)]
struct Note {
    note: Option<String>,
}

/// Lets nothing fire by itself until the schedule is resumed.
#[utoipa::path(post, path = "/schedules/{schedule_id}/pause", tag = "schedules",
    request_body = Note, params(("schedule_id" = String, Path)),
    responses((status = 200, body = Changed)))]
async fn pause(
    caller: Caller<Operate>,
    At(id): At<ScheduleId>,
    Body(note): Body<Note>,
) -> Result<Json<Changed>, Problem> {
    let (handle, _) = existing(&caller, &id).await?;
    handle.pause(&note.note.unwrap_or_default()).await?;
    Ok(changed(&caller, &id, "paused"))
}

/// Lets the schedule fire again, from its next occurrence on.
#[utoipa::path(post, path = "/schedules/{schedule_id}/resume", tag = "schedules",
    request_body = Note, params(("schedule_id" = String, Path)),
    responses((status = 200, body = Changed)))]
async fn resume(
    caller: Caller<Operate>,
    At(id): At<ScheduleId>,
    Body(note): Body<Note>,
) -> Result<Json<Changed>, Problem> {
    let (handle, _) = existing(&caller, &id).await?;
    handle.resume(&note.note.unwrap_or_default()).await?;
    Ok(changed(&caller, &id, "resumed"))
}

/// What became of a trigger.
#[derive(Serialize, ToSchema)]
struct TriggerAnswer {
    namespace: String,
    schedule_id: String,
    /// `triggered`, `buffered` or `skipped`.
    outcome: &'static str,
    /// What it started, or will start.
    workflow_id: Option<String>,
    /// Why it was skipped.
    reason: Option<&'static str>,
}

/// Fires the schedule now, by its policy for open workflows.
#[utoipa::path(post, path = "/schedules/{schedule_id}/trigger", tag = "schedules",
    params(("schedule_id" = String, Path)), responses((status = 200, body = TriggerAnswer)))]
async fn trigger(
    caller: Caller<Operate>,
    At(id): At<ScheduleId>,
) -> Result<Json<TriggerAnswer>, Problem> {
    let (handle, _) = existing(&caller, &id).await?;
    let (outcome, workflow, reason) = match handle.trigger().await? {
        Triggered::Started(workflow) => ("triggered", Some(workflow), None),
        Triggered::Waits(workflow) => ("buffered", Some(workflow), None),
        Triggered::Skipped => ("skipped", None, Some("overlap")),
    };
    Ok(Json(TriggerAnswer {
        namespace: caller.namespace.to_string(),
        schedule_id: id.to_string(),
        outcome,
        workflow_id: workflow.map(|it| it.to_string()),
        reason,
    }))
}

/// A span whose occurrences are to fire.
#[derive(Deserialize, ToSchema)]
struct Span {
    /// From when on, in RFC 3339.
    #[schema(format = DateTime)]
    start_time: String,
    /// Until before when, in RFC 3339.
    #[schema(format = DateTime)]
    end_time: String,
    /// What happens while another one is open. Default: as the schedule has it.
    overlap_policy: Option<String>,
}

/// What became of a backfill.
#[derive(Serialize, ToSchema)]
struct BackfillAnswer {
    namespace: String,
    schedule_id: String,
    /// Always `backfilling`.
    outcome: &'static str,
    /// How many have fired by now; the others follow.
    fires_attempted: u64,
}

/// Fires the occurrences of a span, as far as they are past and have not fired.
#[utoipa::path(post, path = "/schedules/{schedule_id}/backfill", tag = "schedules",
    request_body = Span, params(("schedule_id" = String, Path)),
    responses((status = 200, body = BackfillAnswer)))]
async fn backfill(
    caller: Caller<Operate>,
    At(id): At<ScheduleId>,
    Body(span): Body<Span>,
) -> Result<Json<BackfillAnswer>, Problem> {
    let (handle, described) = existing(&caller, &id).await?;
    let from = instant::read("start_time", &span.start_time)?;
    let until = instant::read("end_time", &span.end_time)?;
    if until <= from {
        return Err(Problem::field("end_time", "it is after start_time"));
    }
    let by: Option<Overlap> = span.overlap_policy.as_deref().map(overlap).transpose()?;
    let by = by.unwrap_or(described.record.schedule.overlap);
    handle.backfill(from, until, by).await?;
    let after = handle.describe().await?.ok_or_else(|| missing(&id))?;
    let fires = after.record.state.fires;
    Ok(Json(BackfillAnswer {
        namespace: caller.namespace.to_string(),
        schedule_id: id.to_string(),
        outcome: "backfilling",
        fires_attempted: fires.saturating_sub(described.record.state.fires),
    }))
}

/// Which fires of a schedule.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WantedFires {
    /// How many at most, from 1 to 100. Default: 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Only those after this one.
    after_sequence: Option<u64>,
}

/// What a schedule did, the oldest first.
#[derive(Serialize, ToSchema)]
struct Fires {
    namespace: String,
    schedule_id: String,
    events: Vec<FireItem>,
    has_more: bool,
    /// What `after_sequence` is for the next page.
    next_cursor: Option<u64>,
}

/// The latest 100 fires of a schedule, the oldest first.
#[utoipa::path(get, path = "/schedules/{schedule_id}/history", tag = "schedules",
    params(("schedule_id" = String, Path), WantedFires), responses((status = 200, body = Fires)))]
async fn history(
    caller: Caller<Read>,
    At(id): At<ScheduleId>,
    Asked(wanted): Asked<WantedFires>,
) -> Result<Json<Fires>, Problem> {
    let limit = page::bounded("limit", wanted.limit, KEPT_FIRES, KEPT_FIRES)? as usize;
    let (_, described) = existing(&caller, &id).await?;
    let mut events = fires(&described);
    events.retain(|fire| fire.sequence > wanted.after_sequence.unwrap_or(0));
    let has_more = events.len() > limit;
    events.truncate(limit);
    let last = events.last().map(|fire| fire.sequence);
    Ok(Json(Fires {
        namespace: caller.namespace.to_string(),
        schedule_id: id.to_string(),
        events,
        has_more,
        next_cursor: last.filter(|_| has_more),
    }))
}

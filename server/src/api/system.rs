//! What an operator looks at and does to the whole.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::health::{self, Category, Report, Status};
use coord_engine::model::{RunId, Timestamp, WorkflowId};
use coord_engine::store::{Census, Filter, Listing, Period, Role, Tally, Target};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Administer, Caller, Everywhere, Read};
use super::input::{Asked, Body};
use super::instant::shown;
use super::page;
use super::problem::Problem;
use super::workflows::named;
use crate::Node;

/// How many ids an answer names at most, and how many a request may.
const MOST_IDS: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(system_health))
        .routes(routes!(repair_status))
        .routes(routes!(repair_pass))
        .routes(routes!(activity_timeout_status))
        .routes(routes!(activity_timeout_pass))
        .routes(routes!(retention_status))
        .routes(routes!(retention_pass))
}

/// How the node and what it stands on are.
#[derive(Serialize, ToSchema)]
struct SystemHealth {
    /// The database's clock; `null` when it does not answer.
    generated_at: Option<String>,
    /// The worst of all checks: `ok`, `info`, `warning` or `error`.
    status: &'static str,
    /// Whether nothing keeps work from being done: it is `error` in no check.
    healthy: bool,
    categories: Categories,
    checks: Vec<CheckItem>,
}

/// The worst of each category.
#[derive(Serialize, ToSchema)]
pub(super) struct Categories {
    /// What keeps work from being done.
    correctness: &'static str,
    /// What makes it slower.
    acceleration: &'static str,
}

impl Categories {
    pub(super) fn of(report: &Report) -> Self {
        Self {
            correctness: report.category(Category::Correctness).as_str(),
            acceleration: report.category(Category::Acceleration).as_str(),
        }
    }
}

/// One thing that was looked at.
#[derive(Serialize, ToSchema)]
struct CheckItem {
    name: &'static str,
    /// `correctness` or `acceleration`.
    category: &'static str,
    status: &'static str,
    /// What was found, for people.
    message: String,
    /// What to do about it; empty when there is nothing to do.
    remediation: &'static str,
    /// How many there are of what was found.
    count: u64,
    /// For how long the oldest of them has been so.
    max_age_ms: u64,
}

impl CheckItem {
    fn of(check: &health::Check) -> Self {
        Self {
            name: check.name,
            category: check.category.as_str(),
            status: check.status.as_str(),
            message: check.message.clone(),
            remediation: check.remedy,
            count: check.count,
            max_age_ms: millis(check.age),
        }
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// How the node and what it stands on are, check by check, with what to do about what is wrong.
#[utoipa::path(get, path = "/system/health", tag = "system",
    responses((status = 200, body = SystemHealth, description = "Work is done."),
        (status = 503, body = SystemHealth, description = "Something keeps it from being done.")))]
async fn system_health(caller: Everywhere<Read>) -> (StatusCode, Json<SystemHealth>) {
    let report = caller.node.engine().health().await;
    let status = report.status();
    let code = match status {
        Status::Error => StatusCode::SERVICE_UNAVAILABLE,
        Status::Ok | Status::Info | Status::Warning => StatusCode::OK,
    };
    let health = SystemHealth {
        generated_at: report.now.and_then(shown),
        status: status.as_str(),
        healthy: status != Status::Error,
        categories: Categories::of(&report),
        checks: report.checks.iter().map(CheckItem::of).collect(),
    };
    (code, Json(health))
}

/// What repair goes by, and what there is for it.
#[derive(Serialize, ToSchema)]
struct RepairStatus {
    policy: RepairPolicy,
    candidates: RepairCandidates,
    /// The process that repairs for all; `null` while none does.
    leader: Option<String>,
}

/// When one process of all repairs.
#[derive(Serialize, ToSchema)]
struct RepairPolicy {
    /// How often it looks.
    loop_throttle_seconds: u64,
    /// After how long without a sign of life a process counts as dead.
    owner_ttl_seconds: u64,
}

/// What there is to repair.
#[derive(Serialize, ToSchema)]
struct RepairCandidates {
    /// Tasks whose lease has ended and that were not taken back yet.
    existing_task_candidates: u64,
    /// Since when the first of them has waited for that.
    oldest_task_candidate_at: Option<String>,
    max_task_candidate_age_ms: u64,
    /// Activities that are past their time and were not ended yet.
    activity_timeout_candidates: u64,
    max_activity_timeout_age_ms: u64,
}

fn oldest(tally: Tally) -> Option<String> {
    tally.since.and_then(shown)
}

fn leader(census: &Census, role: Role) -> Option<String> {
    let row = census.roles.iter().find(|row| row.role == role);
    let row = row.filter(|_| census.is_held(role))?;
    Some(row.holder.as_ref()?.to_string())
}

/// What repair goes by, what there is for it, and who does it.
#[utoipa::path(get, path = "/system/repair", tag = "system",
    responses((status = 200, body = RepairStatus)))]
async fn repair_status(caller: Everywhere<Read>) -> Result<Json<RepairStatus>, Problem> {
    let engine = caller.node.engine();
    let census = engine.census().await?;
    let (expired, overdue) = (
        census.total(|queue| queue.expired),
        census.total(|queue| queue.overdue),
    );
    Ok(Json(RepairStatus {
        policy: RepairPolicy {
            loop_throttle_seconds: engine.recovery().every.as_secs(),
            owner_ttl_seconds: engine.recovery().ttl.as_secs(),
        },
        candidates: RepairCandidates {
            existing_task_candidates: expired.count,
            oldest_task_candidate_at: oldest(expired),
            max_task_candidate_age_ms: millis(expired.age(census.now)),
            activity_timeout_candidates: overdue.count,
            max_activity_timeout_age_ms: millis(overdue.age(census.now)),
        },
        leader: leader(&census, Role::Recovery),
    }))
}

/// What to repair.
#[derive(Deserialize, ToSchema)]
struct Repair {
    /// These runs alone: those that stand without their workflow task get one.
    #[schema(max_items = 100)]
    run_ids: Option<Vec<String>>,
    /// The current run of this workflow of the request's namespace alone.
    #[schema(min_length = 1, max_length = 255)]
    instance_id: Option<String>,
}

/// What a pass of repair did.
#[derive(Serialize, ToSchema)]
struct RepairPass {
    /// The runs that were asked for; all, when there are none.
    run_ids: Vec<String>,
    instance_id: Option<String>,
    /// Tasks that were taken back.
    repaired_existing_tasks: u64,
    /// Runs that stood without their workflow task and have one again.
    repaired_missing_tasks: u64,
    /// Activities, or attempts of them, that were past their time and were ended.
    activity_timeouts_enforced: u64,
}

/// Sees now to what one process of all sees to by itself, in every namespace: takes back what nobody
/// works on, ends activities past their time, and gives runs the task that something has removed.
///
/// With `run_ids` or `instance_id` only these runs are looked at, and only for their missing task.
#[utoipa::path(post, path = "/system/repair/pass", tag = "system", request_body = Repair,
    responses((status = 200, body = RepairPass)))]
async fn repair_pass(
    caller: Everywhere<Administer>,
    within: Caller<Administer>,
    Body(repair): Body<Repair>,
) -> Result<Json<RepairPass>, Problem> {
    let engine = caller.node.engine();
    let mut runs = ids(repair.run_ids.unwrap_or_default())?;
    if let Some(id) = &repair.instance_id {
        let id = named("instance_id", WorkflowId::new(id.clone()))?;
        let current = Target::Current(within.namespace.clone(), id.clone());
        let found = within.client().untyped().find(&current).await?;
        let found = found.ok_or_else(|| super::workflows::missing(&within.namespace, &id))?;
        runs.push(found.run);
    }
    let mut pass = RepairPass {
        run_ids: runs.iter().map(ToString::to_string).collect(),
        instance_id: repair.instance_id,
        repaired_existing_tasks: 0,
        repaired_missing_tasks: 0,
        activity_timeouts_enforced: 0,
    };
    if runs.is_empty() {
        let repaired = engine.repair_pass(|_| {}).await?;
        pass.repaired_existing_tasks = repaired.tasks;
        pass.repaired_missing_tasks = repaired.runs;
        pass.activity_timeouts_enforced = repaired.activities;
    }
    for run in runs {
        pass.repaired_missing_tasks += u64::from(engine.repair_run(run).await?);
    }
    Ok(Json(pass))
}

fn ids(named_runs: Vec<String>) -> Result<Vec<RunId>, Problem> {
    if named_runs.len() > MOST_IDS as usize {
        return Err(Problem::field(
            "run_ids",
            format!("there are at most {MOST_IDS}"),
        ));
    }
    let ids = named_runs.into_iter().map(RunId::new);
    named("run_ids", ids.collect())
}

/// Activities that are past their time.
#[derive(Serialize, ToSchema)]
struct ActivityTimeouts {
    /// How many were not ended yet.
    expired_count: u64,
    /// Since when the first of them should have been.
    oldest_expired_at: Option<String>,
    max_expired_age_ms: u64,
}

/// How many activities are past their time and were not ended yet.
#[utoipa::path(get, path = "/system/activity-timeouts", tag = "system",
    responses((status = 200, body = ActivityTimeouts)))]
async fn activity_timeout_status(
    caller: Everywhere<Read>,
) -> Result<Json<ActivityTimeouts>, Problem> {
    let census = caller.node.engine().census().await?;
    let overdue = census.total(|queue| queue.overdue);
    Ok(Json(ActivityTimeouts {
        expired_count: overdue.count,
        oldest_expired_at: oldest(overdue),
        max_expired_age_ms: millis(overdue.age(census.now)),
    }))
}

/// What a pass over activities did.
#[derive(Serialize, ToSchema)]
struct ActivityTimeoutPass {
    /// How many activities, or attempts of them, were ended.
    enforced: u64,
}

/// Ends now the activities that are past their time, in every namespace.
#[utoipa::path(post, path = "/system/activity-timeouts/pass", tag = "system",
    responses((status = 200, body = ActivityTimeoutPass)))]
async fn activity_timeout_pass(
    caller: Everywhere<Administer>,
) -> Result<Json<ActivityTimeoutPass>, Problem> {
    let enforced = caller.node.engine().end_overdue_activities().await?;
    Ok(Json(ActivityTimeoutPass { enforced }))
}

/// How much of what is past its retention to name.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Limited {
    /// How many runs at most, from 1 to 100. Default: 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// For how long a namespace keeps its closed runs, and what is past that.
#[derive(Serialize, ToSchema)]
struct RetentionStatus {
    namespace: String,
    /// In days, rounded up.
    retention_days: u64,
    retention_seconds: u64,
    /// What closed before this goes.
    cutoff: Option<String>,
    /// How many runs are named.
    expired_run_count: u64,
    expired_run_ids: Vec<String>,
    scan_limit: u32,
    /// Whether there are more than are named.
    scan_pressure: bool,
}

/// For how long the namespace keeps its closed runs, and which are past that.
#[utoipa::path(get, path = "/system/retention", tag = "system", params(Limited),
    responses((status = 200, body = RetentionStatus)))]
async fn retention_status(
    caller: Caller<Read>,
    Asked(limited): Asked<Limited>,
) -> Result<Json<RetentionStatus>, Problem> {
    let limit = page::bounded("limit", limited.limit, MOST_IDS, MOST_IDS)?;
    let engine = caller.node.engine();
    let registered = engine.describe_namespace(&caller.namespace).await?;
    let retention = registered.map_or_else(|| engine.retention(), |it| it.retention);
    let kept = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
    let cutoff = engine.now().await?.as_micros().saturating_sub(kept);
    let cutoff = Timestamp::from_micros(cutoff.max(0));
    let listing = Listing {
        filter: Filter {
            closed: Period {
                from: None,
                until: Some(cutoff),
            },
            ..Filter::all(caller.namespace.clone())
        },
        limit,
        after: None,
    };
    let expired = caller.client().list(&listing).await?;
    Ok(Json(RetentionStatus {
        namespace: caller.namespace.to_string(),
        retention_days: retention.as_secs().div_ceil(24 * 60 * 60),
        retention_seconds: retention.as_secs(),
        cutoff: shown(cutoff),
        expired_run_count: expired.runs.len() as u64,
        expired_run_ids: expired.runs.iter().map(|run| run.run.to_string()).collect(),
        scan_limit: limit,
        scan_pressure: expired.next.is_some(),
    }))
}

/// What a pass of retention did.
#[derive(Serialize, ToSchema)]
struct RetentionPass {
    /// How many closed runs were removed.
    processed: u64,
    /// The same.
    pruned: u64,
}

/// Removes now what is past its retention, in every namespace.
#[utoipa::path(post, path = "/system/retention/pass", tag = "system",
    responses((status = 200, body = RetentionPass)))]
async fn retention_pass(caller: Everywhere<Administer>) -> Result<Json<RetentionPass>, Problem> {
    let removed = caller.node.engine().retire_closed_runs(|_| {}).await?;
    Ok(Json(RetentionPass {
        processed: removed,
        pruned: removed,
    }))
}

//! The workers that live, of all processes.

use axum::Json;
use coord_engine::compatibility::Supported;
use coord_engine::model::Queue;
use coord_engine::store::{WorkerFilter, WorkerRecord};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Read};
use super::input::{Asked, At};
use super::instant::shown;
use super::problem::Problem;
use super::workflows::named;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(describe))
}

/// A worker that lives. It is listed as long as its process shows that it does.
#[derive(Serialize, ToSchema)]
pub(super) struct WorkerItem {
    worker_id: String,
    namespace: String,
    task_queue: String,
    /// Always `rust`.
    runtime: &'static str,
    /// What its process marks new runs with.
    build_id: Option<String>,
    /// The builds that it goes on with; `["*"]` stands for every one.
    supported_build_ids: Vec<String>,
    /// `active`, or `draining` when its process takes no more work.
    status: &'static str,
    /// What its process is called.
    node: String,
    /// The owner of its leases.
    lease_owner: String,
    host: Option<String>,
    process_id: u32,
    registered_at: Option<String>,
    last_heartbeat_at: Option<String>,
    /// When it no longer counts as alive, unless its process shows again that it does.
    heartbeat_expires_at: Option<String>,
}

impl WorkerItem {
    pub(super) fn of(worker: &WorkerRecord) -> Self {
        let own = &worker.enlistment;
        Self {
            worker_id: own.worker.clone(),
            namespace: own.namespace.to_string(),
            task_queue: own.queue.to_string(),
            runtime: "rust",
            build_id: own.current.as_ref().map(ToString::to_string),
            supported_build_ids: match &own.supported {
                Supported::All => vec!["*".to_owned()],
                Supported::Only(builds) => builds.iter().map(ToString::to_string).collect(),
            },
            status: status(worker),
            node: worker.node.clone(),
            lease_owner: own.owner.to_string(),
            host: own.host.clone(),
            process_id: worker.pid,
            registered_at: shown(worker.started_at),
            last_heartbeat_at: shown(worker.recorded_at),
            heartbeat_expires_at: shown(worker.expires_at),
        }
    }
}

fn status(worker: &WorkerRecord) -> &'static str {
    if worker.is_draining {
        "draining"
    } else {
        "active"
    }
}

/// Which workers to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Only workers of this queue.
    #[param(min_length = 1, max_length = 255)]
    task_queue: Option<String>,
    /// Only those that stand so: `active` or `draining`.
    status: Option<String>,
}

/// The workers of a namespace.
#[derive(Serialize, ToSchema)]
struct WorkerList {
    namespace: String,
    workers: Vec<WorkerItem>,
    /// For how long after its last sign of life a worker is listed.
    stale_after_seconds: u64,
}

/// The workers of the namespace that live, of all processes.
#[utoipa::path(get, path = "/workers", tag = "workers", params(Wanted),
    responses((status = 200, body = WorkerList)))]
async fn list(
    caller: Caller<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<WorkerList>, Problem> {
    let queue = wanted.task_queue.map(Queue::new).transpose();
    let filter = WorkerFilter {
        namespace: Some(caller.namespace.clone()),
        queue: named("task_queue", queue)?,
    };
    let only = wanted.status.as_deref();
    if only.is_some_and(|only| !["active", "draining"].contains(&only)) {
        return Err(Problem::field("status", "it is active or draining"));
    }
    let engine = caller.node.engine();
    let found = engine.workers(&filter).await?;
    let meant = found.iter();
    let meant = meant.filter(|worker| only.is_none_or(|only| status(worker) == only));
    Ok(Json(WorkerList {
        namespace: caller.namespace.to_string(),
        workers: meant.map(WorkerItem::of).collect(),
        stale_after_seconds: engine.recovery().ttl.as_secs(),
    }))
}

/// A worker that lives.
#[utoipa::path(get, path = "/workers/{worker_id}", tag = "workers",
    params(("worker_id" = String, Path)), responses((status = 200, body = WorkerItem)))]
async fn describe(caller: Caller<Read>, At(id): At<String>) -> Result<Json<WorkerItem>, Problem> {
    let filter = WorkerFilter {
        namespace: Some(caller.namespace.clone()),
        queue: None,
    };
    let found = caller.node.engine().workers(&filter).await?;
    let found = found.iter().find(|worker| worker.enlistment.worker == id);
    let found = found.ok_or_else(|| {
        let namespace = &caller.namespace;
        let why = format!("no worker {id} lives in namespace {namespace}");
        Problem::missing("worker_not_found", why)
    })?;
    Ok(Json(WorkerItem::of(found)))
}

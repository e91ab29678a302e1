//! Whether a node lives, whether it takes traffic, and what it can do.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coord_engine::health::{Check, Status};
use coord_engine::model::Namespace;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::CONTROL_PLANE_VERSION;
use super::caller::{Caller, Known};
use super::envelope::CODEC;
use super::system::Categories;
use crate::Node;

/// How long a probe for traffic waits for the database: one that takes longer is none to send
/// traffic to. Whoever probes waits a little longer.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// How long a probe for life does: less than the second that orchestrators wait unless they are told
/// otherwise, since a database that is away is no reason to restart a node.
const SHORT_LOOK: Duration = Duration::from_millis(500);

/// What is asked without a token: a load balancer has none.
pub(super) fn open_routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
}

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new().routes(routes!(cluster_info))
}

/// How a node stands. Without a token nobody learns more of it than words.
#[derive(Serialize, ToSchema)]
struct Standing {
    /// `serving`.
    status: &'static str,
    /// The worst of all checks: `ok`, `info`, `warning` or `error`; `unknown` when there was no
    /// answer in time.
    health: &'static str,
    categories: Option<Categories>,
    checks: Vec<Verdict>,
}

/// What came of a check.
#[derive(Serialize, ToSchema)]
struct Verdict {
    name: &'static str,
    status: &'static str,
}

/// Whether the process serves HTTP at all, which it says with 200 whatever else is wrong. What it
/// stands on is told beside; `/api/ready` says whether to send it traffic.
#[utoipa::path(get, path = "/health", tag = "discovery", security(()),
    responses((status = 200, body = Standing)))]
async fn health(State(node): State<Node>) -> Json<Standing> {
    let report = tokio::time::timeout(SHORT_LOOK, node.engine().health())
        .await
        .ok();
    let checks = report.iter().flat_map(|report| &report.checks);
    let verdict = |check: &Check| Verdict {
        name: check.name,
        status: check.status.as_str(),
    };
    Json(Standing {
        status: "serving",
        health: report.as_ref().map_or("unknown", |it| it.status().as_str()),
        categories: report.as_ref().map(Categories::of),
        checks: checks.map(verdict).collect(),
    })
}

/// Whether a node takes traffic.
#[derive(Serialize, ToSchema)]
struct Readiness {
    /// `ready`, `draining` or `unavailable`.
    status: &'static str,
    /// What it needs to do its work.
    needs: Needs,
}

/// Each of them `ok` or `error`.
#[derive(Serialize, ToSchema)]
struct Needs {
    /// The database answers.
    database: &'static str,
    /// Its schema is one that this program works with.
    migrations: &'static str,
    /// The default namespace can be looked at.
    namespace: &'static str,
}

/// Whether the node takes traffic: it is not draining, its database answers with a schema that it
/// works with, and the default namespace can be looked at. Redis has no say: without it nodes are
/// slower, never wrong.
#[utoipa::path(get, path = "/ready", tag = "discovery", security(()),
    responses((status = 200, body = Readiness), (status = 503, body = Readiness)))]
async fn ready(State(node): State<Node>) -> (StatusCode, Json<Readiness>) {
    let look = async {
        let (engine, namespace) = (node.engine(), Namespace::default());
        let (report, described) =
            tokio::join!(engine.health(), engine.describe_namespace(&namespace));
        (report, described.is_ok())
    };
    let looked = tokio::time::timeout(LONGEST_LOOK, look).await.ok();
    let passes = |name: &str| {
        let check = looked.as_ref().and_then(|(report, _)| report.check(name));
        check.is_some_and(|check| check.status < Status::Error)
    };
    let database = passes("backend_capabilities");
    let migrations = passes("schema_migrations");
    let namespace = looked.as_ref().is_some_and(|(_, is_there)| *is_there);
    let is_ready = database && migrations && namespace;
    let (code, status) = match (node.is_draining(), is_ready) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, true) => (StatusCode::OK, "ready"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    let word = |passes| if passes { "ok" } else { "error" };
    let needs = Needs {
        database: word(database),
        migrations: word(migrations),
        namespace: word(namespace),
    };
    (code, Json(Readiness { status, needs }))
}

/// What a node is, and what the published SDKs ask for before they rely on it.
#[derive(Serialize, ToSchema)]
struct ClusterInfo {
    /// The name of this program.
    server: &'static str,
    version: &'static str,
    namespace: String,
    default_namespace: String,
    /// What a payload may be encoded as.
    payload_codecs: Vec<&'static str>,
    control_plane: Value,
    worker_protocol: Value,
    limits: Value,
}

/// What this node is and can do.
#[utoipa::path(get, path = "/cluster/info", tag = "discovery",
    responses((status = 200, body = ClusterInfo)))]
async fn cluster_info(caller: Caller<Known>) -> Json<ClusterInfo> {
    Json(ClusterInfo {
        server: "coord",
        version: env!("CARGO_PKG_VERSION"),
        namespace: caller.namespace.to_string(),
        default_namespace: Namespace::default().to_string(),
        payload_codecs: vec![CODEC, "json"],
        control_plane: json!({
            "version": CONTROL_PLANE_VERSION,
            "request_contract": {"operations": {
                "start": {"fields": {"duplicate_policy": {
                    "canonical_values": ["fail", "use-existing"],
                }}},
                "update": {"fields": {"wait_for": {
                    "canonical_values": ["accepted", "completed"],
                }}},
            }},
        }),
        // A query is answered by a worker of the node that is asked.
        worker_protocol: json!({"server_capabilities": {"query_tasks": true}}),
        limits: json!({"max_request_bytes": super::MAX_BODY_BYTES}),
    })
}

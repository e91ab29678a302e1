//! Whether a node lives, whether it takes traffic, and what it can do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coord_engine::model::Namespace;
use coord_engine::store::{Filter, Listing};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::CONTROL_PLANE_VERSION;
use super::caller::{Caller, Known};
use super::envelope::CODEC;
use crate::Node;

/// What is asked without a token: a load balancer has none.
pub(super) fn open_routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
}

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new().routes(routes!(cluster_info))
}

#[derive(Serialize, ToSchema)]
struct Standing {
    /// `serving`, `ready`, `draining` or `unavailable`.
    status: &'static str,
}

/// Whether the process serves HTTP at all.
#[utoipa::path(get, path = "/health", tag = "discovery", security(()),
    responses((status = 200, body = Standing)))]
async fn health() -> Json<Standing> {
    Json(Standing { status: "serving" })
}

/// Whether the node takes traffic: it is not draining, and its database answers.
#[utoipa::path(get, path = "/ready", tag = "discovery", security(()),
    responses((status = 200, body = Standing), (status = 503, body = Standing)))]
async fn ready(State(node): State<Node>) -> (StatusCode, Json<Standing>) {
    let status = if node.is_draining() {
        "draining"
    } else if answers(&node).await {
        "ready"
    } else {
        "unavailable"
    };
    let code = match status {
        "ready" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(Standing { status }))
}

/// Whether the database answers a question that costs it one look into an index.
async fn answers(node: &Node) -> bool {
    let client = node
        .engine()
        .client(Namespace::default(), coord_engine::model::Queue::default());
    let listing = Listing {
        filter: Filter::all(Namespace::default()),
        limit: 1,
        after: None,
    };
    client.list(&listing).await.is_ok()
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

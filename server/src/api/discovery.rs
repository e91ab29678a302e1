//! Whether a node lives, and whether it takes traffic.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
}

#[derive(Serialize, ToSchema)]
struct Standing {
    /// `serving`, `ready` or `draining`.
    status: &'static str,
}

/// Whether the process serves HTTP at all.
#[utoipa::path(get, path = "/health", tag = "discovery", security(()),
    responses((status = 200, body = Standing)))]
async fn health() -> Json<Standing> {
    Json(Standing { status: "serving" })
}

/// Whether the node takes traffic.
#[utoipa::path(get, path = "/ready", tag = "discovery", security(()),
    responses((status = 200, body = Standing), (status = 503, body = Standing)))]
async fn ready(State(node): State<Node>) -> (StatusCode, Json<Standing>) {
    if node.is_draining() {
        let status = Standing { status: "draining" };
        return (StatusCode::SERVICE_UNAVAILABLE, Json(status));
    }
    (StatusCode::OK, Json(Standing { status: "ready" }))
}

//! The routes under `/api`.

mod discovery;

use axum::Router;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::Node;

/// The document of the interface, to which each route adds itself.
#[derive(OpenApi)]
#[openapi(info(
    title = "coord control plane",
    description = "Workflows, schedules, queues, locks and leases of a cluster over HTTP."
))]
struct Document;

/// The routes of the control plane on `node`, all of them below `/api`.
pub fn router(node: &Node) -> Router {
    let (router, _document) = OpenApiRouter::with_openapi(Document::openapi())
        .nest("/api", discovery::routes())
        .with_state(node.clone())
        .split_for_parts();
    router
}

//! What an operator does to the whole.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Administer, Everywhere};
use super::problem::Problem;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new().routes(routes!(retention_pass))
}

/// What a pass of retention did.
#[derive(Serialize, ToSchema)]
struct RetentionPass {
    /// How many closed runs were removed.
    processed: u64,
}

/// Removes now what is past its retention, in every namespace.
#[utoipa::path(post, path = "/system/retention/pass", tag = "system",
    responses((status = 200, body = RetentionPass)))]
async fn retention_pass(caller: Everywhere<Administer>) -> Result<Json<RetentionPass>, Problem> {
    let processed = caller.node.engine().retire_closed_runs().await?;
    Ok(Json(RetentionPass { processed }))
}

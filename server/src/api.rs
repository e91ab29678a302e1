//! The routes under `/api`, each in the file of its subject.

mod addressee;
mod attributes;
mod caller;
mod commands;
mod debug;
mod discovery;
mod document;
mod endings;
mod envelope;
mod grants;
mod guard;
mod import;
mod input;
mod instant;
mod metrics;
mod namespaces;
mod page;
mod problem;
mod queues;
mod run;
mod runs;
mod schedules;
mod search_attributes;
mod system;
mod traced;
mod visibility;
mod workers;
mod workflows;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, middleware};
use coord_core::Name;
use coord_ratelimit::Subject;
use coord_ratelimit::tower::RateLimitLayer;
use utoipa_axum::router::OpenApiRouter;

use crate::Node;
use crate::access::Identity;
pub use document::document;
#[cfg(feature = "realtime")]
pub(crate) use instant::shown as shown_instant;

/// The version of the published interface that this one speaks.
const CONTROL_PLANE_VERSION: &str = "2";
/// The largest body: the largest payload of the engine's default limits in base64, and room for what
/// goes around it.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The routes of the control plane on `node`: all of them below `/api`, `/metrics` where the node
/// has metrics to show, and `/socket.io` where it tells Socket.IO clients.
///
/// They answer every error with problem details (RFC 9457), take bodies of at most 4 MiB, and answer
/// within 30 seconds.
pub fn router(node: &Node) -> Router {
    let mut known = Router::from(known_routes());
    if node.has_metrics() {
        known = known.route("/metrics", get(exposition));
    }
    if let Some(limiter) = node.limiter() {
        known = known.route_layer(RateLimitLayer::new(limiter.clone(), subject));
    }
    let identify = middleware::from_fn_with_state(node.clone(), caller::identify);
    let traced = middleware::from_fn(traced::traced);
    let routes = Router::from(open_routes())
        .route("/api/openapi.json", get(openapi))
        .merge(known.route_layer(identify).route_layer(traced))
        .fallback(guard::no_route)
        .method_not_allowed_fallback(guard::no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(guard::in_time))
        .layer(middleware::from_fn(guard::finish))
        .with_state(node.clone());
    #[cfg(feature = "realtime")]
    if let Some(realtime) = node.realtime() {
        return routes.layer(realtime.layer());
    }
    routes
}

/// What is asked without a token.
fn open_routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new().nest("/api", discovery::open_routes())
}

fn known_routes() -> OpenApiRouter<Node> {
    let routes = discovery::routes()
        .merge(workflows::routes())
        .merge(runs::routes())
        .merge(commands::routes())
        .merge(endings::routes())
        .merge(debug::routes())
        .merge(import::routes())
        .merge(schedules::routes())
        .merge(namespaces::routes())
        .merge(search_attributes::routes())
        .merge(queues::routes())
        .merge(workers::routes())
        .merge(system::routes())
        .merge(metrics::routes())
        .merge(grants::routes());
    OpenApiRouter::new().nest("/api", routes)
}

/// Each token is limited by itself.
fn subject(request: &axum::extract::Request) -> Option<Subject> {
    let identity = request.extensions().get::<Identity>()?;
    Some(Subject::new(&Name::new(&*identity.name).ok()?))
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document())
}

/// All metrics of this process, as Prometheus reads them.
async fn exposition(State(node): State<Node>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], node.render_metrics())
}

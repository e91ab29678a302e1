//! What holds for every route: answers in time, in one form, and with the headers of the interface.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::CONTROL_PLANE_VERSION;
use super::problem::Problem;

/// The longest that a request takes: longer than any wait that a caller may ask for, and shorter
/// than proxies in front of a node wait.
const LONGEST: Duration = Duration::from_secs(30);

const VERSION: HeaderName = HeaderName::from_static("x-durable-workflow-control-plane-version");

/// Ends what takes too long. What it wrote by then may have happened.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(LONGEST, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let why = format!("no answer within {LONGEST:?}; it may have happened");
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", why).into_response()
    })
}

/// Refuses callers of another version of the interface, and names this one in every answer. A
/// refusal of a layer that says nothing gets its words.
pub(super) async fn finish(request: Request, next: Next) -> Response {
    let asked = request.headers().get(VERSION);
    let is_known = asked.is_none_or(|version| version == CONTROL_PLANE_VERSION);
    let mut response = if is_known {
        next.run(request).await
    } else {
        let why = format!("this node speaks version {CONTROL_PLANE_VERSION} of the interface");
        let reason = "unsupported_control_plane_version";
        Problem::new(StatusCode::BAD_REQUEST, reason, why).into_response()
    };
    if response.status().is_client_error() || response.status().is_server_error() {
        response = worded(response);
    }
    let version = HeaderValue::from_static(CONTROL_PLANE_VERSION);
    response.headers_mut().insert(VERSION, version);
    response
}

fn worded(response: Response) -> Response {
    if !response.body().is_end_stream() {
        return response;
    }
    let problem = match response.status() {
        StatusCode::TOO_MANY_REQUESTS => {
            let why = "this token has used up its rate; Retry-After says when to ask again";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", why)
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let why = "the rate of this token cannot be looked at";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why)
        }
        _ => return response,
    };
    let mut worded = problem.into_response();
    let said = response.headers();
    worded.headers_mut().extend(
        said.iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    worded
}

pub(super) async fn no_route() -> Problem {
    Problem::missing("route_not_found", "there is no such route")
}

pub(super) async fn no_method() -> Problem {
    let why = "this route has another method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", why)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use axum::{Router, middleware};
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_answered_and_may_have_happened() {
        let late = LONGEST + Duration::from_millis(1);
        let in_time = LONGEST.mul_f64(0.999);
        let taking = |span| get(move || async move { tokio::time::sleep(span).await });
        let routes = Router::new()
            .route("/late", taking(late))
            .route("/in-time", taking(in_time))
            .layer(middleware::from_fn(super::in_time));
        let ask = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty());
            routes.clone().oneshot(request.expect("a request"))
        };

        let answered = ask("/in-time").await.expect("an answer");
        let began = Instant::now();
        let given_up = ask("/late").await.expect("an answer");

        assert_eq!(answered.status(), StatusCode::OK);
        assert_eq!(given_up.status(), StatusCode::GATEWAY_TIMEOUT);
        assert!((LONGEST..late).contains(&began.elapsed()));
        let body = axum::body::to_bytes(given_up.into_body(), 4096).await;
        let body = String::from_utf8(body.expect("a body").to_vec()).expect("text");
        assert!(body.contains(r#""reason":"outcome_unknown""#), "{body}");
    }
}

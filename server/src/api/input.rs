//! Bodies, queries and paths, with their refusals as problems.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use coord_engine::model::RequestId;
use serde::de::DeserializeOwned;

use super::MAX_BODY_BYTES;
use super::problem::Problem;

/// How long a body may take to arrive: half of what a request may take, so that the other half is
/// left to carry it out.
const ARRIVAL: Duration = Duration::from_secs(15);

/// A JSON body; one that is missing is an empty object.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        if declared(request.headers()).is_some_and(|length| length > MAX_BODY_BYTES as u64) {
            let why = format!("a body has at most {MAX_BODY_BYTES} bytes");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Problem::new(status, "body_too_large", why));
        }
        let arriving = Bytes::from_request(request, state);
        let bytes = tokio::time::timeout(ARRIVAL, arriving).await;
        let bytes = bytes.map_err(|_| late())?;
        let bytes = bytes.map_err(|rejection| unread(&rejection))?;
        if bytes.is_empty() {
            return read(b"{}").map(Self);
        }
        if !is_json {
            let why = "the body is to be application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "unsupported_media_type", why));
        }
        read(&bytes).map(Self)
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let read = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            return Problem::field("body", error.to_string());
        }
        let why = format!("the body is no JSON: {error}");
        Problem::new(StatusCode::BAD_REQUEST, "malformed_json", why)
    })?;
    // A list would do as well, for its members in their order.
    if bytes.trim_ascii_start().starts_with(b"{") {
        return Ok(read);
    }
    Err(Problem::field("body", "it is an object"))
}

/// Nothing was done. The connection is of no more use: the rest of the body may still come.
fn late() -> Problem {
    let why = format!("the body did not arrive within {ARRIVAL:?}; nothing was done");
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", why)
}

fn unread(rejection: &BytesRejection) -> Problem {
    let status = rejection.status();
    let reason = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        _ => "body_unreadable",
    };
    Problem::new(status, reason, rejection.body_text())
}

/// How long the body is, where its sender says so: one that is too long is not even begun.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).map(str::trim);
    kind.is_some_and(|it| it.eq_ignore_ascii_case("application/json"))
}

/// What the query of the URL says.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::field("query", rejection.body_text())),
        }
    }
}

/// What the path of the URL names.
pub(super) struct At<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(rejection) => Err(Problem::field("path", rejection.body_text())),
        }
    }
}

/// The id of a command, under either of its names.
pub(super) fn request_id(
    request_id: Option<String>,
    idempotency_key: Option<String>,
) -> Result<Option<RequestId>, Problem> {
    let named = [
        ("request_id", request_id),
        ("idempotency_key", idempotency_key),
    ];
    let Some((name, id)) = named.into_iter().find_map(|(name, id)| Some((name, id?))) else {
        return Ok(None);
    };
    let id = RequestId::new(id).map_err(|error| Problem::field(name, error.message()))?;
    Ok(Some(id))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use axum::Router;
    use axum::body::HttpBody;
    use axum::response::Response;
    use axum::routing::post;
    use hyper::body::Frame;
    use serde_json::Value;
    use tokio::time::{Instant, Sleep};
    use tower::ServiceExt as _;

    use super::*;

    /// An empty object whose end comes after a while.
    struct Slow {
        end: Pin<Box<Sleep>>,
        left: Vec<&'static str>,
    }

    impl HttpBody for Slow {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left.len() == 1 {
                ready!(self.end.as_mut().poll(context));
            }
            let part = self.left.pop();
            Poll::Ready(part.map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
        }
    }

    /// The answer to a body whose end comes after `span`.
    async fn answered(span: Duration) -> Response {
        let routes = Router::new().route("/", post(async |Body(_): Body<Value>| ()));
        let body = Slow {
            end: Box::pin(tokio::time::sleep(span)),
            left: vec!["}", "{"],
        };
        let request = Request::post("/")
            .header(CONTENT_TYPE, "application/json")
            .body(axum::body::Body::new(body));
        let answer = routes.oneshot(request.expect("a request")).await;
        answer.expect("an answer")
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_waited_for_and_then_no_longer() {
        let in_time = answered(ARRIVAL.mul_f64(0.999)).await;
        let began = Instant::now();
        let late = answered(Duration::from_hours(1)).await;

        assert_eq!(in_time.status(), StatusCode::OK);
        assert!(began.elapsed() >= ARRIVAL && began.elapsed() < ARRIVAL * 2);
        assert_eq!(late.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(late.headers()[CONTENT_TYPE], "application/problem+json");
        let body = axum::body::to_bytes(late.into_body(), 4096).await;
        let body = String::from_utf8(body.expect("a body").to_vec()).expect("text");
        assert!(body.contains(r#""reason":"body_timeout""#), "{body}");
    }
}

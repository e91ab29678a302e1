//! What a caller is told when it does not get what it asked for: problem details (RFC 9457).

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use coord_core::{Error, ErrorKind};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// How soon to ask again when the database or Redis was away: about what a failover takes to begin
/// to be over, and no thundering herd.
const AGAIN_IN_SECONDS: u64 = 1;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    reason: &'static str,
    detail: String,
    more: Map<String, Value>,
}

/// The document of a problem. `message` is `detail` under the name that the published SDKs read.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Document {
    /// Always `about:blank`: what tells problems apart is `reason`.
    r#type: &'static str,
    /// The words of the status.
    title: &'static str,
    status: u16,
    /// What happened, for people.
    detail: String,
    message: String,
    /// What happened, for code: stable.
    reason: &'static str,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, reason: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            detail: detail.into(),
            more: Map::new(),
        }
    }

    /// The caller asked for what is not there.
    pub(super) fn missing(reason: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason, detail)
    }

    /// What was asked for does not go with what is there.
    pub(super) fn conflict(reason: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason, detail)
    }

    /// A value of the request cannot be.
    pub(super) fn unfit(reason: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, reason, detail)
    }

    /// As [`unfit`](Self::unfit), because of the field `name`.
    pub(super) fn field(name: &str, why: impl Into<String>) -> Self {
        let why = why.into();
        let errors = Value::from_iter([(name, Value::from(vec![why.clone()]))]);
        Self::unfit("validation_failed", format!("{name}: {why}")).with("errors", errors)
    }

    /// The same problem, with another member in its document.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Error> for Problem {
    /// The message names what, where and what to do; the cause, which may be a vendor's text, stays
    /// in the log.
    fn from(error: Error) -> Self {
        let (status, reason) = match error.kind() {
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "outcome_unknown"),
            ErrorKind::Contended => (StatusCode::SERVICE_UNAVAILABLE, "contended"),
            ErrorKind::Lost => (StatusCode::CONFLICT, "lost"),
            ErrorKind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt"),
        };
        Self::new(status, reason, error.message())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Unknown"),
            status: self.status.as_u16(),
            message: self.detail.clone(),
            detail: self.detail,
            reason: self.reason,
            more: self.more,
        };
        let mut response = (self.status, Json(document)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, kind);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(AGAIN_IN_SECONDS));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_status() {
        for (kind, status) in [
            (ErrorKind::Unavailable, 503),
            (ErrorKind::Timeout, 504),
            (ErrorKind::Contended, 503),
            (ErrorKind::Lost, 409),
            (ErrorKind::Invalid, 422),
            (ErrorKind::Corrupt, 500),
        ] {
            let error = Error::new(kind, "committing").with_source(Error::invalid("a secret"));

            let response = Problem::from(error).into_response();

            assert_eq!(response.status().as_u16(), status, "{kind:?}");
            let again = response.headers().contains_key(RETRY_AFTER);
            assert_eq!(again, status == 503, "{kind:?}");
        }
    }
}

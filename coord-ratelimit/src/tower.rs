//! A tower layer for HTTP services.
//!
//! Answers carry the fields of draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy`, a list
//! of the limits (`"per-second";q=10;w=1`), and `RateLimit`, where the tightest of them stands
//! (`"per-second";r=3;t=1`). Both are structured fields (RFC 9651). `r` is what is left; `t` is
//! when all of it is back, or, on a 429, when the request may be tried again, as `Retry-After`
//! says too (RFC 9110, section 10.2.3). Seconds are rounded up.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::decision::{By, Decision};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::subject::Subject;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STANDING: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Takes a permit for each request before the service sees it.
///
/// `subject` says for whom; a request of nobody is let through uncounted. One that is denied is
/// answered with 429, or with 503 where [`WithoutRedis::Deny`](crate::WithoutRedis::Deny) denied
/// it; one that cannot be decided, since the limiter was asked for what it cannot do or finds
/// something foreign in Redis, with 500.
///
/// ```
/// use coord_core::Name;
/// use coord_ratelimit::tower::RateLimitLayer;
/// use coord_ratelimit::{Limiter, Subject};
///
/// fn by_client(limiter: Limiter) -> RateLimitLayer<impl Fn(&http::Request<()>) -> Option<Subject> + Clone> {
///     RateLimitLayer::new(limiter, |request: &http::Request<()>| {
///         let key = request.headers().get("x-api-key")?.to_str().ok()?;
///         Some(Subject::new(&Name::new(key).ok()?))
///     })
/// }
/// ```
#[derive(Clone)]
pub struct RateLimitLayer<F> {
    limiter: Limiter,
    policy: HeaderValue,
    subject: F,
}

impl<F> RateLimitLayer<F> {
    /// A layer that asks `limiter` about what `subject` makes of a request.
    pub fn new(limiter: Limiter, subject: F) -> Self {
        let policy = field(&policy(limiter.limits()));
        Self {
            limiter,
            policy,
            subject,
        }
    }
}

impl<S, F: Clone> Layer<S> for RateLimitLayer<F> {
    type Service = RateLimit<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit {
            layer: self.clone(),
            inner,
        }
    }
}

/// The service that [`RateLimitLayer`] makes of another.
#[derive(Clone)]
pub struct RateLimit<S, F> {
    layer: RateLimitLayer<F>,
    inner: S,
}

impl<S, F, B, R> Service<Request<B>> for RateLimit<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&Request<B>) -> Option<Subject>,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let subject = (self.layer.subject)(&request);
        let (limiter, policy) = (self.layer.limiter.clone(), self.layer.policy.clone());
        // The one that was polled ready takes this request; its copy waits for its own turn.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        Box::pin(async move {
            let Some(subject) = subject else {
                return inner.call(request).await;
            };
            let Ok(decision) = limiter.try_acquire(&subject, 1).await else {
                return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR));
            };
            let mut response = match decision {
                Decision::Allowed(_) => inner.call(request).await?,
                Decision::Denied { .. } if decision.by() == Some(By::Policy) => {
                    refusal(StatusCode::SERVICE_UNAVAILABLE)
                }
                Decision::Denied { .. } | Decision::NeverAllowed { .. } => {
                    refusal(StatusCode::TOO_MANY_REQUESTS)
                }
            };
            announce(response.headers_mut(), policy, &decision);
            Ok(response)
        })
    }
}

fn refusal<R: Default>(status: StatusCode) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    response
}

fn announce(headers: &mut HeaderMap, policy: HeaderValue, decision: &Decision) {
    headers.append(POLICY, policy);
    if let Some(standing) = decision.standing()
        && standing.by != By::Policy
    {
        let seconds = seconds(decision.retry_after().unwrap_or(standing.reset_after));
        let mut value = string(standing.limit.as_str());
        write!(value, ";r={};t={seconds}", standing.remaining).expect("a String takes every write");
        headers.append(STANDING, field(&value));
    }
    if let Some(retry_after) = decision.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds(retry_after)));
    }
}

fn policy(limits: &[Limit]) -> String {
    let items = limits.iter().map(|limit| {
        let quota = limit.quota();
        let (name, permits) = (string(limit.name().as_str()), quota.permits());
        format!("{name};q={permits};w={}", seconds(quota.period()))
    });
    items.collect::<Vec<_>>().join(", ")
}

/// Whole seconds, rounded up.
fn seconds(duration: Duration) -> u64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    (duration.as_secs() + up).min(MAX_INTEGER)
}

/// A string of a structured field, which knows printable ASCII: the rest is percent-encoded.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => write!(quoted, "%{byte:02X}").expect("a String takes every write"),
        }
    }
    quoted.push('"');
    quoted
}

fn field(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("structured fields are printable ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_string_of_printable_ascii() {
        assert_eq!(string("per second"), "\"per second\"");
        assert_eq!(string("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(string("tägl\u{7f}"), "\"t%C3%A4gl%7F\"");
    }

    #[test]
    fn seconds_round_up() {
        assert_eq!(seconds(Duration::from_secs(2)), 2);
        assert_eq!(seconds(Duration::from_micros(1)), 1);
        assert_eq!(seconds(Duration::from_millis(1001)), 2);
    }
}

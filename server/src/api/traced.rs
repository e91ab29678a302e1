//! Requests as parts of the traces of their callers.

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use coord_core::TraceContext;
use coord_core::trace::{Span, SpanKind};

/// Answers within a span of the caller's trace, or of one that begins here: what is begun on the way
/// belongs to it.
pub(super) async fn traced(request: Request, next: Next) -> Response {
    let mut span = span_of(&request);
    let response = span.within(next.run(request)).await;
    let status = response.status();
    span.number("http.response.status_code", status.as_u16().into());
    if status.is_server_error() {
        span.fail(status);
    }
    response
}

fn span_of(request: &Request) -> Span {
    let method = request.method();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    let name = format_args!("{method} {route}");
    let mut span = match caller(request.headers()) {
        Some(caller) => Span::of(Some(&caller), SpanKind::Server, name),
        None => Span::root(SpanKind::Server, name),
    };
    span.note("http.request.method", method);
    span.note("http.route", route);
    span
}

/// The context that the headers of a request carry.
fn caller(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok()?;
    // Two of them say nothing.
    if parents.next().is_some() {
        return None;
    }
    let states = headers.get_all("tracestate").iter();
    let states: Result<Vec<_>, _> = states.map(|state| state.to_str()).collect();
    TraceContext::parse(
        parent,
        states.ok().map(|states| states.join(",")).as_deref(),
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        caller(&map).map(|context| context.to_string())
    }

    #[test]
    fn the_headers_of_the_standard_are_read_and_bad_ones_are_ignored() {
        let parent = ("traceparent", PARENT);

        assert_eq!(read(&[parent]).as_deref(), Some(PARENT));
        let stated = read(&[parent, ("tracestate", "a=1"), ("tracestate", "b=2")]);
        assert_eq!(stated, Some(format!("{PARENT} a=1,b=2")));
        assert_eq!(
            read(&[parent, ("tracestate", "?")]).as_deref(),
            Some(PARENT)
        );
        assert_eq!(read(&[parent, parent]), None);
        assert_eq!(read(&[("traceparent", "?")]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
    }
}

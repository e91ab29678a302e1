//! Spans as OTLP has them.

use std::time::{Duration, SystemTime};

use coord_core::TraceContext;
use coord_core::trace::{Note, SpanKind};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{self, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::{Timed, elapsed};

/// The request that carries `spans` of a process of which `resource` is said.
pub(super) fn request(
    resource: &[(String, String)],
    spans: impl IntoIterator<Item = Timed>,
) -> ExportTraceServiceRequest {
    let attributes = resource.iter().map(|(name, value)| {
        let value = Value::StringValue(value.clone());
        attribute(name, value)
    });
    let scope = InstrumentationScope {
        name: "coord".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(encoded).collect(),
        schema_url: String::new(),
    };
    let process = ResourceSpans {
        resource: Some(Resource {
            attributes: attributes.collect(),
            ..Resource::default()
        }),
        scope_spans: vec![spans],
        schema_url: String::new(),
    };
    ExportTraceServiceRequest {
        resource_spans: vec![process],
    }
}

fn encoded(Timed { span, at }: Timed) -> Span {
    let (trace_id, span_id) = ids(&span.context);
    let notes = span.notes.into_iter().map(|(name, note)| {
        let value = match note {
            Note::Text(text) => Value::StringValue(text),
            Note::Number(number) => Value::IntValue(number),
        };
        attribute(name, value)
    });
    let links = span.links.iter().map(|other| {
        let (trace_id, span_id) = ids(other);
        Link {
            trace_id,
            span_id,
            trace_state: state(other),
            flags: other.is_sampled().into(),
            ..Link::default()
        }
    });
    let kind = match span.kind {
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Producer => span::SpanKind::Producer,
        SpanKind::Consumer => span::SpanKind::Consumer,
        SpanKind::Internal => span::SpanKind::Internal,
    };
    let status = span.failure.map(|message| Status {
        message,
        code: StatusCode::Error.into(),
    });
    Span {
        trace_id,
        span_id,
        trace_state: state(&span.context),
        parent_span_id: span
            .parent
            .map(|it| it.to_be_bytes().to_vec())
            .unwrap_or_default(),
        flags: span.context.is_sampled().into(),
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(at, elapsed(span.began_at, span.ended_at)),
        end_time_unix_nano: nanos(at, Duration::ZERO),
        attributes: notes.collect(),
        links: links.collect(),
        status,
        ..Span::default()
    }
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn ids(context: &TraceContext) -> (Vec<u8>, Vec<u8>) {
    let (trace, span) = (context.trace_id(), context.span_id());
    (trace.to_be_bytes().to_vec(), span.to_be_bytes().to_vec())
}

fn state(context: &TraceContext) -> String {
    context.tracestate().unwrap_or_default().to_owned()
}

/// So long before `at`, in nanoseconds since 1970.
fn nanos(at: SystemTime, before: Duration) -> u64 {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.saturating_sub(before).as_nanos()).unwrap_or(u64::MAX)
}

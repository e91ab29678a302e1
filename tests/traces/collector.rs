//! A collector of OpenTelemetry: an HTTP server that reads what it is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Takes,
    /// It never answers.
    Hangs,
    Answers(StatusCode),
}

/// A span that it has.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) span: String,
    /// Empty for the first one of a trace.
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) began: u64,
    pub(crate) notes: BTreeMap<String, String>,
    /// The trace and the span of each.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) failure: Option<String>,
}

pub(crate) struct Collector {
    url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    headers: Mutex<HeaderMap>,
    mode: watch::Sender<Mode>,
    /// How many requests have come.
    requests: watch::Sender<u64>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            headers: Mutex::default(),
            mode: watch::Sender::new(Mode::Takes),
            requests: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().route("/v1/traces", post(take));
        let router = router.with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            _ = axum::serve(listener, router).await;
        });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From here on it does this, also with requests that hang.
    pub(crate) fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// So many requests have come, whatever became of them.
    pub(crate) async fn requests(&self, count: u64) {
        let mut requests = self.shared.requests.subscribe();
        let came = requests.wait_for(|requests| *requests >= count);
        let came = tokio::time::timeout(super::SOON, came).await;
        came.expect("soon").expect("it is there");
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        locked(&self.shared.seen).clone()
    }

    /// The header of the last request.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let headers = locked(&self.shared.headers);
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    shared.requests.send_modify(|requests| *requests += 1);
    let mut mode = shared.mode.subscribe();
    let mode = mode.wait_for(|mode| *mode != Mode::Hangs).await;
    match mode.map(|mode| *mode) {
        Ok(Mode::Takes) => {}
        Ok(Mode::Answers(status)) => return status,
        _ => return StatusCode::SERVICE_UNAVAILABLE,
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    *locked(&shared.headers) = headers;
    let mut seen = locked(&shared.seen);
    for process in request.resource_spans {
        let said = process.resource.unwrap_or_default();
        let said = texts(&said.attributes);
        let service = said.get("service.name").cloned().unwrap_or_default();
        let spans = process
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        seen.extend(spans.map(|span| Seen::of(&service, span)));
    }
    StatusCode::OK
}

impl Seen {
    fn of(service: &str, span: Span) -> Self {
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        let links = span.links.iter();
        Self {
            service: service.to_owned(),
            name: span.name,
            trace: hex(&span.trace_id),
            span: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            state: span.trace_state,
            began: span.start_time_unix_nano,
            notes: texts(&span.attributes),
            links: links
                .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
                .collect(),
            failure: span.status.map(|status| status.message),
        }
    }

    /// It is of `trace`, under `parent`.
    #[track_caller]
    pub(crate) fn is_under(&self, trace: &str, parent: &str) {
        assert_eq!((&*self.trace, &*self.parent), (trace, parent), "{self:?}");
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let value = match attribute.value.clone()?.value? {
            Value::StringValue(text) => text,
            Value::IntValue(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        Some((attribute.key.clone(), value))
    };
    attributes.iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    let number = bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u128::from(*byte));
    match bytes.len() * 2 {
        0 => String::new(),
        digits => format!("{number:0digits$x}"),
    }
}

fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

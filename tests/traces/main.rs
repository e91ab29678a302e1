//! Traces, as a collector sees them: a binary of its own, since a process has one collector.

#![allow(
    clippy::disallowed_methods,
    reason = "a test joins what it spawns, or ends and takes it along"
)]

mod collector;
mod faults;
mod processes;
mod queues;
mod runs;

use std::time::Duration;

use coord_core::trace::{Span, SpanKind};
use coord_core::{Env, Name, TraceContext};
use coord_engine::model::WorkflowId;
use coord_server::Traces;
use coord_tests::recorder::recorder;
use tokio::sync::{Mutex, MutexGuard};

use collector::{Collector, Seen};

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);

/// Who calls from outside.
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CALLERS_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLERS_SPAN: &str = "00f067aa0ba902b7";

static ALONE: Mutex<()> = Mutex::const_new(());

/// This process with its collector, while one test has it.
struct Traced {
    collector: Collector,
    traces: Traces,
    _alone: MutexGuard<'static, ()>,
}

impl Traced {
    /// With these variables beside that of the collector.
    async fn start(variables: &[(&str, &str)]) -> Self {
        let alone = alone().await;
        let collector = Collector::start().await;
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
        let pairs = [at].into_iter().chain(variables.iter().copied());
        Self {
            traces: traces(pairs),
            collector,
            _alone: alone,
        }
    }

    /// What the collector has when this process has sent all.
    async fn finish(self) -> Vec<Seen> {
        self.traces.shutdown().await;
        self.collector.seen()
    }
}

/// One test at a time sends spans of this process.
async fn alone() -> MutexGuard<'static, ()> {
    // Before anything emits.
    recorder();
    ALONE.lock().await
}

fn traces<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Traces {
    let traces = Traces::from_env(&Env::from_pairs(pairs)).expect("it reads");
    traces.expect("a collector is named")
}

/// Within the trace of the caller.
fn called() -> Span {
    let caller = TraceContext::parse(CALLER, None);
    Span::of(caller.as_ref(), SpanKind::Server, format_args!("called"))
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn id(text: &str) -> WorkflowId {
    WorkflowId::new(text).expect("an id")
}

/// The spans of this name, in the order in which they began.
fn named<'a>(spans: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    let mut named: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    named.sort_by_key(|span| span.began);
    named
}

/// The only span of this name.
#[track_caller]
fn one<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    match named(spans, name).as_slice() {
        [one] => one,
        others => panic!("{name}: {others:?} of {spans:?}"),
    }
}

//! Collectors that are away, hang, or refuse.

use axum::http::StatusCode;
use coord_engine::Engine;
use coord_engine::store::Sqlite;
use coord_server::{Access, Node, router};
use tower::ServiceExt as _;

use super::collector::Mode;
use super::*;

/// A request to a node in this process.
async fn ask(node: &Node) -> StatusCode {
    let request = axum::http::Request::get("/api/workflows").body(axum::body::Body::empty());
    let answer = router(node).oneshot(request.expect("a request")).await;
    answer.expect("no error").status()
}

async fn node() -> Node {
    let engine = Engine::start(Sqlite::memory()).await.expect("an engine");
    Node::builder(engine, Access::open()).build()
}

async fn dropped(cause: &str) -> u64 {
    let about = [("cause", cause)];
    let dropped = recorder().event("server.traces.dropped", &about, SOON);
    let count = dropped.await.field("count").map(str::parse);
    count.expect("how many").expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_slows_no_request_and_what_is_lost_is_counted() {
    let small = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
    ];
    let traced = Traced::start(&small).await;
    traced.collector.set(Mode::Hangs);
    let node = node().await;
    assert_eq!(ask(&node).await, StatusCode::OK);
    traced.collector.requests(1).await;

    // None of them is answered before the collector is, which never is: they do not wait for it.
    for _ in 0..20 {
        assert_eq!(ask(&node).await, StatusCode::OK);
    }
    assert!(traced.collector.seen().is_empty());
    traced.collector.set(Mode::Takes);

    assert!(dropped("full").await >= 1);
    traced.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_process_waits_for_no_collector_for_ever_and_counts_what_is_left() {
    let traced = Traced::start(&[("OTEL_BSP_SCHEDULE_DELAY", "1")]).await;
    traced.collector.set(Mode::Hangs);
    drop(called());
    traced.collector.requests(1).await;

    traced.finish().await;

    assert!(dropped("ending").await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_its_spans_and_nothing_else() {
    let _alone = alone().await;
    // Nobody listens on a port that was just given back.
    let gone = Collector::start().await;
    let url = gone.url().to_owned();
    drop(gone);
    let traces = traces([("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())]);
    let node = node().await;

    assert_eq!(ask(&node).await, StatusCode::OK);
    traces.shutdown().await;

    assert!(dropped("failed").await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_a_collector_refuses_are_counted() {
    let traced = Traced::start(&[]).await;
    traced.collector.set(Mode::Answers(StatusCode::BAD_REQUEST));
    drop(called());

    traced.finish().await;

    assert!(dropped("refused").await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_to_be_recorded_is_not_sent() {
    let unsampled = CALLER.replace("-01", "-00");
    let traced = Traced::start(&[]).await;
    let parent = TraceContext::parse(&unsampled, None);
    drop(Span::of(
        parent.as_ref(),
        SpanKind::Server,
        format_args!("quiet"),
    ));
    drop(called());

    let spans = traced.finish().await;

    assert!(named(&spans, "quiet").is_empty(), "{spans:?}");
    one(&spans, "called");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_without_effect_are_reported_by_name() {
    let _alone = alone().await;
    let env = Env::from_pairs([("OTEL_METRICS_EXPORTER", "otlp")]);

    let traces = Traces::from_env(&env).expect("it reads");

    assert!(traces.is_none(), "no collector is named");
    let about = [("variable", "OTEL_METRICS_EXPORTER")];
    let reported = recorder().event("server.traces.without_effect", &about, SOON);
    reported.await;
}

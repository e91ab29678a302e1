//! A trace over several processes.

use coord_engine::Engine;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_server::{Access, Node};
use coord_tests::process::{NodeProcess, Program};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::*;

const TRACED: Workflow<Value, u64> = Workflow::new("tests.traced");
/// What the other process does.
const ADD: Activity<(u64, String), u64> = Activity::new("records.add");

fn here() -> Queue {
    Queue::new("here").expect("a name")
}

/// Its turns are taken here, and its activities elsewhere.
async fn remote(ctx: Context, number: Value) -> Result<u64, Failure> {
    let number = number.as_u64().unwrap_or_default();
    let add = ctx.activity(ADD, &(number, "one".to_owned()));
    add.queue(Queue::default()).await
}

/// A worker as a process of its own, which sends its spans to the same collector.
async fn worker(database: &str, folder: &std::path::Path, collector: &Collector) -> NodeProcess {
    let node = Program::at(env!("CARGO_BIN_EXE_engine-node"))
        .arg(folder.join("effects"))
        .arg("0")
        .env("DATABASE_URL", database)
        .env("CACHE_DRIVER", "none")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
        .env("OTEL_SERVICE_NAME", "worker");
    let mut node = node.start().expect("cargo built it");
    node.line_starting("ready", SOON).await;
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_followed_through_a_run_to_an_activity_of_another_process() {
    let traced = Traced::start(&[("OTEL_SERVICE_NAME", "node")]).await;
    let folder = tempfile::tempdir().expect("room for a folder");
    let database = format!("sqlite:{}", folder.path().join("work.db").display());
    let engine = Engine::connect(&database).await.expect("the file is ours");
    let turns = engine.worker(Namespace::default(), here());
    let turns = turns.workflow(TRACED, remote).start();
    let activities = worker(&database, folder.path(), &traced.collector).await;
    let node = Node::builder(engine.clone(), Access::open()).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (end, told) = oneshot::channel::<()>();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let end = async { _ = told.await };
        coord_server::serve(&node, listener, end, SOON).await
    });

    let http = reqwest::Client::new();
    let started = http
        .post(format!("http://{address}/api/workflows"))
        .header("traceparent", CALLER)
        .header("tracestate", "vendor=1")
        .json(&json!({
            "workflow_type": "tests.traced", "workflow_id": "a", "task_queue": "here",
            "input": [7],
        }))
        .send();
    assert_eq!(started.await.expect("an answer").status(), 201);
    let client = engine.client(Namespace::default(), here());
    let result = client.handle(TRACED, id("a")).result(SOON).await;
    assert_eq!(result.expect("an answer"), Some(Ok(7)));
    // Whoever ends sends what it has.
    activities.terminate();
    activities.wait(SOON).await.expect("it ends");
    drop(http);
    _ = end.send(());
    let served = serving.join_next().await.expect("it serves");
    served.expect("no panic").expect("all were answered");
    turns.shutdown(SOON).await;
    let tenant = traced.collector.header("x-tenant");
    let spans = traced.finish().await;

    let request = one(&spans, "POST /api/workflows");
    request.is_under(CALLERS_TRACE, CALLERS_SPAN);
    assert_eq!(request.notes["http.response.status_code"], "201");
    let turns = named(&spans, "workflow tests.traced");
    for turn in &turns {
        turn.is_under(CALLERS_TRACE, &request.span);
        assert_eq!(turn.notes["coord.workflow.id"], "a");
    }
    let activity = one(&spans, "activity records.add");
    activity.is_under(CALLERS_TRACE, &turns[0].span);
    for span in [request, turns[0]] {
        assert_eq!(span.service, "node", "{span:?}");
    }
    assert_eq!(activity.service, "worker", "{activity:?}");
    for span in spans.iter().filter(|span| span.trace == CALLERS_TRACE) {
        assert_eq!(span.state, "vendor=1", "{span:?}");
        assert_eq!(span.failure, None, "{span:?}");
    }
    assert_eq!(tenant.as_deref(), Some("a b"), "the headers are decoded");
}

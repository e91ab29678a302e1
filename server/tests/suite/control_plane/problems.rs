//! What is told to callers who ask for what cannot be.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage, read};

on_both_databases! {
    a_body_that_does_not_read_is_refused_in_the_form_of_all_problems,
    a_value_that_cannot_be_is_named,
    a_page_a_route_a_method_and_a_version_that_are_not_there_are_problems_too,
    a_body_that_is_too_large_is_refused_before_it_is_read,
}

async fn a_body_that_does_not_read_is_refused_in_the_form_of_all_problems(place: Place) {
    let stage = Stage::open(place).await;
    let post = |kind: &'static str, body: Vec<u8>| {
        let request = stage.request(Method::POST, "/api/workflows");
        request.header("content-type", kind).body(body)
    };

    for (kind, body, status, reason) in [
        ("application/json", b"{".to_vec(), 400, "malformed_json"),
        ("application/json", b"[]".to_vec(), 422, "validation_failed"),
        // Its members in the order of the fields.
        (
            "application/json",
            br#"["tests.echo"]"#.to_vec(),
            422,
            "validation_failed",
        ),
        ("application/json", Vec::new(), 422, "validation_failed"),
        ("text/plain", b"{}".to_vec(), 415, "unsupported_media_type"),
        (
            "application/json",
            br#"{"workflow_type": "x", "input": {"codec": "php", "blob": ""}}"#.to_vec(),
            422,
            "unsupported_payload_codec",
        ),
        (
            "application/json",
            br#"{"workflow_type": "x", "input": {"codec": "avro", "blob": "!"}}"#.to_vec(),
            422,
            "invalid_payload",
        ),
    ] {
        let answer = read(post(kind, body).send().await.expect("an answer")).await;
        assert_eq!((answer.status, answer.reason()), (status, reason));
    }
    stage.finish().await;
}

async fn a_value_that_cannot_be_is_named(place: Place) {
    let stage = Stage::open(place).await;
    let long = "x".repeat(256);

    for (field, value) in [
        ("workflow_type", json!("")),
        ("workflow_id", json!(long)),
        ("task_queue", json!("q ")),
        ("priority", json!(10)),
        ("execution_timeout_seconds", json!(0)),
        ("duplicate_policy", json!("terminate_existing")),
        ("request_id", json!("")),
        ("search_attributes.a", json!({"a": null})),
    ] {
        let mut start = json!({"workflow_type": "tests.echo"});
        let name = field.split('.').next().expect("a name");
        start[name] = value;
        let refused = stage.post("/api/workflows", start).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (422, "validation_failed"),
            "{field}"
        );
        assert!(refused.body["errors"][field].is_array(), "{refused:?}");
    }
    stage.finish().await;
}

async fn a_page_a_route_a_method_and_a_version_that_are_not_there_are_problems_too(place: Place) {
    let stage = Stage::open(place).await;

    for (method, path, status, reason) in [
        (
            Method::GET,
            "/api/workflows?page_size=0",
            422,
            "validation_failed",
        ),
        (
            Method::GET,
            "/api/workflows?page_size=many",
            422,
            "validation_failed",
        ),
        (
            Method::GET,
            "/api/workflows?next_page_token=x",
            400,
            "malformed_page_token",
        ),
        (
            Method::GET,
            "/api/workflows?status=odd",
            422,
            "validation_failed",
        ),
        (
            Method::GET,
            "/api/workflows?query=a%20OR%20b",
            422,
            "invalid_visibility_query",
        ),
        (Method::GET, "/api/weather", 404, "route_not_found"),
        (Method::DELETE, "/api/workflows", 405, "method_not_allowed"),
        (Method::GET, "/metrics", 404, "route_not_found"),
        (Method::GET, "/api/locks/l", 404, "redis_not_configured"),
    ] {
        let answer = stage.request(method, path).send().await.expect("an answer");
        let answer = read(answer).await;
        assert_eq!((answer.status, answer.reason()), (status, reason), "{path}");
    }
    let stage = stage.header("X-Durable-Workflow-Control-Plane-Version", "1");
    let old = stage.get("/api/workflows").await;
    assert_eq!(
        (old.status, old.reason()),
        (400, "unsupported_control_plane_version")
    );
    stage.finish().await;
}

async fn a_body_that_is_too_large_is_refused_before_it_is_read(place: Place) {
    let stage = Stage::open(place).await;
    let address = stage.url.trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /api/workflows HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        (4 << 20) + 1
    );

    connection.write_all(head.as_bytes()).await.expect("sent");

    let mut answer = String::new();
    connection
        .read_to_string(&mut answer)
        .await
        .expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains(r#""reason":"body_too_large""#), "{answer}");
    stage.finish().await;
}

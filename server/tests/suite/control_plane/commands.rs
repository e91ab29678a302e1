//! What is said to a workflow that was started.

use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    an_update_a_query_and_a_signal_reach_the_code,
    an_update_that_the_code_refuses_fails_and_one_that_is_not_waited_for_is_accepted,
    a_command_to_a_run_reaches_that_run_and_no_other,
    a_workflow_that_is_asked_to_end_ends,
    a_query_needs_the_code_in_this_node,
}

async fn adding(stage: &Stage, id: &str) -> String {
    let start = json!({"workflow_type": "tests.adding", "workflow_id": id, "input": [10]});
    let started = stage.post("/api/workflows", start).await;
    assert_eq!(started.status, 201, "{started:?}");
    started.body["run_id"].as_str().expect("an id").to_owned()
}

async fn an_update_a_query_and_a_signal_reach_the_code(place: Place) {
    let stage = Stage::open(place).await;
    adding(&stage, "a").await;

    let update = json!({"input": [5], "wait_for": "completed", "request_id": "u-1"});
    let updated = stage
        .post("/api/workflows/a/update/add", update.clone())
        .await;
    assert_eq!(updated.status, 200, "{updated:?}");
    assert_eq!(updated.body["result"], 15);
    assert_eq!(updated.body["update_status"], "completed");
    // Once for its id.
    let again = stage.post("/api/workflows/a/update/add", update).await;
    assert_eq!(again.body["result"], 15);

    let asked = stage.post("/api/workflows/a/query/total", json!({})).await;
    assert_eq!((asked.status, &asked.body["result"]), (200, &json!(15)));

    let signal = json!({"input": ["enough"], "request_id": "s-1"});
    let sent = stage
        .post("/api/workflows/a/signal/done", signal.clone())
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");
    assert_eq!(sent.body["command_status"], "accepted");
    assert_eq!(sent.body["retained"], false);
    let done = stage
        .until("/api/workflows/a", |it| it["status"] == "completed")
        .await;
    assert_eq!(done["output"], 15);
    let repeated = stage.post("/api/workflows/a/signal/done", signal).await;
    assert_eq!(repeated.status, 202, "{repeated:?}");
    assert_eq!(repeated.body["retained"], true);
    stage.finish().await;
}

async fn an_update_that_the_code_refuses_fails_and_one_that_is_not_waited_for_is_accepted(
    place: Place,
) {
    let mut stage = Stage::open(place).await;
    adding(&stage, "a").await;

    let update = json!({"arguments": [101], "wait_for": "completed"});
    let refused = stage.post("/api/workflows/a/update/add", update).await;
    assert_eq!((refused.status, refused.reason()), (422, "update_failed"));
    assert_eq!(refused.body["failure_message"], "too much");

    stage.stop_working().await;
    let update = json!({"arguments": [1], "idempotency_key": "k"});
    let accepted = stage.post("/api/workflows/a/update/add", update).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    assert_eq!(accepted.body["request_id"], "k");
    assert_eq!(accepted.body["update_status"], "accepted");
    let update = json!({"arguments": [1], "wait_for": "completed", "wait_timeout_seconds": 1});
    let late = stage.post("/api/workflows/a/update/add", update).await;
    assert_eq!(
        (late.status, &late.body["wait_timed_out"]),
        (202, &json!(true))
    );
    stage.finish().await;
}

async fn a_command_to_a_run_reaches_that_run_and_no_other(place: Place) {
    let stage = Stage::open(place).await;
    let run = adding(&stage, "a").await;
    let foreign = adding(&stage, "b").await;

    for (path, status, reason) in [
        (
            format!("/api/workflows/a/runs/{foreign}/cancel"),
            404,
            "run_not_found",
        ),
        (
            "/api/workflows/a/runs/none/signal/done".to_owned(),
            404,
            "run_not_found",
        ),
        (
            "/api/workflows/none/cancel".to_owned(),
            404,
            "instance_not_found",
        ),
        (
            "/api/workflows/none/query/total".to_owned(),
            404,
            "instance_not_found",
        ),
        (
            "/api/workflows/a/query/weather".to_owned(),
            404,
            "query_not_found",
        ),
        (
            "/api/workflows/a/repair".to_owned(),
            409,
            "repair_not_needed",
        ),
    ] {
        let answer = stage.post(&path, json!({})).await;
        assert_eq!((answer.status, answer.reason()), (status, reason), "{path}");
    }

    let path = format!("/api/workflows/a/runs/{run}/terminate");
    let ended = stage.post(&path, json!({"reason": "tidy up"})).await;
    assert_eq!(
        (ended.status, &ended.body["outcome"]),
        (202, &json!("terminated"))
    );
    let described = stage.get("/api/workflows/a").await.body;
    assert_eq!(described["status"], "terminated");
    assert_eq!(described["error"], "tidy up");
    let late = stage.post("/api/workflows/a/signal/done", json!({})).await;
    assert_eq!((late.status, late.reason()), (409, "run_not_active"));
    let other = stage.get("/api/workflows/b").await.body;
    assert_eq!(other["is_terminal"], false);
    stage.finish().await;
}

async fn a_workflow_that_is_asked_to_end_ends(place: Place) {
    let stage = Stage::open(place).await;
    adding(&stage, "a").await;

    let asked = stage
        .post("/api/workflows/a/cancel", json!({"reason": "no more"}))
        .await;

    assert_eq!(
        (asked.status, &asked.body["outcome"]),
        (202, &json!("cancellation_requested"))
    );
    let ended = stage
        .until("/api/workflows/a", |it| it["is_terminal"] == true)
        .await;
    assert_eq!(ended["status"], "cancelled");
    stage.finish().await;
}

async fn a_query_needs_the_code_in_this_node(place: Place) {
    let mut stage = Stage::open(place).await;
    adding(&stage, "a").await;
    stage.stop_working().await;

    let asked = stage.post("/api/workflows/a/query/total", json!({})).await;

    assert_eq!(
        (asked.status, asked.reason()),
        (409, "query_worker_unavailable")
    );
    stage.finish().await;
}

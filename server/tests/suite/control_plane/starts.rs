//! Starting workflows, and finding them.

use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    a_workflow_is_started_and_described_to_its_end,
    a_workflow_that_fails_says_why,
    an_id_is_used_once_unless_the_open_run_will_do,
    a_start_that_is_sent_again_is_answered_as_the_first_time,
    a_list_is_filtered_and_read_page_by_page,
}

async fn a_workflow_is_started_and_described_to_its_end(place: Place) {
    let stage = Stage::open(place).await;

    let started = stage
        .post(
            "/api/workflows",
            json!({
                "workflow_type": "tests.echo", "workflow_id": "e", "task_queue": "default",
                "input": [{"n": 1.5, "list": [1, null]}], "memo": {"about": "a test"},
                "search_attributes": {"customer": "ann", "tags": ["a", "b"], "n": 3},
                "execution_timeout_seconds": 3600, "priority": 3,
            }),
        )
        .await;

    assert_eq!(started.status, 201, "{started:?}");
    assert_eq!(started.body["outcome"], "started_new");
    let version = &started.headers["x-durable-workflow-control-plane-version"];
    assert_eq!(version, "2");
    let done = stage
        .until("/api/workflows/e", |it| it["status"] == "completed")
        .await;
    assert_eq!(done["run_id"], started.body["run_id"]);
    assert_eq!(done["output"], json!({"n": 1.5, "list": [1, null]}));
    assert_eq!(done["input"], json!([{"n": 1.5, "list": [1, null]}]));
    assert_eq!(done["memo"], json!({"about": "a test"}));
    assert_eq!(
        done["search_attributes"],
        json!({"customer": "ann", "tags": ["a", "b"], "n": 3})
    );
    assert_eq!(done["status_bucket"], "completed");
    assert_eq!(done["is_current_run"], true);
    assert!(done["closed_at"].as_str() >= done["started_at"].as_str());
    stage.finish().await;
}

async fn a_workflow_that_fails_says_why(place: Place) {
    let stage = Stage::open(place).await;

    let start = json!({"workflow_type": "tests.failing", "workflow_id": "f"});
    stage.post("/api/workflows", start).await;

    let failed = stage
        .until("/api/workflows/f", |it| it["is_terminal"] == true)
        .await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], "out of paper");
    assert_eq!(failed["failure"]["exception_type"], "printer");
    assert_eq!(failed["output_envelope"], json!(null));
    stage.finish().await;
}

async fn an_id_is_used_once_unless_the_open_run_will_do(place: Place) {
    let stage = Stage::open(place).await;
    let start = |policy: &str| {
        json!({
            "workflow_type": "tests.adding", "workflow_id": "a", "input": [1],
            "duplicate_policy": policy,
        })
    };

    let first = stage.post("/api/workflows", start("fail")).await;
    let refused = stage.post("/api/workflows", start("fail")).await;
    let existing = stage.post("/api/workflows", start("use-existing")).await;

    assert_eq!(first.status, 201);
    assert_eq!(
        (refused.status, refused.reason()),
        (409, "duplicate_not_allowed")
    );
    assert_eq!(existing.status, 200);
    assert_eq!(existing.body["outcome"], "returned_existing_active");
    assert_eq!(existing.body["run_id"], first.body["run_id"]);

    let ended = stage.post("/api/workflows/a/terminate", json!({})).await;
    assert_eq!(ended.status, 202);
    let closed = stage.post("/api/workflows", start("use-existing")).await;
    assert_eq!(
        (closed.status, closed.reason()),
        (409, "duplicate_not_allowed")
    );
    stage.finish().await;
}

async fn a_start_that_is_sent_again_is_answered_as_the_first_time(place: Place) {
    let stage = Stage::open(place).await;
    let start = json!({
        "workflow_type": "tests.echo", "workflow_id": "again", "input": ["x"], "request_id": "r-1",
    });

    let first = stage.post("/api/workflows", start.clone()).await;
    let second = stage.post("/api/workflows", start).await;

    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body["run_id"], second.body["run_id"]);
    stage.finish().await;
}

async fn a_list_is_filtered_and_read_page_by_page(place: Place) {
    let mut stage = Stage::open(place).await;
    stage.stop_working().await;
    for number in 0..5 {
        let start = json!({
            "workflow_type": "tests.echo", "workflow_id": format!("list-{number}"),
            "search_attributes": {"even": number % 2 == 0},
        });
        let started = stage.post("/api/workflows", start).await;
        assert_eq!(started.status, 201, "{started:?}");
    }
    let other = json!({"workflow_type": "tests.adding", "workflow_id": "other", "input": [1]});
    stage.post("/api/workflows", other).await;
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let runs = page["workflows"].as_array().expect("a list").iter();
        runs.map(|run| run["workflow_id"].as_str().expect("an id").to_owned())
            .collect()
    };

    let mut found = Vec::new();
    let mut path = "/api/workflows?workflow_type=tests.echo&page_size=2".to_owned();
    loop {
        let page = stage.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        found.extend(ids(&page.body));
        let Some(token) = page.body["next_page_token"].as_str() else {
            break;
        };
        path =
            format!("/api/workflows?workflow_type=tests.echo&page_size=2&next_page_token={token}");
    }

    assert_eq!(found, ["list-4", "list-3", "list-2", "list-1", "list-0"]);
    for (filter, expected) in [
        ("workflow_id_prefix=list-1", vec!["list-1"]),
        ("query=WorkflowId%20%3D%20'other'", vec!["other"]),
        (
            "query=even%3Dfalse%20AND%20WorkflowType%3D'tests.echo'",
            vec!["list-3", "list-1"],
        ),
        ("status=completed", vec![]),
        ("status=pending&workflow_type=tests.adding", vec!["other"]),
    ] {
        let page = stage.get(&format!("/api/workflows?{filter}")).await;
        assert_eq!(ids(&page.body), expected, "{filter}");
    }
    stage.finish().await;
}

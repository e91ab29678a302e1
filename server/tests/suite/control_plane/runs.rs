//! The runs of a workflow, and their histories.

use coord_engine::model::History;
use serde_json::{Value, json};

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    a_history_is_read_page_by_page_and_names_what_it_carries,
    a_run_is_listed_and_described_and_its_export_is_a_history_of_the_engine,
}

async fn done(stage: &Stage) -> Value {
    let start = json!({"workflow_type": "tests.echo", "workflow_id": "e", "input": ["x"]});
    stage.post("/api/workflows", start).await;
    stage
        .until("/api/workflows/e", |it| it["status"] == "completed")
        .await
}

async fn a_history_is_read_page_by_page_and_names_what_it_carries(place: Place) {
    let stage = Stage::open(place).await;
    let run = done(&stage).await["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();

    let first = format!("/api/workflows/e/runs/{run}/history?page_size=1");
    let mut events: Vec<Value> = Vec::new();
    let mut path = first.clone();
    loop {
        let page = stage.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        events.extend(page.body["events"].as_array().expect("a list").clone());
        let Some(token) = page.body["next_page_token"].as_str() else {
            break;
        };
        path = format!("{first}&next_page_token={token}");
    }

    let types: Vec<_> = events.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(types[0], "WorkflowStarted");
    assert_eq!(*types.last().expect("events"), "WorkflowCompleted");
    let last = events.last().expect("events");
    assert_eq!(last["sequence"], events.len());
    assert_eq!(last["payload"]["output"]["codec"], "avro");
    stage.finish().await;
}

async fn a_run_is_listed_and_described_and_its_export_is_a_history_of_the_engine(place: Place) {
    let stage = Stage::open(place).await;
    let described = done(&stage).await;
    let run = described["run_id"].as_str().expect("an id");

    let runs = stage.get("/api/workflows/e/runs").await.body;
    assert_eq!(runs["run_count"], 1);
    assert_eq!(runs["runs"][0]["run_id"], run);
    let of_run = stage
        .get(&format!("/api/workflows/e/runs/{run}"))
        .await
        .body;
    assert_eq!(of_run, described);

    let export = stage
        .get(&format!("/api/workflows/e/runs/{run}/history/export"))
        .await;
    let history = History::from_json(&export.body.to_string()).expect("a history");
    assert_eq!(history.run().as_str(), run);
    assert_eq!(history.started().workflow.as_str(), "e");

    for path in [
        "/api/workflows/e/runs/none",
        "/api/workflows/e/runs/none/history",
    ] {
        let missing = stage.get(path).await;
        assert_eq!(
            (missing.status, missing.reason()),
            (404, "run_not_found"),
            "{path}"
        );
    }
    let foreign = stage.header("X-Namespace", "elsewhere");
    for path in ["", "/history", "/history/export"] {
        let missing = foreign
            .get(&format!("/api/workflows/e/runs/{run}{path}"))
            .await;
        assert_eq!(
            (missing.status, missing.reason()),
            (404, "run_not_found"),
            "{path}"
        );
    }
    let missing = foreign.get("/api/workflows/e").await;
    assert_eq!(
        (missing.status, missing.reason()),
        (404, "instance_not_found")
    );
    foreign.finish().await;
}

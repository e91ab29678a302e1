//! What operators read of all processes, over HTTP.

use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! { operators_read_what_all_processes_have_to_do }

async fn operators_read_what_all_processes_have_to_do(place: Place) {
    let mut stage = Stage::open(place).await;
    stage.stop_working().await;
    let start = json!({"workflow_type": "tests.echo", "workflow_id": "a"});
    assert_eq!(stage.post("/api/workflows", start).await.status, 201);

    let snapshot = stage.get("/api/system/operator-metrics").await;

    assert_eq!(snapshot.status, 200, "{snapshot:?}");
    for (section, field, count) in [
        ("runs", "open", 1),
        ("runs", "pending", 1),
        ("tasks", "ready", 1),
        ("tasks", "leased", 0),
    ] {
        assert_eq!(snapshot.body[section][field], count, "{section}.{field}");
    }
    assert!(snapshot.body["at"].is_string(), "{snapshot:?}");
    stage.finish().await;
}

//! Schedules.

use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    a_schedule_is_created_changed_and_deleted,
    a_schedule_fires_when_it_is_told_to_and_its_history_says_so,
    a_schedule_that_cannot_be_is_refused,
}

fn nightly() -> serde_json::Value {
    json!({
        "schedule_id": "nightly",
        "spec": {"cron_expressions": ["0 3 * * *"], "timezone": "Europe/Berlin"},
        "action": {"workflow_type": "tests.echo", "input": ["report"], "task_queue": "default"},
        "overlap_policy": "buffer_one", "jitter_seconds": 7, "max_runs": 9,
        "memo": {"about": "a test"}, "paused": true, "note": "not yet",
    })
}

async fn a_schedule_is_created_changed_and_deleted(place: Place) {
    let stage = Stage::open(place).await;

    let created = stage.post("/api/schedules", nightly()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let again = stage.post("/api/schedules", nightly()).await;
    assert_eq!(
        (again.status, again.reason()),
        (409, "schedule_already_exists")
    );

    let shown = stage.get("/api/schedules/nightly").await.body;
    assert_eq!(shown["status"], "paused");
    assert_eq!(shown["note"], "not yet");
    assert_eq!(shown["next_fire_at"], json!(null));
    assert_eq!(shown["spec"]["cron_expressions"], json!(["0 3 * * *"]));
    assert_eq!(shown["overlap_policy"], "buffer_one");
    assert_eq!(
        (&shown["jitter_seconds"], &shown["max_runs"]),
        (&json!(7), &json!(9))
    );
    assert_eq!(shown["action"]["input"], json!(["report"]));

    let change = json!({"spec": {"intervals": [{"every": "PT90S"}]}, "overlap_policy": "skip"});
    let changed = stage.put("/api/schedules/nightly", change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let resumed = stage
        .post("/api/schedules/nightly/resume", json!({"note": "go"}))
        .await;
    assert_eq!(resumed.body["outcome"], "resumed");
    let shown = stage.get("/api/schedules/nightly").await.body;
    assert_eq!(
        (&shown["status"], &shown["note"]),
        (&json!("active"), &json!("go"))
    );
    assert_eq!(
        shown["spec"]["intervals"],
        json!([{"every": "PT1M30S", "offset": null}])
    );
    assert_eq!(shown["jitter_seconds"], 7, "what is left out stays");
    assert!(shown["next_fire_at"].is_string());

    let listed = stage.get("/api/schedules").await.body;
    assert_eq!(
        (&listed["schedule_count"], &listed["next_page_token"]),
        (&json!(1), &json!(null))
    );
    let deleted = stage.delete("/api/schedules/nightly").await;
    assert_eq!(deleted.body["outcome"], "deleted");
    for answer in [
        stage.delete("/api/schedules/nightly").await,
        stage.get("/api/schedules/nightly").await,
        stage.post("/api/schedules/nightly/pause", json!({})).await,
    ] {
        assert_eq!(
            (answer.status, answer.reason()),
            (404, "schedule_not_found")
        );
    }
    stage.finish().await;
}

async fn a_schedule_fires_when_it_is_told_to_and_its_history_says_so(place: Place) {
    let stage = Stage::open(place).await;
    stage.post("/api/schedules", nightly()).await;

    let fired = stage
        .post("/api/schedules/nightly/trigger", json!({}))
        .await;

    assert_eq!(
        (fired.status, &fired.body["outcome"]),
        (200, &json!("triggered"))
    );
    let workflow = fired.body["workflow_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = format!("/api/workflows/{workflow}");
    let done = stage.until(&path, |it| it["status"] == "completed").await;
    assert_eq!(done["output"], "report");
    let history = stage.get("/api/schedules/nightly/history").await.body;
    assert_eq!(history["events"][0]["sequence"], 1);
    assert_eq!(history["events"][0]["workflow_instance_id"], workflow);
    assert_eq!(history["events"][0]["payload"]["cause"], "trigger");
    let after = stage
        .get("/api/schedules/nightly/history?after_sequence=1")
        .await
        .body;
    assert_eq!(after["events"], json!([]));

    let span = json!({
        "start_time": "2025-01-01T00:00:00Z", "end_time": "2025-01-03T00:00:00Z",
        "overlap_policy": "allow_all",
    });
    let filled = stage.post("/api/schedules/nightly/backfill", span).await;
    assert_eq!(filled.status, 200, "{filled:?}");
    let history = stage
        .until("/api/schedules/nightly/history", |it| {
            it["events"].as_array().is_some_and(|it| it.len() == 3)
        })
        .await;
    assert_eq!(
        history["events"][1]["payload"]["occurrence_time"],
        "2025-01-01T02:00:00.000000Z"
    );
    stage.finish().await;
}

async fn a_schedule_that_cannot_be_is_refused(place: Place) {
    let stage = Stage::open(place).await;
    let with = |change: serde_json::Value| {
        let mut schedule = nightly();
        for (name, value) in change.as_object().expect("fields") {
            schedule[name] = value.clone();
        }
        schedule
    };

    for change in [
        json!({"spec": {}}),
        json!({"spec": {"cron_expressions": ["0 3 * * *", "0 4 * * *"]}}),
        json!({"spec": {"cron_expressions": ["whenever"]}}),
        json!({"spec": {"intervals": [{"every": "1ms"}]}}),
        json!({"overlap_policy": "hope"}),
        json!({"schedule_id": ""}),
        json!({"action": {"workflow_type": ""}}),
        json!({"action": {}}),
    ] {
        let refused = stage.post("/api/schedules", with(change.clone())).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (422, "validation_failed"),
            "{change}"
        );
    }
    stage.finish().await;
}

//! What operators look at: namespaces, queues, workers, why a run does not move, and the whole.

use coord_engine::model::{Namespace, Queue};
use coord_server::Access;
use reqwest::Method;
use serde_json::{Value, json};

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage, read};

on_both_databases! {
    a_namespace_is_registered_changed_and_found,
    a_token_sees_the_namespaces_that_it_reaches,
    a_queue_says_what_waits_and_who_looks_there,
    a_run_says_what_holds_it_up,
    a_history_that_was_exported_is_imported_elsewhere_and_set_aside,
    a_node_says_how_it_stands_and_what_is_wrong,
    what_is_past_its_retention_is_named_and_removed,
    a_pass_of_repair_says_what_it_mended,
}

async fn a_namespace_is_registered_changed_and_found(place: Place) {
    let stage = Stage::open(place).await;
    let new = json!({"name": "shop", "description": "orders", "retention_days": 7});

    let created = stage.post("/api/namespaces", new.clone()).await;
    let again = stage.post("/api/namespaces", new).await;

    assert_eq!(
        (created.status, &created.body["retention_days"]),
        (201, &json!(7))
    );
    assert_eq!(
        (again.status, again.reason()),
        (409, "namespace_already_exists")
    );
    let changed = stage
        .put(
            "/api/namespaces/shop",
            json!({"description": "mail orders"}),
        )
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let shop = stage.get("/api/namespaces/shop").await.body;
    assert_eq!(shop["description"], "mail orders");
    assert_eq!(shop["retention_seconds"], 7 * 24 * 60 * 60);
    assert_eq!(shop, changed.body);
    stage
        .post("/api/namespaces", json!({"name": "attic"}))
        .await;
    let first = stage.get("/api/namespaces?page_size=1").await.body;
    let token = first["next_page_token"].as_str().expect("there is more");
    let second = stage
        .get(&format!("/api/namespaces?next_page_token={token}"))
        .await
        .body;
    assert_eq!(first["namespaces"][0]["name"], "attic");
    // As long as the node keeps what nobody has said anything of.
    assert_eq!(first["namespaces"][0]["retention_days"], 30);
    assert_eq!(second["namespaces"][0]["name"], "shop");
    assert_eq!(second["next_page_token"], Value::Null);
    for (method, path, body, status, reason) in [
        (Method::GET, "none", json!({}), 404, "namespace_not_found"),
        (Method::PUT, "none", json!({}), 404, "namespace_not_found"),
        (
            Method::PUT,
            "shop",
            json!({"retention_days": 0}),
            422,
            "validation_failed",
        ),
        (
            Method::PUT,
            "shop",
            json!({"retention_days": 366}),
            422,
            "validation_failed",
        ),
        (
            Method::PUT,
            "shop",
            json!({"description": "x".repeat(1001)}),
            422,
            "validation_failed",
        ),
    ] {
        let request = stage.request(method, &format!("/api/namespaces/{path}"));
        let answer = read(request.json(&body).send().await.expect("an answer")).await;
        assert_eq!(
            (answer.status, answer.reason()),
            (status, reason),
            "{path} {body}"
        );
    }
    stage.finish().await;
}

async fn a_token_sees_the_namespaces_that_it_reaches(place: Place) {
    const READER: &str = "reader-0123456789abcdef0123456789abcdef";
    const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";
    let tokens = json!({"tokens": [
        {"name": "eyes", "role": "read-only", "namespaces": ["shop"], "token": READER},
        {"name": "root", "role": "admin", "token": ADMIN},
    ]});
    let access = Access::from_json(&tokens.to_string()).expect("tokens");
    let mut stage = Stage::with(place, access, |node| node).await;
    stage.only_header("Authorization", format!("Bearer {ADMIN}"));
    for name in ["attic", "shop"] {
        assert_eq!(
            stage
                .post("/api/namespaces", json!({"name": name}))
                .await
                .status,
            201
        );
    }

    stage.only_header("Authorization", format!("Bearer {READER}"));

    let listed = stage.get("/api/namespaces").await.body;
    let names = listed["namespaces"].as_array().expect("a list");
    assert_eq!(names.len(), 1, "{listed}");
    assert_eq!(names[0]["name"], "shop");
    assert_eq!(stage.get("/api/namespaces/shop").await.status, 200);
    let foreign = stage.get("/api/namespaces/attic").await;
    assert_eq!(
        (foreign.status, foreign.reason()),
        (403, "namespace_forbidden")
    );
    let change = stage
        .put("/api/namespaces/shop", json!({"retention_days": 1}))
        .await;
    assert_eq!((change.status, change.reason()), (403, "role_forbidden"));
    stage.finish().await;
}

async fn a_queue_says_what_waits_and_who_looks_there(place: Place) {
    let stage = Stage::open(place).await;
    // Workers make themselves known in a moment.
    let workers = stage
        .until("/api/workers", |it| it["workers"][0].is_object())
        .await;
    let worker = &workers["workers"][0];
    for number in 0..3 {
        let start = json!({
            "workflow_type": "tests.echo", "workflow_id": format!("w{number}"), "task_queue": "busy",
        });
        assert_eq!(stage.post("/api/workflows", start).await.status, 201);
    }

    let listed = stage.get("/api/task-queues").await.body;
    let busy = stage.get("/api/task-queues/busy").await.body;
    let default = stage.get("/api/task-queues/default").await.body;

    let names = listed["task_queues"].as_array().expect("a list").iter();
    let names: Vec<_> = names
        .map(|queue| queue["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["busy", "default"], "{listed}");
    assert_eq!(
        listed["task_queues"][0]["stats"]["workflow_tasks"]["ready_count"], 3,
        "{listed}"
    );
    assert_eq!(busy["stats"]["approximate_backlog_count"], 3, "{busy}");
    assert!(
        busy["stats"]["approximate_backlog_age_seconds"].is_u64(),
        "{busy}"
    );
    assert_eq!(busy["pollers"], json!([]));
    assert_eq!(default["stats"]["pollers"]["active_count"], 1, "{default}");
    assert_eq!(default["pollers"][0]["worker_id"], worker["worker_id"]);
    assert_eq!(worker["process_id"], std::process::id());
    let id = worker["worker_id"].as_str().expect("an id");
    let described = stage.get(&format!("/api/workers/{id}")).await.body;
    assert_eq!(described["task_queue"], "default");
    let none = stage.get("/api/workers/none").await;
    assert_eq!((none.status, none.reason()), (404, "worker_not_found"));
    let draining = stage.get("/api/workers?status=draining").await.body;
    assert_eq!(draining["workers"], json!([]));
    let odd = stage.get("/api/workers?status=asleep").await;
    assert_eq!((odd.status, odd.reason()), (422, "validation_failed"));
    let elsewhere = stage.header("X-Namespace", "elsewhere");
    assert_eq!(
        elsewhere.get("/api/task-queues").await.body["task_queues"],
        json!([])
    );
    assert_eq!(
        elsewhere.get("/api/workers").await.body["workers"],
        json!([])
    );
    elsewhere.finish().await;
}

async fn a_run_says_what_holds_it_up(place: Place) {
    let stage = Stage::open(place).await;
    let start = json!({"workflow_type": "tests.adding", "workflow_id": "a", "input": [1]});
    let started = stage.post("/api/workflows", start).await.body;
    let run = started["run_id"].as_str().expect("an id");
    let nobody = json!({"workflow_type": "x", "workflow_id": "n", "task_queue": "nobody"});
    stage.post("/api/workflows", nobody).await;

    let waiting = stage
        .until("/api/workflows/a/debug", |it| {
            it["liveness_state"] == "waiting_for_signal" && it["execution"]["status"] == "waiting"
        })
        .await;
    let of_run = stage
        .get(&format!("/api/workflows/a/runs/{run}/debug"))
        .await
        .body;
    let ready = stage.get("/api/workflows/n/debug").await.body;

    assert_eq!(waiting["row"]["table"], "workflow_runs", "{waiting}");
    assert_eq!(waiting["row"]["key"], run);
    assert_eq!(waiting["execution"]["status"], "waiting");
    assert_eq!(of_run["liveness_state"], "waiting_for_signal");
    assert_eq!(ready["liveness_state"], "workflow_task_ready", "{ready}");
    assert_eq!(ready["refusal"], "queue_unserved", "{ready}");
    assert_eq!(waiting["refusal"], serde_json::Value::Null);
    assert!(
        ready["remediation"]
            .as_str()
            .is_some_and(|it| !it.is_empty()),
        "{ready}"
    );
    let missing = stage.get("/api/workflows/none/debug").await;
    assert_eq!(
        (missing.status, missing.reason()),
        (404, "instance_not_found")
    );
    let missing = stage.get("/api/workflows/a/runs/none/debug").await;
    assert_eq!((missing.status, missing.reason()), (404, "run_not_found"));
    stage.finish().await;
}

async fn a_history_that_was_exported_is_imported_elsewhere_and_set_aside(place: Place) {
    let stage = Stage::open(place).await;
    let start = json!({"workflow_type": "tests.adding", "workflow_id": "a", "input": [1]});
    stage.post("/api/workflows", start).await;
    let open = stage
        .until("/api/workflows/a", |it| it["status"] == "waiting")
        .await;
    let run = open["run_id"].as_str().expect("an id");
    let path = format!("/api/workflows/a/runs/{run}/history/export");
    let document = stage.get(&path).await.body;
    let other = Stage::open(Place::Memory).await;

    let imported = other
        .post("/api/workflows/a/import", document.clone())
        .await;

    assert_eq!(imported.status, 201, "{imported:?}");
    assert_eq!(imported.body["is_set_aside"], true, "{imported:?}");
    assert_eq!(imported.body["run_id"], run);
    let held = other.get("/api/workflows/a/debug").await.body;
    assert_eq!(held["liveness_state"], "workflow_imported", "{held}");
    let again = other
        .post("/api/workflows/a/import", document.clone())
        .await;
    assert_eq!(
        (again.status, again.reason()),
        (409, "duplicate_not_allowed")
    );
    let misnamed = other.post("/api/workflows/b/import", document).await;
    assert_eq!(
        (misnamed.status, misnamed.reason()),
        (422, "workflow_id_mismatch")
    );
    let none = other
        .post("/api/workflows/c/import", json!({"format": 1}))
        .await;
    assert_eq!((none.status, none.reason()), (422, "invalid_history"));
    // Where it came from it was ended; here it goes on once somebody says so.
    assert_eq!(
        other
            .post("/api/workflows/a/repair", json!({}))
            .await
            .status,
        200
    );
    let update = json!({"input": [2], "wait_for": "completed"});
    let update = other.post("/api/workflows/a/update/add", update).await;
    assert_eq!((update.status, &update.body["result"]), (200, &json!(3)));
    other.finish().await;
    stage.finish().await;
}

async fn a_node_says_how_it_stands_and_what_is_wrong(place: Place) {
    let stage = Stage::open(place).await;

    let ready = stage
        .until("/api/ready", |it| it["status"] == "ready")
        .await;
    let health = stage
        .until("/api/health", |it| it["health"] != "unknown")
        .await;
    let whole = stage.get("/api/system/health").await;

    let needs = json!({"database": "ok", "migrations": "ok", "namespace": "ok"});
    assert_eq!(ready["needs"], needs);
    assert_eq!(health["status"], "serving");
    assert_eq!(health["categories"]["correctness"], "ok", "{health}");
    let names = |of: &Value| -> Vec<String> {
        let checks = of["checks"].as_array().expect("a list").iter();
        checks
            .map(|check| check["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert!(
        names(&health).contains(&"task_transport".to_owned()),
        "{health}"
    );
    // Without a token nobody learns what was found.
    assert_eq!(health["checks"][0]["message"], Value::Null);
    assert_eq!((whole.status, &whole.body["healthy"]), (200, &json!(true)));
    assert_eq!(names(&whole.body), names(&health));
    let first = &whole.body["checks"][0];
    let none = stage.get("/api/system/metrics").await;
    assert_eq!(
        (none.status, none.reason()),
        (404, "metrics_not_configured")
    );
    assert_eq!(first["name"], "backend_capabilities");
    assert!(
        first["message"].as_str().is_some_and(|it| !it.is_empty()),
        "{first}"
    );
    stage.finish().await;
}

async fn what_is_past_its_retention_is_named_and_removed(place: Place) {
    let stage = Stage::open(place).await;
    let start = json!({"workflow_type": "tests.echo", "workflow_id": "e"});
    stage.post("/api/workflows", start).await;
    let done = stage
        .until("/api/workflows/e", |it| it["is_terminal"] == true)
        .await;
    let kept = stage.get("/api/system/retention").await.body;
    assert_eq!(kept["expired_run_ids"], json!([]));
    assert_eq!(kept["retention_days"], 30);

    let engine = stage.node.engine();
    let client = engine.client(Namespace::default(), Queue::default());
    client
        .keep_closed_runs(std::time::Duration::from_micros(1))
        .await
        .expect("kept so long");

    let past = stage
        .until("/api/system/retention?limit=1", |it| {
            it["expired_run_count"] == 1
        })
        .await;
    assert_eq!(past["expired_run_ids"], json!([done["run_id"]]));
    assert_eq!(past["scan_pressure"], false);
    let pass = stage.post("/api/system/retention/pass", json!({})).await;
    assert_eq!((pass.status, &pass.body["processed"]), (200, &json!(1)));
    assert_eq!(stage.get("/api/workflows/e").await.status, 404);
    let odd = stage.get("/api/system/retention?limit=101").await;
    assert_eq!((odd.status, odd.reason()), (422, "validation_failed"));
    stage.finish().await;
}

async fn a_pass_of_repair_says_what_it_mended(place: Place) {
    let stage = Stage::open(place).await;
    let start = json!({"workflow_type": "tests.adding", "workflow_id": "a", "input": [1]});
    let started = stage.post("/api/workflows", start).await.body;

    let status = stage.get("/api/system/repair").await.body;
    let all = stage.post("/api/system/repair/pass", json!({})).await;
    let one = stage
        .post("/api/system/repair/pass", json!({"instance_id": "a"}))
        .await;
    let timeouts = stage.get("/api/system/activity-timeouts").await.body;
    let ended = stage
        .post("/api/system/activity-timeouts/pass", json!({}))
        .await;

    assert_eq!(status["policy"]["loop_throttle_seconds"], 5);
    assert_eq!(status["candidates"]["existing_task_candidates"], 0);
    assert_eq!(
        (all.status, &all.body["repaired_missing_tasks"]),
        (200, &json!(0))
    );
    assert_eq!(one.body["run_ids"], json!([started["run_id"]]));
    assert_eq!(
        (timeouts["expired_count"].as_u64(), ended.status),
        (Some(0), 200)
    );
    for (body, status, reason) in [
        (json!({"instance_id": "none"}), 404, "instance_not_found"),
        (json!({"run_ids": [""]}), 422, "validation_failed"),
        (json!({"run_ids": vec!["r"; 101]}), 422, "validation_failed"),
    ] {
        let refused = stage.post("/api/system/repair/pass", body).await;
        assert_eq!((refused.status, refused.reason()), (status, reason));
    }
    stage.finish().await;
}

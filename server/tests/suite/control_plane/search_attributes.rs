//! The search attributes that a namespace declares.

use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    a_search_attribute_is_declared_listed_and_withdrawn,
    each_namespace_declares_its_own_search_attributes,
    a_search_attribute_that_cannot_be_declared_is_refused,
    a_declaration_refuses_nothing_that_runs_have,
}

const PATH: &str = "/api/search-attributes";

async fn a_search_attribute_is_declared_listed_and_withdrawn(place: Place) {
    let stage = Stage::open(place).await;
    let kinds = [
        "keyword",
        "text",
        "int",
        "double",
        "bool",
        "datetime",
        "keyword_list",
    ];

    let before = stage.get(PATH).await;
    for kind in kinds {
        let new = json!({"name": format!("a_{kind}"), "type": kind});
        let made = stage.post(PATH, new).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.body["name"], format!("a_{kind}"));
        assert_eq!(made.body["type"], kind);
        assert_eq!(made.body["outcome"], "created");
    }
    let listed = stage.get(PATH).await.body;
    let gone = stage.delete("/api/search-attributes/a_int").await;
    let after = stage.get(PATH).await.body;
    let again = stage.delete("/api/search-attributes/a_int").await;

    assert_eq!(before.status, 200, "{before:?}");
    assert_eq!(before.body["custom_attributes"], json!({}));
    assert_eq!(before.body["system_attributes"]["WorkflowId"], "keyword");
    assert_eq!(before.body["system_attributes"]["CloseTime"], "datetime");
    for kind in kinds {
        assert_eq!(listed["custom_attributes"][format!("a_{kind}")], kind);
    }
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(
        (&gone.body["name"], &gone.body["outcome"]),
        (&json!("a_int"), &json!("deleted"))
    );
    assert_eq!(
        after["custom_attributes"]
            .as_object()
            .map(serde_json::Map::len),
        Some(6)
    );
    assert_eq!((again.status, again.reason()), (404, "attribute_not_found"));
    stage.finish().await;
}

async fn each_namespace_declares_its_own_search_attributes(place: Place) {
    let mut stage = Stage::open(place).await;
    let new = json!({"name": "Tenant", "type": "keyword"});
    stage.post(PATH, new).await;

    stage.only_header("x-namespace", "other");
    let elsewhere = stage.get(PATH).await.body;
    let gone = stage.delete("/api/search-attributes/Tenant").await;
    stage.only_header("x-namespace", "default");
    let here = stage.get(PATH).await.body;

    assert_eq!(elsewhere["custom_attributes"], json!({}));
    assert_eq!((gone.status, gone.reason()), (404, "attribute_not_found"));
    assert_eq!(here["custom_attributes"], json!({"Tenant": "keyword"}));
    stage.finish().await;
}

async fn a_search_attribute_that_cannot_be_declared_is_refused(place: Place) {
    let stage = Stage::open(place).await;
    let declare = async |name: &str, kind: &str| {
        let new = json!({"name": name, "type": kind});
        stage.post(PATH, new).await
    };

    for (name, kind) in [
        ("1a", "keyword"),
        ("has spaces", "keyword"),
        ("__internal", "keyword"),
        ("", "keyword"),
        ("fine", "string"),
        (&"n".repeat(129), "keyword"),
    ] {
        let refused = declare(name, kind).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (422, "validation_failed")
        );
    }
    let reserved = declare("WorkflowId", "keyword").await;
    assert_eq!((reserved.status, reserved.reason()), (409, "name_reserved"));
    let system = stage.delete("/api/search-attributes/WorkflowType").await;
    assert_eq!((system.status, system.reason()), (409, "system_attribute"));
    declare("Priority", "int").await;
    let twice = declare("Priority", "keyword").await;
    assert_eq!(
        (twice.status, twice.reason()),
        (409, "attribute_already_exists")
    );
    assert_eq!(
        (&twice.body["name"], &twice.body["type"]),
        (&json!("Priority"), &json!("int"))
    );
    for number in 1..100 {
        assert_eq!(declare(&format!("a{number}"), "bool").await.status, 201);
    }
    let full = declare("a100", "bool").await;
    assert_eq!(
        (full.status, full.reason()),
        (422, "search_attribute_limit_reached")
    );
    assert_eq!(full.body["limit"], 100);
    stage.finish().await;
}

async fn a_declaration_refuses_nothing_that_runs_have(place: Place) {
    let stage = Stage::open(place).await;
    stage
        .post(PATH, json!({"name": "Priority", "type": "int"}))
        .await;
    let start = json!({
        "workflow_id": "urgent", "workflow_type": "tests.echo", "input": [1],
        "search_attributes": {"Priority": "high", "undeclared": true},
    });

    let started = stage.post("/api/workflows", start).await;
    let gone = stage.delete("/api/search-attributes/Priority").await;
    let found = stage
        .get("/api/workflows?query=Priority%20%3D%20%27high%27")
        .await;

    assert_eq!(started.status, 201, "{started:?}");
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(
        found.body["workflows"][0]["workflow_id"], "urgent",
        "{found:?}"
    );
    stage.finish().await;
}

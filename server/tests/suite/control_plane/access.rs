//! Who may do what.

use coord_server::Access;
use serde_json::json;

use crate::control_plane::on_both_databases;
use crate::control_plane::stage::{Place, Stage};

on_both_databases! {
    nobody_goes_further_than_health_without_a_token,
    each_role_does_what_it_is_for,
    a_token_reaches_its_namespaces_alone,
}

const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";
const WORKER: &str = "worker-0123456789abcdef0123456789abcdef";
const READER: &str = "reader-0123456789abcdef0123456789abcdef";

async fn stage(place: Place) -> Stage {
    let tokens = json!({"tokens": [
        {"name": "root", "role": "admin", "token": ADMIN},
        {"name": "ops", "role": "operator", "namespaces": ["default"], "token": OPERATOR},
        {"name": "hands", "role": "worker", "token": WORKER},
        {"name": "eyes", "role": "read-only", "token": READER},
    ]});
    let access = Access::from_json(&tokens.to_string()).expect("tokens");
    Stage::with(place, access, |node| {
        node.metrics(|| "answer 42\n".to_owned())
    })
    .await
}

async fn nobody_goes_further_than_health_without_a_token(place: Place) {
    let mut stage = stage(place).await;

    for path in ["/api/health", "/api/ready", "/api/openapi.json"] {
        assert_eq!(stage.get(path).await.status, 200, "{path}");
    }
    for authorization in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        ADMIN,
        "Basic YTpi",
    ] {
        stage.only_header("Authorization", authorization);
        for path in ["/api/workflows", "/api/cluster/info", "/metrics"] {
            let refused = stage.get(path).await;
            assert_eq!(
                (refused.status, refused.reason()),
                (401, "unauthenticated"),
                "{path}"
            );
            assert_eq!(refused.headers["www-authenticate"], "Bearer");
        }
        let post = stage
            .post("/api/workflows", json!({"workflow_type": "tests.echo"}))
            .await;
        assert_eq!(post.status, 401);
    }
    stage.finish().await;
}

async fn each_role_does_what_it_is_for(place: Place) {
    let mut stage = stage(place).await;
    let start = json!({"workflow_type": "tests.echo"});

    for (token, [info, list, started, pass]) in [
        (ADMIN, [200, 200, 201, 200]),
        (OPERATOR, [200, 200, 201, 403]),
        (WORKER, [200, 403, 403, 403]),
        (READER, [200, 200, 403, 403]),
    ] {
        stage.only_header("Authorization", format!("bearer {token}"));
        assert_eq!(stage.get("/api/cluster/info").await.status, info, "{token}");
        assert_eq!(stage.get("/api/workflows").await.status, list, "{token}");
        let post = stage.post("/api/workflows", start.clone()).await;
        assert_eq!(post.status, started, "{token}");
        if started == 403 {
            assert_eq!(post.reason(), "role_forbidden");
        }
        let post = stage.post("/api/system/retention/pass", json!({})).await;
        assert_eq!(post.status, pass, "{token}");
        assert_eq!(stage.get("/metrics").await.body, "answer 42\n");
        let metrics = stage.get("/api/system/metrics").await;
        // They are of no namespace, and the operator is for one.
        let sees_all = [ADMIN, READER].contains(&token);
        assert_eq!(metrics.status, if sees_all { 200 } else { 403 }, "{token}");
        if sees_all {
            assert_eq!(metrics.body["metrics"]["answer"][0]["value"], 42.0);
        }
    }
    stage.finish().await;
}

async fn a_token_reaches_its_namespaces_alone(place: Place) {
    let stage = stage(place)
        .await
        .header("Authorization", format!("Bearer {OPERATOR}"));

    for path in ["/api/workflows?namespace=default", "/api/workflows"] {
        assert_eq!(stage.get(path).await.status, 200, "{path}");
    }
    for path in ["/api/workflows?namespace=shop", "/api/leases"] {
        let refused = stage.get(path).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (403, "namespace_forbidden"),
            "{path}"
        );
    }
    // The header wins.
    let stage = stage.header("X-Namespace", "shop");
    let refused = stage.get("/api/workflows?namespace=default").await;
    assert_eq!(
        (refused.status, refused.reason()),
        (403, "namespace_forbidden")
    );
    stage.finish().await;
}

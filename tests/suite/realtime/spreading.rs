//! News on their way between nodes.

use std::time::Duration;

use coord_tests::need;
use serde_json::json;

use super::{ADMIN, SOON, Stage, client, joined};

#[tokio::test]
async fn an_outage_of_redis_is_raised_and_cleared_and_clients_are_told_what_they_missed() {
    let stage = need!(Stage::new().await);
    let (mut one, mut other) = (
        stage.node(Duration::ZERO).await,
        stage.node(Duration::ZERO).await,
    );
    let mut here = need!(client(ADMIN, &[&one]).await);
    let mut there = need!(client(ADMIN, &[&other]).await);
    joined(&mut here, json!({})).await;
    joined(&mut there, json!({})).await;
    let before = stage.start(&one, "records.wait", "before", json!([])).await;
    assert_eq!(there.hears("run").await["run_id"], json!(before));

    stage.redis.stop().await;
    one.process.line_starting("down", SOON).await;
    other.process.line_starting("down", SOON).await;
    let meanwhile = stage.start(&one, "records.wait", "meanwhile", json!([]));
    let meanwhile = meanwhile.await;
    // The clients of the node hear of it all the same.
    while here.hears("run").await["run_id"] != json!(meanwhile) {}
    stage.redis.restart().await;
    one.process.line_starting("up", SOON).await;
    other.process.line_starting("up", SOON).await;

    there.hears("missed").await;
    let after = stage.start(&one, "records.wait", "after", json!([])).await;
    while there.hears("run").await["run_id"] != json!(after) {}
}

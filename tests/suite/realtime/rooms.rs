//! Who hears what.

use std::time::Duration;

use coord_tests::need;
use coord_tests::socket::SocketClient;
use serde_json::{Value, json};

use super::{ADMIN, SHOP, Stage, WORKER, client, joined};

/// How many rooms a client may be in.
const MOST_ROOMS: usize = 64;

#[tokio::test]
async fn nobody_hears_anything_without_a_token_that_may_read() {
    let stage = need!(Stage::new().await);
    let node = stage.node(Duration::ZERO).await;
    let unknown = ADMIN.replace("admin", "other");

    for (token, reason) in [
        ("", "unauthenticated"),
        (unknown.as_str(), "unauthenticated"),
        (WORKER, "role_forbidden"),
    ] {
        let mut client = need!(SocketClient::start(token, &[&node.url]).await);
        assert_eq!(client.says("refused").await, reason);
    }
}

#[tokio::test]
async fn a_node_that_asks_for_no_token_lets_in_no_page_of_another_machine() {
    let stage = need!(Stage::new().await);
    let node = stage.open_node().await;

    let mut other = need!(SocketClient::of_page("https://example.com", &node.url).await);
    let mut local = need!(SocketClient::of_page("http://localhost:3000", &node.url).await);
    let mut program = need!(SocketClient::start("", &[&node.url]).await);

    assert_eq!(other.says("refused").await, "origin_forbidden");
    assert_eq!(local.says("connected").await, node.url);
    assert_eq!(program.says("connected").await, node.url);
}

#[tokio::test]
async fn a_room_is_for_whom_the_token_says() {
    let stage = need!(Stage::new().await);
    let node = stage.node(Duration::ZERO).await;
    let run = stage.start(&node, "records.wait", "a", json!([])).await;
    let mut shop = need!(client(SHOP, &[&node]).await);

    let mut refusal = async |room: Value| {
        let answer = shop.asks("join", room).await;
        answer["reason"].as_str().map(str::to_owned)
    };

    let forbidden = Some("namespace_forbidden".to_owned());
    assert_eq!(refusal(json!({"namespace": "shop"})).await, None);
    assert_eq!(refusal(json!({"namespace": "default"})).await, forbidden);
    assert_eq!(refusal(json!({})).await, forbidden);
    assert_eq!(refusal(json!({"run_id": run})).await, forbidden);
    assert_eq!(refusal(json!({"task_queue": "default"})).await, forbidden);
    // It names a namespace that it may read, and a run that is not in it.
    let elsewhere = json!({"namespace": "shop", "run_id": run});
    assert_eq!(refusal(elsewhere).await.as_deref(), Some("not_found"));
    for unreadable in [json!({"run": "a"}), json!("a"), json!({"namespace": ""})] {
        let reason = refusal(unreadable).await;
        assert_eq!(reason.as_deref(), Some("invalid_request"));
    }
}

#[tokio::test]
async fn a_client_is_in_so_many_rooms_and_no_more() {
    let stage = need!(Stage::new().await);
    let node = stage.node(Duration::ZERO).await;
    let mut client = need!(client(ADMIN, &[&node]).await);
    let room = |number: usize| json!({"task_queue": format!("queue-{number}")});

    for number in 0..MOST_ROOMS {
        joined(&mut client, room(number)).await;
    }
    let more = client.asks("join", room(MOST_ROOMS)).await;
    // It is there already.
    joined(&mut client, room(0)).await;
    let left = client.asks("leave", room(0)).await;

    assert_eq!(more, json!({"ok": false, "reason": "too_many_rooms"}));
    assert_eq!(left, json!({"ok": true}));
    joined(&mut client, room(MOST_ROOMS)).await;
}

#[tokio::test]
async fn a_packet_is_so_large_and_no_larger() {
    let stage = need!(Stage::new().await);
    let node = stage.node(Duration::ZERO).await;
    let mut large = need!(client(ADMIN, &[&node]).await);
    let mut larger = need!(client(ADMIN, &[&node]).await);
    let padded = |bytes: usize| json!({"namespace": "x".repeat(bytes)});

    // With what goes around it.
    let answer = large.asks("join", padded(16 * 1024 - 64)).await;
    larger.sends("join", padded(16 * 1024)).await;

    assert_eq!(answer["reason"], "invalid_request");
    let reason = larger.says("disconnected").await;
    assert_eq!(reason, "transport close");
}

#[tokio::test]
async fn a_client_hears_of_its_rooms_from_all_nodes_and_of_no_other() {
    let stage = need!(Stage::new().await);
    let (one, other) = (
        stage.node(Duration::ZERO).await,
        stage.node(Duration::ZERO).await,
    );
    let first = stage.start(&one, "records.wait", "first", json!([])).await;
    let mut of_run = need!(client(ADMIN, &[&one]).await);
    let mut of_queue = need!(client(ADMIN, &[&other]).await);
    let mut of_namespace = need!(client(ADMIN, &[&other]).await);
    joined(&mut of_run, json!({"run_id": first})).await;
    joined(&mut of_queue, json!({"task_queue": "default"})).await;
    joined(&mut of_namespace, json!({})).await;

    let second = stage.start(&one, "records.wait", "second", json!([])).await;
    stage.go(&other, "first").await;

    for client in [&mut of_queue, &mut of_namespace] {
        let mut heard = Vec::new();
        while heard.last() != Some(&(first.clone(), "closed".to_owned())) {
            let event = client.hears("run").await;
            let text = |name: &str| event[name].as_str().expect("a word").to_owned();
            heard.push((text("run_id"), text("event")));
        }
        let has = |run: &String, event: &str| heard.contains(&(run.clone(), event.to_owned()));
        assert!(has(&second, "started"), "{heard:?}");
        assert!(has(&first, "signalled"), "{heard:?}");
    }
    let closed = loop {
        let event = of_run.hears("run").await;
        assert_eq!(event["run_id"], json!(first), "{event}");
        if event["event"] == "closed" {
            break event;
        }
    };
    let at = closed["at"].as_str().expect("an instant").to_owned();
    assert!(at.ends_with('Z'), "{at}");
    let all = json!({
        "event": "closed", "detail": "completed", "namespace": "default", "task_queue": "default",
        "run_id": first, "workflow_id": "first", "workflow_type": "records.wait", "at": at,
    });
    assert_eq!(closed, all);
}

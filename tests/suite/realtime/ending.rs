//! How a node ends under load: nothing that it accepted is lost, and nothing is left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_core::Name;
use coord_engine::Engine;
use coord_engine::flow::Workflow;
use coord_engine::model::{Namespace, Queue, WorkflowId};
use coord_engine::store::Sqlite;
use coord_fanout::{Message, Queue as _, QueueOptions, StreamQueue};
use coord_lease::Leases;
use coord_tests::wait::eventually;
use coord_tests::{Exit, need};
use reqwest::StatusCode;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
use tokio::task::JoinSet;

use super::{ADMIN, SOON, Stage, client, joined};

const DOUBLE: Workflow<u64, u64> = Workflow::new("records.double");
const CALLERS: usize = 4;
/// How many requests of each caller are answered before the node is told to end, and after.
const EACH: usize = 10;
const MESSAGES: usize = 40;
/// How long activities and messages take: long enough that some are under way at any time.
const STEP: Duration = Duration::from_millis(100);

/// Starts workflows at the first of `urls` that takes requests, until `enough` are accepted in all,
/// and gives the ids of its own.
async fn load(caller: usize, urls: [String; 2], accepted: Arc<[AtomicUsize; 2]>) -> Vec<String> {
    let http = reqwest::Client::new();
    let mut ids = Vec::new();
    let mut at = 0;
    for number in 0.. {
        let id = format!("load-{caller}-{number}");
        let start =
            json!({"workflow_type": "records.double", "workflow_id": id, "input": [number]});
        let request = http.post(format!("{}/api/workflows", urls[at]));
        match request.bearer_auth(ADMIN).json(&start).send().await {
            Ok(response) => {
                assert_eq!(response.status(), StatusCode::CREATED);
                let read = response.bytes().await;
                read.expect("what was accepted is answered to the end");
                ids.push(id);
                let count = accepted[at].fetch_add(1, Ordering::AcqRel) + 1;
                if at == 1 && count >= CALLERS * EACH {
                    return ids;
                }
            }
            // It was not accepted: the node takes no more connections.
            Err(error) => {
                assert!(error.is_connect() && at == 0, "{error:?}");
                at = 1;
            }
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_under_load_loses_nothing_and_leaves_nothing() {
    let stage = need!(Stage::new().await);
    let mut first = stage.node(STEP).await;
    let redis = stage.redis().await;
    let (shift, leases) = (Name::new("shift").expect("a name"), Leases::new(&redis));
    let is_held = || async { leases.inspect(&shift).await.expect("it answers").is_some() };
    eventually(SOON, "it holds the shift", is_held).await;
    first.process.line_starting("scanning", SOON).await;
    let mut second = stage.node(STEP).await;
    let mut moving = need!(client(ADMIN, &[&first, &second]).await);
    joined(&mut moving, json!({})).await;
    let records = Name::new("records").expect("a name");
    let queue = StreamQueue::new(&redis, records, QueueOptions::default());
    let message = |number: usize| {
        let id = Name::new(format!("message-{number}")).expect("a name");
        Message::new(id, "")
    };
    let messages: Vec<_> = (0..MESSAGES).map(message).collect();
    queue.enqueue(&messages).await.expect("enqueued");
    let accepted = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let urls = [first.url.clone(), second.url.clone()];
        callers.spawn(load(caller, urls, Arc::clone(&accepted)));
    }
    let has_begun = || async { accepted[0].load(Ordering::Acquire) >= CALLERS * EACH };
    eventually(SOON, "the first node is under load", has_begun).await;

    let pid = first.process.pid();
    first.process.terminate();
    let exit = first.process.wait(SOON).await.expect("it ends");

    // What it had is free at once, and not when a lease ends.
    assert_eq!(left_behind(&stage, pid).await, (0, 0, "stopped".to_owned()));
    assert_eq!(exit, Exit::Code(0), "{:?}", first.process.stderr());
    assert!(!is_held().await, "the shift is free");
    let all = ["consumer", "ticker", "worker", "lease"];
    let said = || first.process.lines();
    let ended = || async { all.iter().all(|one| said().iter().any(|line| line == one)) };
    eventually(SOON, "all that ran beside it has ended", ended).await;
    // The scan that was under way goes on elsewhere, long before its lease would have ended.
    second.process.line_starting("scanning", SOON).await;
    assert!(!first.process.lines().contains(&"scanned".to_owned()));
    // The client was sent elsewhere, and hears of what goes on there.
    assert_eq!(moving.says("disconnected").await, "transport close");
    assert_eq!(moving.says("connected").await, second.url);
    assert_eq!(moving.hears("answer").await, json!({"ok": true}));
    let last = stage
        .start(&second, "records.double", "last", json!([1]))
        .await;
    while moving.hears("run").await["run_id"] != json!(last) {}
    let ids: Vec<String> = callers.join_all().await.into_iter().flatten().collect();
    assert!(ids.len() >= 2 * CALLERS * EACH);
    let engine = Engine::start(Sqlite::file(stage.path("work.db"))).await;
    let engine = engine.expect("the file is ours");
    let client = engine.client(Namespace::default(), Queue::default());
    for id in &ids {
        let id = WorkflowId::new(id.as_str()).expect("an id");
        let number: u64 = id
            .as_str()
            .rsplit('-')
            .next()
            .expect("a number")
            .parse()
            .expect("one");
        let result = client.handle(DOUBLE, id).result(SOON).await;
        assert_eq!(result.expect("it was accepted"), Some(Ok(number * 2)));
    }
    let handled = || async { effects(&stage).len() == MESSAGES };
    eventually(SOON, "every message was handled", handled).await;
    let once: BTreeSet<_> = effects(&stage).into_iter().collect();
    assert_eq!(once.len(), MESSAGES, "each of them once");
    engine.shutdown().await.expect("it answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cooldown_of_a_finished_tick_outlives_the_node_that_had_it() {
    let stage = need!(Stage::new().await);
    let redis = stage.redis().await;
    let [job, org] = ["sweep", "acme"].map(|name| Name::new(name).expect("a name"));
    let tick = redis.keys().key("cron-fanout", &[&job, &org]);
    std::fs::write(stage.path("effects.go"), "").expect("the folder is ours");
    let mut node = stage.node(STEP).await;
    node.process.line_starting("scanned", SOON).await;
    // The instant is done: what is held from here on is the cooldown.
    let last = tick.part("last_tick");
    let is_finished = || async { exists(&stage, last.as_str()).await };
    eventually(SOON, "the tick is finished", is_finished).await;

    node.process.terminate();
    let exit = node.process.wait(SOON).await;

    assert_eq!(exit, Some(Exit::Code(0)), "{:?}", node.process.stderr());
    assert!(exists(&stage, tick.as_str()).await);
}

async fn exists(stage: &Stage, key: &str) -> bool {
    let answer = stage.redis.command(&["EXISTS", key]).await;
    format!("{:?}", answer.expect("it answers")).contains('1')
}

fn effects(stage: &Stage) -> Vec<String> {
    let text = std::fs::read_to_string(stage.path("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// How many tasks and terms of roles the process has, and what the others know of it.
async fn left_behind(stage: &Stage, pid: u32) -> (i64, i64, String) {
    let mut connection = SqliteConnection::connect(&stage.database())
        .await
        .expect("the file is ours");
    sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM workflow_tasks WHERE lease_owner = instance_id),
                (SELECT COUNT(*) FROM engine_roles WHERE holder = instance_id
                     AND expires_at > unixepoch('subsec') * 1000000), status
         FROM engine_instances WHERE pid = ?",
    )
    .bind(i64::from(pid))
    .fetch_one(&mut connection)
    .await
    .expect("it was there")
}

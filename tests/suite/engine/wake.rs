//! Hints through Redis, and what becomes of them when it is in trouble.

use std::time::{Duration, Instant};

use coord_broadcast::Broadcast;
use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::model::{Namespace, Queue};
use coord_engine::wake::{Health, Redis};
use coord_redis::Config;
use coord_tests::need::Missing;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::nodes::AUDIT;
use super::{SOON, Stage, id};

/// How many workflows are under way in each trouble.
const RECORDS: u64 = 20;

/// One that hears of the nodes through the Redis at `url`.
async fn engine(stage: &Stage, url: &str) -> Engine {
    let config = Config::from_url(url).expect("a url");
    let redis = coord_redis::Redis::connect(config).await;
    let wake = Redis::new(Broadcast::new(&redis.expect("it is there")));
    let engine = Engine::builder(stage.store()).wake(wake).start().await;
    engine.expect("the file is ours")
}

async fn start(client: &Client, from: u64) {
    for record in from..from + RECORDS {
        let started = client.start(AUDIT, id(&record.to_string()), &record).await;
        assert!(started.expect("the database is there").was_created);
    }
}

async fn end_right(client: &Client, from: u64) {
    for record in from..from + RECORDS {
        let handle = client.handle(AUDIT, id(&record.to_string()));
        let sum = handle.result(SOON).await.expect("an answer");
        assert_eq!(sum, Some(Ok(record * 4)), "record {record}");
    }
}

async fn becomes(engine: &Engine, health: Health) {
    let what = format!("hints become {health:?}");
    eventually(SOON, &what, || async { engine.wake_health() == health }).await;
}

/// The shortest time between two looks of a process that relies on hints: what takes less was not
/// found by a look.
const A_LOOK: Duration = Duration::from_secs(4);

#[tokio::test]
async fn hints_pass_through_redis_from_node_to_node() -> Result<(), Missing> {
    let server = RedisServer::start().await?;
    let stage = Stage::new();
    let engine = engine(&stage, &server.url()).await;
    let client = engine.client(Namespace::default(), Queue::default());
    let step = Duration::from_millis(1);
    let _node = stage.node_with(step, Some(&server.url())).await;
    becomes(&engine, Health::Healthy).await;
    // Its first looks are over, and it waits.
    tokio::time::sleep(2 * A_LOOK).await;

    let began = Instant::now();
    start(&client, 0).await;
    end_right(&client, 0).await;

    let took = began.elapsed();
    assert!(took < A_LOOK, "{took:?}");
    Ok(())
}

#[tokio::test]
async fn a_redis_in_trouble_costs_three_nodes_time_and_nothing_else() -> Result<(), Missing> {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await;
    let stage = Stage::new();
    let engine = engine(&stage, &proxy.url()).await;
    let client = engine.client(Namespace::default(), Queue::default());
    let step = Duration::from_millis(10);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(stage.node_with(step, Some(&proxy.url())).await);
    }
    becomes(&engine, Health::Healthy).await;
    let about = [("backend", "redis")];
    recorder().event("engine.wake.restored", &about, SOON).await;

    // Stopped, and going on.
    start(&client, 0).await;
    server.pause().await;
    start(&client, RECORDS).await;
    becomes(&engine, Health::Degraded).await;
    recorder().event("engine.wake.lost", &about, SOON).await;
    end_right(&client, 0).await;
    end_right(&client, RECORDS).await;
    server.resume().await;
    becomes(&engine, Health::Healthy).await;

    // Out of reach, in the middle of work: whatever is sent is swallowed.
    start(&client, 2 * RECORDS).await;
    proxy.hole();
    start(&client, 3 * RECORDS).await;
    becomes(&engine, Health::Degraded).await;
    end_right(&client, 2 * RECORDS).await;
    end_right(&client, 3 * RECORDS).await;
    proxy.heal().await;
    becomes(&engine, Health::Healthy).await;

    // Dead, and back without its data.
    start(&client, 4 * RECORDS).await;
    server.kill().await;
    start(&client, 5 * RECORDS).await;
    becomes(&engine, Health::Degraded).await;
    end_right(&client, 4 * RECORDS).await;
    end_right(&client, 5 * RECORDS).await;
    server.restart().await;
    becomes(&engine, Health::Healthy).await;

    let effects = stage.effects();
    assert_eq!(effects.len() as u64, 6 * RECORDS * 4);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    Ok(())
}

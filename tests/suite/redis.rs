//! Connections, scripts and subscriptions under real faults.

mod blocking;
mod connection;
mod outcome;
mod script;
mod server;
mod shutdown;
mod subscription;
mod topology;

use std::time::Duration;

use coord_core::{Key, Name};
use coord_redis::{Command, Config, Redis, Reply};
use coord_tests::stage;

/// A health check every 200 ms, so that what takes two of them is seen soon.
const PING_INTERVAL: Duration = Duration::from_millis(200);

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

fn config(url: &str) -> Config {
    stage::config(url, &coord_tests::need::unique("redis"))
        .ping_interval(PING_INTERVAL)
        .deadline(Duration::from_secs(1))
}

async fn connect(url: &str) -> Redis {
    connect_within(url, Duration::from_secs(1)).await
}

/// For tests in which no call should run into its deadline, however busy the machine is.
async fn connect_patiently(url: &str) -> Redis {
    connect_within(url, SOON).await
}

async fn connect_within(url: &str, deadline: Duration) -> Redis {
    let config = config(url).deadline(deadline);
    stage::connect(config).await
}

fn key(redis: &Redis, name: &str) -> Key {
    redis
        .keys()
        .key("test", &[&Name::new(name).expect("a valid name")])
}

async fn increment(redis: &Redis, key: &Key) -> coord_core::Result<i64> {
    redis
        .run(&Command::new("INCR").key(key))
        .await
        .and_then(Reply::int)
}

async fn get(redis: &Redis, key: &Key) -> Option<String> {
    let get = Command::new("GET").key(key).idempotent();
    let reply = redis.run(&get).await.expect("the server is there");
    reply.optional().map(|reply| reply.text().expect("text"))
}

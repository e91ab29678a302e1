//! Hints between nodes, through everything that carries them.

#[cfg(feature = "postgres")]
mod database;
mod troubles;
#[cfg(feature = "postgres")]
mod walk;

use std::time::{Duration, Instant};

use coord_core::Env;
use coord_engine::client::Client;
use coord_engine::model::{Namespace, Queue};
use coord_engine::wake::Health;
use coord_engine::{Engine, EngineConfig};
use coord_tests::need;
use coord_tests::servers::{MemcachedServer, NATS_LOGIN, NatsServer, RedisServer};
use coord_tests::wait::eventually;

use super::dispatch::MODE;
use super::nodes::AUDIT;
use super::{SOON, Stage, id};

/// How many workflows are started at a time.
const RECORDS: u64 = 20;

/// The shortest time between two looks of a process that relies on hints: what takes less was not
/// found by a look.
const A_LOOK: Duration = Duration::from_secs(4);

/// What holds of an engine, by names and values.
type Environment = Vec<(String, String)>;

/// The engine of this process, in the same environment as its nodes.
pub(super) async fn engine(environment: &[(String, String)]) -> Engine {
    let env = Env::from_pairs(environment.iter().cloned());
    let config = EngineConfig::from_env(&env).expect("valid");
    config.start().await.expect("the database is there")
}

pub(super) fn client(engine: &Engine) -> Client {
    engine.client(Namespace::default(), Queue::default())
}

pub(super) async fn start(client: &Client, from: u64) {
    for record in from..from + RECORDS {
        let started = client.start(AUDIT, id(&record.to_string()), &record).await;
        assert!(started.expect("the database is there").was_created);
    }
}

pub(super) async fn end_right(client: &Client, from: u64) {
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

/// How long a workflow takes that passes from process to process.
async fn one(client: &Client, record: u64) -> Duration {
    let began = Instant::now();
    let started = client.start(AUDIT, id(&record.to_string()), &record).await;
    let ended = started.expect("started").handle.result(SOON).await;
    assert_eq!(ended.expect("an answer"), Some(Ok(record * 4)));
    began.elapsed()
}

/// A workflow whose steps pass from process to process is done sooner than anybody looks by himself.
async fn hints_pass(hints: &[(&str, &str)]) {
    let stage = Stage::new();
    let told = [(MODE, "poll"), ("COORD_ENGINE_HEARTBEAT", "200ms")];
    let hints: Vec<_> = hints.iter().copied().chain(told).collect();
    let environment = stage.environment(&hints);
    let engine = engine(&environment).await;
    let client = client(&engine);
    let _node = stage.node_in(Duration::from_millis(1), &environment).await;
    becomes(&engine, Health::Healthy).await;

    // A machine may be slow for a while; hints that do not come stay away. One that had to wait for
    // a look ends just after it, so that the next one waits for a whole look.
    one(&client, 0).await;
    let (until, mut record) = (Instant::now() + SOON, 1);
    while one(&client, record).await >= A_LOOK {
        assert!(Instant::now() < until, "each waits for a look");
        record += 1;
    }
    eventually(SOON, "the node found work by hints", || async {
        let snapshot = engine.operator_snapshot().await.expect("read");
        snapshot.fleet.looks_by_hint_with_work > 0
    })
    .await;
}

#[tokio::test]
async fn hints_pass_through_redis_from_node_to_node() {
    let server = need!(RedisServer::start().await);

    hints_pass(&[
        ("CACHE_DRIVER", "redis"),
        ("COORD_REDIS_URL", &server.url()),
    ])
    .await;
}

#[tokio::test]
async fn hints_pass_through_memcached_from_node_to_node() {
    let server = need!(MemcachedServer::start().await);
    let port = server.addr().port().to_string();

    hints_pass(&[("CACHE_DRIVER", "memcached"), ("MEMCACHED_PORT", &port)]).await;
}

#[tokio::test]
async fn hints_pass_through_nats_from_node_to_node() {
    let server = need!(NatsServer::start().await);

    hints_pass(&[("CACHE_DRIVER", "nats"), ("NATS_URL", &server.url())]).await;
}

/// What each of these environments comes to at a NATS that lets in who has the login.
async fn let_in(server: &NatsServer, right: &[&[(&str, &str)]], wrong: &[&[(&str, &str)]]) {
    let (stage, url) = (Stage::new(), server.url());
    let environment = |more: &[(&str, &str)]| {
        let known = [("CACHE_DRIVER", "nats"), ("NATS_URL", url.as_str())];
        let known = known.into_iter().filter(|(name, _)| {
            let is_said = more.iter().any(|(said, _)| said == name);
            !is_said
        });
        stage.environment(&known.chain(more.iter().copied()).collect::<Vec<_>>())
    };
    for right in right {
        becomes(&engine(&environment(right)).await, Health::Healthy).await;
    }
    for wrong in wrong {
        let engine = engine(&environment(wrong)).await;
        let what = "it says that it is not let in, and what names the user";
        eventually(SOON, what, || async {
            let hints = troubles::hints(&engine).await;
            let says = |what: &str| hints.message.contains(what);
            says("through nats") && says("NATS_PASSWORD") && says("NATS_TOKEN") && says("NATS_URL")
        })
        .await;
        assert_eq!(engine.wake_health(), Health::Degraded);
        let report = engine.health().await;
        assert!(report.is_ready());
        assert!(!format!("{report:?}").contains(GUESS));
    }
}

/// What lets nobody in.
const GUESS: &str = "a-guess";

#[tokio::test]
async fn a_nats_that_wants_a_login_gets_it_and_turns_others_away() {
    let server = need!(NatsServer::start_closed().await);
    let (user, password) = NATS_LOGIN;
    let with = |password: &str| format!("nats://{user}:{password}@{}", server.addr());
    let (known, unknown) = (with(password), with(GUESS));

    let_in(
        &server,
        &[
            &[("NATS_USER", user), ("NATS_PASSWORD", password)],
            &[("NATS_URL", &known)],
            // The URL is nearer to the server.
            &[
                ("NATS_URL", &known),
                ("NATS_USER", user),
                ("NATS_PASSWORD", GUESS),
            ],
        ],
        &[
            &[("NATS_USER", user), ("NATS_PASSWORD", GUESS)],
            &[("NATS_URL", &unknown)],
            &[("NATS_TOKEN", GUESS)],
            &[],
        ],
    )
    .await;
}

#[tokio::test]
async fn a_nats_that_wants_a_token_gets_it_and_turns_others_away() {
    let server = need!(NatsServer::start_with_token().await);
    let (_, token) = NATS_LOGIN;

    let_in(
        &server,
        &[&[("NATS_TOKEN", token)]],
        &[&[("NATS_TOKEN", GUESS)], &[]],
    )
    .await;
}

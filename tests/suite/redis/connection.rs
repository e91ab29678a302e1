//! The supervisor: a lost connection is found and replaced without any call.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_redis::{Command, Redis, Reply};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{PING_INTERVAL, SOON, config, connect, increment, key};

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_is_found_and_replaced_without_any_call() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let before = proxy.connections_made();

    proxy.hole();

    eventually(SOON, "the supervisor dials again", || async {
        proxy.connections_made() > before
    })
    .await;
    proxy.heal().await;
    eventually(SOON, "the next call works", || async {
        increment(&redis, &key(&redis, "n")).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_is_found_within_two_ping_intervals() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let before = proxy.connections_made();

    // Counted in intervals of this very client, on the machine as fast as it is now.
    let holed = Instant::now();
    proxy.hole();
    eventually(SOON, "the supervisor dials again", || async {
        proxy.connections_made() > before
    })
    .await;

    let intervals = holed.elapsed().as_secs_f64() / PING_INTERVAL.as_secs_f64();
    assert!(
        intervals < 4.0,
        "two intervals and the slowness of a busy machine, not {intervals}"
    );
    drop(redis);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_replaced_and_the_next_call_works() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let counter = key(&redis, "n");
    assert_eq!(increment(&redis, &counter).await.expect("connected"), 1);

    proxy.cut().await;

    eventually(
        SOON,
        "the call works and was executed once a success",
        || async { increment(&redis, &counter).await.is_ok() },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_unavailable_within_the_deadline_and_found_when_it_is_back() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    server.kill().await;
    let set = Command::new("SET")
        .key(&key(&redis, "a"))
        .arg("1")
        .arg("PX")
        .arg(60_000);
    // The first call may still find the old connection.
    eventually(SOON, "the connection is seen to be gone", || async {
        redis
            .run(&set)
            .await
            .is_err_and(|error| error.kind() == ErrorKind::Unavailable)
    })
    .await;

    let asked = Instant::now();
    let error = redis
        .run_within(&set, Duration::from_millis(300))
        .await
        .expect_err("down");

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        asked.elapsed() >= Duration::from_millis(290),
        "it waits for the supervisor"
    );
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "it does not wait for its attempts"
    );
    server.restart().await;
    eventually(SOON, "the next call works", || async {
        redis.run(&set).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_client_connection_costs_no_later_call() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let counter = key(&redis, "n");

    for _ in 0..5 {
        server
            .command(&["CLIENT", "KILL", "TYPE", "normal"])
            .await
            .expect("permitted");
        eventually(SOON, "a call works", || async {
            increment(&redis, &counter).await.is_ok()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_master_is_left_at_its_first_readonly() {
    let master = need!(RedisServer::start().await);
    let other = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(master.addr()).await;
    let redis = connect(&proxy.url()).await;
    let before = proxy.connections_made();
    let port = other.port().to_string();
    master
        .command(&["REPLICAOF", "127.0.0.1", &port])
        .await
        .expect("permitted");

    let error = increment(&redis, &key(&redis, "n"))
        .await
        .expect_err("it is a replica");

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        proxy.connections_made() > before,
        "the address is resolved and dialed again"
    );
    master
        .command(&["REPLICAOF", "NO", "ONE"])
        .await
        .expect("permitted");
    eventually(SOON, "the call works again", || async {
        increment(&redis, &key(&redis, "n")).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_server_that_loads_its_data_as_long_as_its_deadline() {
    let loading = Duration::from_secs(30);
    let server = need!(RedisServer::builder().loading_for(loading).start().await);
    let redis = connect(&server.url()).await;
    let get = Command::new("GET").key(&key(&redis, "none"));

    // It answers between two keys that it loads, so one call or another goes unanswered.
    eventually(SOON, "it says that it loads", || async {
        let refused = redis.run_within(&get, Duration::from_millis(300)).await;
        refused.is_err_and(|error| {
            error.kind() == ErrorKind::Unavailable && error.message().contains("loading")
        })
    })
    .await;
    let waiting = tokio::spawn({
        let redis = redis.clone();
        async move { redis.run_within(&get, loading).await }
    });
    server.finish_loading().await.expect("it loads");

    let reply = waiting.await.expect("no panic").expect("it waits");
    assert_eq!(reply, Reply::Nil);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_the_address_is_unavailable_and_names_it() {
    let proxy = FaultProxy::start(([127, 0, 0, 1], 1).into()).await;
    proxy.refuse().await;

    let error = Redis::connect(config(&proxy.url()).deadline(Duration::from_millis(200)))
        .await
        .expect_err("nobody is there");

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let causes = coord_core::signals::Detail::error(&error).to_string();
    assert!(causes.contains(&proxy.port().to_string()), "{causes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_wants_no_limit_may_say_so() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::MAX);
    let config = config.connect_timeout(Duration::MAX);
    let redis = Redis::connect(config.ping_interval(Duration::MAX)).await;
    let redis = redis.expect("a server");
    let key = key(&redis, "n");

    let increment = Command::new("INCR").key(&key);
    let shared = redis.run_within(&increment, Duration::MAX).await;
    let apart = redis.run_apart(&increment, Duration::MAX).await;
    let pooled = redis.run_blocking(&increment, Duration::MAX).await;
    let replicated = redis.run_replicated(&increment, 0, Duration::MAX).await;

    assert_eq!(shared.expect("it answers").int().ok(), Some(1));
    assert_eq!(apart.expect("it answers").int().ok(), Some(2));
    assert_eq!(pooled.expect("it answers").int().ok(), Some(3));
    let (reply, confirmed) = replicated.expect("it answers");
    assert_eq!((reply.int().ok(), confirmed), (Some(4), 0));
}

//! Claims that nobody waits for any more leave nothing behind.

use std::time::Duration;

use coord_core::{ErrorKind, Key};
use coord_lease::{Claim, Leases, RemoveResult};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{
    CLEANED_WITHIN, LONG, SOON, ask, claim, config, connect, exists, is_gone_within, leases, name,
    owner, pause, ttl, warm,
};

/// Whether a lease was ever granted, whatever became of it.
async fn was_granted(server: &RedisServer, key: &Key) -> bool {
    exists(server, &coord_lease::format::record(key)).await
}

/// Claims and gives up after that long, whatever has come of it.
async fn claim_for(leases: &Leases, resource: &str, time: Duration) {
    let (resource, owner) = (name(resource), owner("gone"));
    drop(timeout(time, leases.claim(&resource, &owner, ttl(LONG))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_dropped_at_any_moment_is_undone() {
    let server = need!(RedisServer::start().await);
    let redis = connect(config(&server.url())).await;
    let leases = Leases::new(&redis);
    warm(&leases).await;

    for step in 0..60_u64 {
        let resource = format!("r{step}");
        claim_for(&leases, &resource, Duration::from_micros(step * step)).await;
    }

    for step in 0..60 {
        let resource = name(&format!("r{step}"));
        let key = redis.keys().key("lease", &[&resource]);
        is_gone_within(CLEANED_WITHIN, &server, &key).await;
    }
    let monitor = server.monitor().await.expect("up");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = monitor.lines_with("{lease:r").await.expect("up");
    assert!(
        asked.iter().all(|line| line.contains("EXISTS")),
        "{asked:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_dropped_while_the_server_stands_still_are_undone_when_it_goes_on() {
    let server = need!(RedisServer::start().await);
    // A connection that is given up meanwhile takes along what the server has not looked at.
    let redis = connect(config(&server.url()).ping_interval(SOON)).await;
    let leases = Leases::new(&redis);
    warm(&leases).await;
    pause(&server, Duration::from_millis(1200)).await;

    tokio::join!(
        claim_for(&leases, "r0", Duration::from_millis(1)),
        claim_for(&leases, "r1", Duration::from_millis(10)),
        claim_for(&leases, "r2", Duration::from_millis(100)),
        claim_for(&leases, "r3", Duration::from_millis(300)),
    );

    // The server answers this when it goes on.
    ask(&server, &["PING"]).await;
    for resource in ["r0", "r1", "r2", "r3"] {
        let key = redis.keys().key("lease", &[&name(resource)]);
        is_gone_within(CLEANED_WITHIN, &server, &key).await;
        // The shortest two may have been dropped before anything was sent.
        assert!(
            resource < "r2" || was_granted(&server, &key).await,
            "{resource}"
        );
        assert!(claim(&leases, resource, LONG).await.check().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_outlives_its_connection_is_undone_when_the_server_goes_on() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(300));
    let redis = connect(config.ping_interval(Duration::from_millis(200))).await;
    let leases = Leases::new(&redis);
    warm(&leases).await;
    let key = redis.keys().key("lease", &[&name("r")]);
    // The system takes the bytes for the server, which executes them long after the client has
    // given up the connection.
    server.pause().await;

    let claim = leases.claim(&name("r"), &owner("gone"), ttl(LONG)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resume().await;

    assert_eq!(claim.expect_err("paused").kind(), ErrorKind::Timeout);
    eventually(SOON, "it was executed", || was_granted(&server, &key)).await;
    is_gone_within(Duration::from_secs(3), &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_went_out_twice_is_undone_when_the_first_arrives_after_the_release() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let config = config(&proxy.url()).ping_interval(Duration::from_millis(150));
    let leases = leases(&config.deadline(SOON)).await;
    warm(&leases).await;
    let mut underway = proxy.hold_request("{lease:r}");

    // The connection is silent, so it is given up, and the claim sent again.
    let lease = claim(&leases, "r", LONG).await;
    underway.reached().await;
    let (key, fence) = (lease.key().clone(), lease.fence());
    assert_eq!(lease.release().await, RemoveResult::Removed);
    underway.release();

    let record = coord_lease::format::record(&key);
    eventually(SOON, "the first attempt is executed", || async {
        let record = ask(&server, &["GET", record.as_str()]).await;
        !record.starts_with(&fence.to_string())
    })
    .await;
    is_gone_within(Duration::from_secs(3), &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_timed_out_does_not_hold_up_the_next() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(500));
    let leases = leases(&config.ping_interval(SOON)).await;
    warm(&leases).await;
    pause(&server, Duration::from_millis(1200)).await;

    let first = leases.claim(&name("r"), &owner("test"), ttl(LONG)).await;
    ask(&server, &["PING"]).await;

    assert_eq!(first.expect_err("paused").kind(), ErrorKind::Timeout);
    eventually(CLEANED_WITHIN, "the next one has it", || async {
        let next = leases.claim(&name("r"), &owner("next"), ttl(LONG)).await;
        matches!(next, Ok(Claim::Claimed(_)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_executed_and_whose_connection_is_gone_is_undone() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(config(&proxy.url()).deadline(Duration::from_millis(400))).await;
    let leases = Leases::new(&redis);
    warm(&leases).await;
    let key = redis.keys().key("lease", &[&name("r")]);
    let lost = proxy.lose_reply_to("{lease:r}");
    proxy.refuse().await;

    let claim = leases.claim(&name("r"), &owner("gone"), ttl(LONG)).await;
    lost.await;

    assert_eq!(claim.expect_err("cut").kind(), ErrorKind::Timeout);
    assert!(exists(&server, &key).await, "it was executed");
    proxy.heal().await;
    // The client dials anew within its backoff of two seconds.
    is_gone_within(Duration::from_secs(4), &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_claim_that_is_dropped_without_an_answer_is_undone() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(200));
    let redis = connect(config.ping_interval(SOON)).await;
    let leases = Leases::new(&redis);
    warm(&leases).await;
    let mut pending = leases.prepare(&name("r"), &owner("gone"), ttl(LONG));
    let key = redis.keys().key("lease", &[&name("r")]);
    pause(&server, Duration::from_millis(600)).await;

    let unknown = pending.claim().await.expect_err("paused");
    drop(pending);

    assert_eq!(unknown.kind(), ErrorKind::Timeout);
    ask(&server, &["PING"]).await;
    is_gone_within(CLEANED_WITHIN, &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_undone_also_when_its_runtime_ends() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url());
    let start = || {
        let (config, runtime) = (config.clone(), Runtime::new().expect("a runtime"));
        let redis = runtime.block_on(async {
            let redis = connect(config).await;
            warm(&Leases::new(&redis)).await;
            redis
        });
        (runtime, redis)
    };
    let (runtime, redis) = on_a_thread(start);
    pause(&server, Duration::from_millis(600)).await;

    on_a_thread(|| {
        let leases = Leases::new(&redis);
        runtime.block_on(claim_for(&leases, "r", Duration::from_millis(100)));
        drop(runtime);
    });

    ask(&server, &["PING"]).await;
    let key = redis.keys().key("lease", &[&name("r")]);
    is_gone_within(Duration::from_secs(3), &server, &key).await;
}

/// Runs what may not run in a runtime.
fn on_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().expect("it does not panic"))
}

//! Renewal: in time, together, through outages, and never against the holder.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_lease::RemoveResult;
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisServer};
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{LONG, SOON, ask, claim, config, connect, leases, pause, pttl, warm};

const RENEW_FAILED: &str = "redis.resource_lease.renew_failed";

/// How often the server ran a script by its digest.
async fn scripts_run(server: &RedisServer) -> u64 {
    let Ok(stats) = server.info("cmdstat_evalsha").await else {
        return 0;
    };
    let calls = stats.split(',').next().expect("calls=n,usec=...");
    let calls = calls.strip_prefix("calls=").expect("calls=n");
    calls.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_its_ttl_for_as_long_as_it_is_held() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", 1500).await;
    let claimed = Instant::now();

    eventually(SOON, "twice its TTL", || async {
        lease.check().expect("it is renewed");
        claimed.elapsed() > Duration::from_secs(3)
    })
    .await;

    assert!(pttl(&server, lease.key()).await > 0);
    assert!(lease.valid_until() > Instant::now());
    assert_eq!(lease.release().await, RemoveResult::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_leases_share_their_renewals() {
    let server = need!(RedisServer::start().await);
    let leases = leases(&config(&server.url()).deadline(SOON)).await;
    let mut held = Vec::new();
    for number in 0..2000 {
        held.push(claim(&leases, &format!("r{number}"), 9000).await);
    }
    let claimed: Vec<_> = held.iter().map(coord_lease::Lease::valid_until).collect();

    let before = scripts_run(&server).await;
    eventually(SOON, "each was renewed", || async {
        let mut leases = held.iter().zip(&claimed);
        leases.all(|(lease, until)| lease.valid_until() > *until)
    })
    .await;
    let calls = scripts_run(&server).await - before;

    assert!(held.iter().all(|lease| lease.check().is_ok()));
    assert!(calls <= 2000 / 20, "{calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shortest_leases_are_renewed_no_faster_than_their_ttl_asks_for() {
    let server = need!(RedisServer::start().await);
    let leases = leases(&config(&server.url())).await;
    warm(&leases).await;

    for millis in [10, 60] {
        let lease = leases
            .claim(&super::name("r"), &super::owner("test"), super::ttl(millis))
            .await;
        let since = Instant::now();
        let before = scripts_run(&server).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        let calls = scripts_run(&server).await - before;

        // A third of the TTL less an eighth of it, and once more for the edges.
        let passed = u64::try_from(since.elapsed().as_millis()).expect("a moment");
        assert!(
            calls <= passed * 5 / millis + 2,
            "{calls} in {passed} ms of {millis} ms"
        );
        drop(lease);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_two_seconds_does_not_cost_a_lease_of_ten() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    let lease = claim(&leases, "r", 10_000).await;
    let fence = lease.fence();
    eventually(SOON, "a renewal is near", || async {
        lease.valid_until() - Instant::now() < Duration::from_millis(6800)
    })
    .await;

    proxy.refuse().await;
    proxy.cut().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    lease.check().expect("it has seconds left");
    proxy.heal().await;

    eventually(SOON, "it is renewed again", || async {
        lease.valid_until() - Instant::now() > Duration::from_secs(9)
    })
    .await;
    assert!(lease.check().is_ok());
    assert_eq!(lease.fence(), fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_is_not_answered_leaves_the_key_and_the_trust_as_they_were() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(200));
    let leases = leases(&config.ping_interval(SOON)).await;
    let lease = claim(&leases, "r", LONG).await;
    lease.renew().await.expect("up");
    let (value, until) = (
        ask(&server, &["GET", lease.key().as_str()]).await,
        lease.valid_until(),
    );
    pause(&server, Duration::from_millis(700)).await;

    let failed = lease.renew().await.expect_err("paused");

    assert_eq!(failed.kind(), ErrorKind::Timeout);
    assert_eq!(lease.valid_until(), until);
    assert!(lease.check().is_ok());
    assert_eq!(ask(&server, &["GET", lease.key().as_str()]).await, value);
    eventually(SOON, "the next one succeeds", || async {
        lease.renew().await.is_ok()
    })
    .await;
    assert!(lease.valid_until() > until);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_renewal_that_fails_is_reported_and_repeated() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url()).deadline(Duration::from_millis(200))).await;
    let lease = claim(&leases, "r", 3000).await;
    let until = lease.valid_until();
    let address = format!(":{}", proxy.port());

    proxy.hole();
    eventually(SOON, "a renewal failed", || async {
        let failed = recorder().seen(RENEW_FAILED, &[("leases", "1")]);
        let mut errors = failed.iter().filter_map(|event| event.field("error"));
        errors.any(|error| error.contains(&address))
    })
    .await;
    proxy.heal().await;

    eventually(SOON, "another succeeded", || async {
        lease.valid_until() > until
    })
    .await;
    assert!(lease.check().is_ok());
}

#[tokio::test]
async fn a_runtime_that_is_busy_does_not_hold_up_renewals() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", 1500).await;

    // The only thread of this runtime.
    std::thread::sleep(Duration::from_secs(3));

    lease.check().expect("it was renewed meanwhile");
    assert!(pttl(&server, lease.key()).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", 2400).await;
    let until = lease.valid_until();

    let flush = ["SCRIPT", "FLUSH"];
    server.everywhere(&flush).await.expect("all are there");
    eventually(SOON, "it is renewed", || async {
        lease.valid_until() > until
    })
    .await;
    server.everywhere(&flush).await.expect("all are there");

    assert_eq!(lease.release().await, RemoveResult::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_renewed_after_a_release() {
    let server = need!(RedisServer::start().await);
    let leases = leases(&config(&server.url())).await;
    let (released, dropped) = (
        claim(&leases, "released", 300).await,
        claim(&leases, "dropped", 300).await,
    );
    let keys = [released.key().clone(), dropped.key().clone()];
    let _ = released.release().await;
    drop(dropped);
    super::is_gone_within(SOON, &server, &keys[1]).await;

    let monitor = server.monitor().await.expect("up");
    tokio::time::sleep(Duration::from_millis(400)).await;

    for key in keys {
        let asked = monitor.lines_with(key.as_str()).await.expect("up");
        assert_eq!(asked, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_nobody_uses_any_more_closes_its_connections() {
    let server = need!(RedisServer::start().await);
    let redis = connect(config(&server.url())).await;
    let leases = coord_lease::Leases::new(&redis);
    let lease = claim(&leases, "r", LONG).await;
    let clients = || async {
        let list = ask(&server, &["CLIENT", "LIST"]).await;
        list.matches("name=coord-").count()
    };
    assert!(clients().await > 0);

    let key = lease.key().clone();
    drop((redis, leases, lease));

    eventually(SOON, "all are closed", || async { clients().await == 0 }).await;
    assert!(!super::exists(&server, &key).await, "it was released first");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_leases_of_a_client_share_one_renewal() {
    let redis = connect(config(&need!(shared_redis_url().await))).await;
    let (one, other) = (
        coord_lease::Leases::new(&redis),
        coord_lease::Leases::new(&redis),
    );

    let first = claim(&one, "a", 2400).await;
    let second = claim(&other, "b", 2400).await;
    drop((one, other));

    let until = first.valid_until().max(second.valid_until());
    eventually(SOON, "both are renewed", || async {
        first.valid_until().min(second.valid_until()) > until
    })
    .await;
}

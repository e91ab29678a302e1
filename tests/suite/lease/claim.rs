//! What a claim finds, and what its retry finds.

use std::time::{Duration, SystemTime};

use coord_core::{ErrorKind, FencingToken};
use coord_lease::Claim;
use coord_tests::need;
use coord_tests::need::{shared_redis_url, unique};
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisServer};
use tokio::time::Instant;

use super::{
    LONG, SOON, ask, claim, claimed, config, connect, leases, name, owner, pause, ttl, warm,
};

/// The fence that the server has stored under a key.
async fn stored_fence(server: impl Into<Deployment>, key: &str) -> FencingToken {
    let value = ask(server, &["GET", key]).await;
    let (_, fence) = value.split_once(':').expect("token:fence");
    fence.parse().expect("a fence")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_claim_finds_who_holds_the_resource() {
    let config = config(&need!(shared_redis_url().await));
    let (mine, theirs) = (leases(&config).await, leases(&config).await);
    let first = owner("first").with("version", "7").expect("short");

    let before = SystemTime::UNIX_EPOCH;
    let claimed = mine.claim(&name("r"), &first, ttl(LONG)).await;
    let lease = claimed.expect("up").claimed().expect("free");
    let found = theirs.claim(&name("r"), &owner("second"), ttl(LONG)).await;

    let holder = found.expect("up").held().expect("held");
    assert_eq!(holder.fence, lease.fence());
    assert!(holder.remaining <= Duration::from_millis(LONG));
    assert!(holder.remaining > Duration::from_millis(LONG - 20_000));
    let record = holder.record.expect("its record is there");
    assert_eq!(record.owner, first);
    assert_eq!(record.owner.pid(), std::process::id());
    assert_eq!(record.owner.metadata()["version"], "7");
    assert!(record.since > before + Duration::from_secs(1_600_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_an_owner_does_not_make_a_lease_its_own() {
    let config = config(&need!(shared_redis_url().await));
    let (before, after) = (leases(&config).await, leases(&config).await);
    let same = owner("node-1");

    let first = before.claim(&name("r"), &same, ttl(LONG)).await;
    let _lease = first.expect("up").claimed().expect("free");
    let second = after.claim(&name("r"), &same, ttl(LONG)).await;

    assert!(matches!(second, Ok(Claim::Held(_))), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grant_of_a_resource_has_a_larger_fence() {
    let config = config(&need!(shared_redis_url().await));
    let leases = leases(&config).await;

    let mut fences = Vec::new();
    for _ in 0..5 {
        let lease = claim(&leases, "r", LONG).await;
        fences.push(lease.fence());
        let _ = lease.release().await;
    }

    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_is_larger_than_one_that_was_lost_with_all_data() {
    let server = need!(RedisServer::start().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", LONG).await;
    let before = lease.fence();
    ask(&server, &["FLUSHALL"]).await;

    let after = claim(&leases, "r", LONG).await.fence();

    assert!(after > before, "{after} after {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_is_larger_than_the_last_when_the_clock_of_the_server_went_back() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = coord_lease::Leases::new(&redis);
    let key = redis.keys().key("lease", &[&name("r")]);
    let record = coord_lease::format::record(&key);
    let (ahead, owner) = (8_000_000_000_000_000_u64, owner("before").encode());
    let stored = format!("{ahead}:1:{owner}");
    ask(&server, &["SET", record.as_str(), &stored, "PX", "60000"]).await;

    let lease = claim(&leases, "r", LONG).await;

    assert_eq!(lease.fence().get(), ahead + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_was_lost_is_made_again_with_its_token_and_keeps_its_fence() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    warm(&leases).await;
    let lost = proxy.lose_reply_to("{lease:r}");

    let lease = claim(&leases, "r", LONG).await;

    lost.await;
    let key = lease.key().as_str();
    assert_eq!(stored_fence(&server, key).await, lease.fence());
    let record = ask(&server, &["GET", &format!("{key}:record")]).await;
    assert!(record.starts_with(&format!("{}:", lease.fence())));
    assert!(lease.check().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_unknown_outcome_can_be_made_again_and_finds_itself() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(200));
    let leases = leases(&config.ping_interval(SOON)).await;
    warm(&leases).await;
    let mut pending = leases.prepare(&name("r"), &owner("test"), ttl(LONG));
    pause(&server, Duration::from_millis(500)).await;

    let first = pending.claim().await.expect_err("paused");
    let lease = claimed(&mut pending).await;

    assert_eq!(first.kind(), ErrorKind::Timeout);
    let fence = stored_fence(&server, lease.key().as_str()).await;
    assert_eq!(fence, lease.fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_a_server_is_unavailable_and_not_a_claim() {
    let server = need!(RedisServer::start().await);
    let config = config(&server.url()).deadline(Duration::from_millis(300));
    let leases = leases(&config).await;
    server.kill().await;

    let started = Instant::now();
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let claim = leases.claim(&name("r"), &owner("test"), ttl(LONG)).await;
        kinds.push(claim.expect_err("down").kind());
    }

    assert_eq!(kinds[2], ErrorKind::Unavailable, "{kinds:?}");
    assert!(started.elapsed() < Duration::from_secs(3));
    let fields = [("operation", "claim"), ("cause", "unavailable")];
    let unavailable = "redis.resource_lease.unavailable";
    recorder().event(unavailable, &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_killed_process_is_free_after_its_ttl_and_not_before() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = coord_lease::Leases::new(&redis);
    let resource = name(&unique("r"));
    let key = redis.keys().key("lease", &[&resource]);
    let left = format!("{}:17", "0".repeat(32));
    let died = Instant::now();
    ask(&server, &["SET", key.as_str(), &left, "PX", "600"]).await;

    let mut pending = leases.prepare(&resource, &owner("next"), ttl(LONG));
    let found = pending.claim().await.expect("up").held().expect("held");
    let lease = claimed(&mut pending).await;

    assert_eq!((found.fence.get(), found.record), (17, None));
    assert!(found.remaining <= Duration::from_millis(600));
    assert!(died.elapsed() >= Duration::from_millis(599));
    assert!(lease.fence().get() > 17);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_after_the_lease_could_have_ended_is_no_claim() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    warm(&leases).await;
    let mut held_up = proxy.hold_reply("{lease:r}");

    let (resource, owner) = (name("r"), owner("test"));
    let claim = leases.claim(&resource, &owner, ttl(100));
    let late = async {
        held_up.reached().await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        held_up.release();
    };
    let (claim, ()) = tokio::join!(claim, late);

    assert_eq!(claim.expect_err("too late").kind(), ErrorKind::Timeout);
}

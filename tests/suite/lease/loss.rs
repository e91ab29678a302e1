//! How a lease is lost, and who learns of it when.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisServer};
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{
    LONG, SOON, ask, claim, claimed, config, exists, is_lost, leases, name, owner, pttl, ttl, warm,
};

/// How much later than its instant a timer may fire on a busy machine.
const TIMER: Duration = Duration::from_millis(250);

const LOST: &str = "redis.resource_lease.lost";

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_key_was_deleted_is_lost_at_the_next_renewal() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", 3000).await;
    let until = lease.valid_until();

    ask(&server, &["DEL", lease.key().as_str()]).await;
    is_lost(&lease).await;

    assert!(Instant::now() < until, "the server said so before the end");
    assert_eq!(lease.check().expect_err("lost").kind(), ErrorKind::Lost);
    let fields = [("cause", "gone"), ("lease", lease.key().as_str())];
    recorder().event(LOST, &fields, SOON).await;
    assert!(!exists(&server, lease.key()).await, "it is not set again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_leaves_the_lease_of_a_successor_as_it_is() {
    let server = need!(Deployment::shared().await);
    let config = config(&server.url());
    let (mine, theirs) = (leases(&config).await, leases(&config).await);
    let lease = claim(&mine, "r", 2400).await;

    ask(&server, &["DEL", lease.key().as_str()]).await;
    let successor = claim(&theirs, "r", LONG).await;
    let value = ask(&server, &["GET", lease.key().as_str()]).await;
    is_lost(&lease).await;

    let fields = [("cause", "taken"), ("lease", lease.key().as_str())];
    recorder().event(LOST, &fields, SOON).await;
    assert_eq!(
        lease.renew().await.expect_err("lost").kind(),
        ErrorKind::Lost
    );
    assert_eq!(ask(&server, &["GET", lease.key().as_str()]).await, value);
    assert!(pttl(&server, lease.key()).await > 2400, "not shortened");
    assert!(successor.fence() > lease.fence());
    assert!(successor.check().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_key_was_overwritten_with_something_else_is_lost_and_that_stays() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", 2400).await;
    let key = lease.key().to_string();

    ask(&server, &["DEL", &key]).await;
    ask(&server, &["LPUSH", &key, "somebody's"]).await;
    is_lost(&lease).await;

    let fields = [("cause", "foreign"), ("lease", &key)];
    recorder().event(LOST, &fields, SOON).await;
    let _ = lease.release().await;
    let stored = ask(&server, &["LRANGE", &key, "0", "-1"]).await;
    assert_eq!(stored, "somebody's");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_a_server_learns_of_its_loss_when_its_time_is_up_and_not_later() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    let lease = claim(&leases, "r", 1000).await;

    proxy.hole();
    let until = lease.valid_until();
    assert!(lease.check().is_ok());
    is_lost(&lease).await;

    let late = Instant::now() - lease.valid_until();
    assert!(late < TIMER, "{late:?} late");
    assert!(lease.valid_until() <= until + Duration::from_secs(1));
    assert_eq!(lease.check().expect_err("lost").kind(), ErrorKind::Lost);
    let fields = [("cause", "expired"), ("lease", lease.key().as_str())];
    recorder().event(LOST, &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_past_its_time_is_told_so_at_its_first_question_and_writes_nothing() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let config = config(&proxy.url()).deadline(Duration::from_millis(100));
    let leases = leases(&config).await;
    let lease = claim(&leases, "r", 300).await;
    proxy.hole();

    std::thread::sleep(Duration::from_millis(700));
    let told = lease.check().expect_err("its time is up");
    let renewed = lease.renew().await.expect_err("its time is up");

    assert_eq!(told.kind(), ErrorKind::Lost);
    assert_eq!(renewed.kind(), ErrorKind::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_nobody_waits_for_is_reported_all_the_same() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    let lease = claim(&leases, "r", 500).await;

    proxy.hole();

    let fields = [("cause", "expired"), ("lease", lease.key().as_str())];
    recorder().event(LOST, &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_renewal_cannot_revive_a_lost_lease() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url()).deadline(SOON).ping_interval(SOON)).await;
    warm(&leases).await;
    let lease = claim(&leases, "r", 2400).await;
    let mut held_up = proxy.hold_reply("{lease:r}");
    held_up.reached().await;
    let left = pttl(&server, lease.key()).await;
    let trusted = lease.valid_until() - Instant::now();
    let trusted = i64::try_from(trusted.as_millis()).expect("small");
    assert!(left > trusted + 300, "it was renewed there: {left} ms");

    is_lost(&lease).await;
    let other = claim(&leases, "other", 2400).await;
    let until = other.valid_until();
    held_up.release();
    // Its renewal follows the one that was held up.
    eventually(SOON, "the other is renewed", || async {
        other.valid_until() > until
    })
    .await;

    assert_eq!(lease.check().expect_err("lost").kind(), ErrorKind::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_one_of_two_owners_may_trust_its_lease() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let near = config(&server.url());
    // The same space, through the proxy.
    let far = coord_redis::Config::from_url(&proxy.url())
        .expect("a valid URL")
        .prefix("shared-space")
        .expect("a valid prefix");
    let near = near.prefix("shared-space").expect("a valid prefix");
    let (cut_off, waiting) = (leases(&far).await, leases(&near).await);

    for round in 0..3 {
        let lease = claim(&cut_off, "r", 400).await;
        proxy.hole();
        let mut pending = waiting.prepare(&name("r"), &owner("next"), ttl(LONG));
        let next = claimed(&mut pending).await;
        let now = Instant::now();

        assert!(lease.valid_until() <= now, "round {round}");
        assert!(lease.check().is_err(), "round {round}");
        assert!(next.check().is_ok() && next.fence() > lease.fence());
        proxy.heal().await;
        let _ = next.release().await;
    }
}

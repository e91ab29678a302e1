//! What becomes of a lease that is released.

use std::time::Duration;

use coord_core::Key;
use coord_lease::{Lease, RemoveResult};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisServer};
use tokio::time::{Instant, timeout};

use super::{
    CLEANED_WITHIN, LONG, SOON, ask, claim, config, connect, exists, is_gone_within, leases, pttl,
    warm,
};

const LOST: &str = "redis.resource_lease.lost";

#[tokio::test(flavor = "multi_thread")]
async fn a_released_lease_is_removed_and_free_at_once() {
    let config = config(&need!(shared_redis_url().await));
    let (mine, theirs) = (leases(&config).await, leases(&config).await);
    let lease = claim(&mine, "r", LONG).await;
    let fence = lease.fence();

    let result = lease.release().await;

    assert_eq!(result, RemoveResult::Removed);
    assert!(claim(&theirs, "r", LONG).await.fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_lease_that_is_gone_says_so_and_reports_the_loss() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", LONG).await;
    let key = lease.key().clone();
    ask(&server, &["DEL", key.as_str()]).await;

    let result = lease.release().await;

    assert_eq!(result, RemoveResult::NotFound);
    let fields = [("cause", "gone"), ("lease", key.as_str())];
    recorder().event(LOST, &fields, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_lease_that_another_has_names_the_other_and_leaves_it_there() {
    let server = need!(Deployment::shared().await);
    let config = config(&server.url());
    let (mine, theirs) = (leases(&config).await, leases(&config).await);
    let lease = claim(&mine, "r", LONG).await;
    ask(&server, &["DEL", lease.key().as_str()]).await;
    let successor = claim(&theirs, "r", LONG).await;

    let result = lease.release().await;

    let RemoveResult::NotOwner { holder } = result else {
        panic!("{result:?}")
    };
    let holder = holder.expect("it is a lease");
    assert_eq!(holder.fence, successor.fence());
    assert_eq!(holder.owner().expect("recorded").name().as_str(), "test");
    successor.renew().await.expect("it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_what_is_no_lease_touches_nothing() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", LONG).await;
    let key = lease.key().clone();
    ask(&server, &["SET", key.as_str(), "somebody's"]).await;

    let result = lease.release().await;

    assert_eq!(result, RemoveResult::NotOwner { holder: None });
    assert_eq!(ask(&server, &["GET", key.as_str()]).await, "somebody's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_an_answer_is_unknown_raises_the_alarm_and_is_done_later() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let config = config(&proxy.url()).deadline(Duration::from_millis(300));
    let leases = leases(&config.ping_interval(Duration::from_millis(200))).await;
    let lease = claim(&leases, "r", LONG).await;
    let key = lease.key().clone();
    proxy.hole();

    let started = Instant::now();
    let result = lease.release().await;

    assert_eq!(result, RemoveResult::Unknown);
    assert!(started.elapsed() < Duration::from_secs(2));
    let failed = "redis.resource_lease.remove_failed";
    let fields = [("lease", key.as_str())];
    recorder().event(failed, &fields, SOON).await;
    assert!(exists(&server, &key).await);
    proxy.heal().await;
    is_gone_within(SOON, &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_reply_was_lost_has_removed_the_lease() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let leases = leases(&config(&proxy.url())).await;
    warm(&leases).await;
    let lease = claim(&leases, "r", LONG).await;
    let key = lease.key().clone();
    let lost = proxy.lose_reply_to("{lease:r}");

    let result = lease.release().await;

    lost.await;
    assert_eq!(result, RemoveResult::Removed);
    let fields = [("lease", key.as_str())];
    assert_eq!(recorder().seen(LOST, &fields), [], "nothing was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_goes_on_when_nobody_waits_for_it_any_more() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;

    for micros in [0, 20, 200, 2000] {
        let lease = claim(&leases, "r", LONG).await;
        let key = lease.key().clone();
        let _ = timeout(Duration::from_micros(micros), lease.release()).await;

        is_gone_within(CLEANED_WITHIN, &server, &key).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_dropped_is_released_also_on_a_thread_without_a_runtime() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let (here, elsewhere) = (
        claim(&leases, "here", LONG).await,
        claim(&leases, "elsewhere", LONG).await,
    );
    let keys = [here.key().clone(), elsewhere.key().clone()];

    drop(here);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(elsewhere));
    });

    for key in keys {
        is_gone_within(CLEANED_WITHIN, &server, &key).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_the_releases_under_way() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = coord_lease::Leases::new(&redis);
    let mut held = Vec::new();
    for number in 0..50 {
        held.push(claim(&leases, &format!("r{number}"), LONG).await);
    }
    let keys: Vec<Key> = held.iter().map(|lease| lease.key().clone()).collect();

    held.drain(..).for_each(drop::<Lease>);
    redis.shutdown(SOON).await.expect("all are released");

    for key in keys {
        assert!(!exists(&server, &key).await, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_released_after_the_shutdown_ends_by_its_ttl() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = coord_lease::Leases::new(&redis);
    let lease = claim(&leases, "r", 800).await;
    let key = lease.key().clone();
    redis.shutdown(SOON).await.expect("nothing is under way");

    let result = lease.release().await;

    assert_eq!(result, RemoveResult::Unknown);
    assert!(pttl(&server, &key).await <= 800);
    is_gone_within(SOON, &server, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_returns_while_the_release_is_under_way_reports_no_loss() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let config = config(&proxy.url()).deadline(SOON).ping_interval(SOON);
    let leases = leases(&config).await;
    warm(&leases).await;
    let lease = claim(&leases, "r", 3000).await;
    // It shares the renewal, which is waited for as long as its answer can help either.
    let _other = claim(&leases, "other", 3800).await;
    let (key, valid_until) = (lease.key().clone(), lease.valid_until());

    let mut renewal = proxy.hold_reply("{lease:r}");
    renewal.reached().await;
    assert!(Instant::now() < valid_until, "the release begins in time");
    let releasing = tokio::spawn(lease.release());
    tokio::time::sleep_until(valid_until + Duration::from_millis(100)).await;
    renewal.release();

    assert_eq!(releasing.await.unwrap(), RemoveResult::Removed);
    let fields = [("lease", key.as_str())];
    assert_eq!(recorder().seen(LOST, &fields), [], "nothing was lost");
}

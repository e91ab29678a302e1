//! What operators see and do.

use coord_core::ErrorKind;
use coord_lease::{Leases, RemoveResult};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::recorder::recorder;
use coord_tests::servers::Deployment;

use super::{LONG, SOON, ask, claim, config, connect, is_lost, leases, name};

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_finds_the_holder_or_nobody() {
    let leases = leases(&config(&need!(shared_redis_url().await))).await;
    assert_eq!(leases.inspect(&name("r")).await.expect("up"), None);
    let lease = claim(&leases, "r", LONG).await;

    let holder = leases.inspect(&name("r")).await.expect("up").expect("held");

    assert_eq!(holder.fence, lease.fence());
    assert_eq!(holder.owner().expect("recorded").name().as_str(), "test");
    let _ = lease.release().await;
    assert_eq!(leases.inspect(&name("r")).await.expect("up"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_held_resources_whose_names_start_so() {
    let leases = leases(&config(&need!(shared_redis_url().await))).await;
    let mut held = Vec::new();
    for resource in ["job*:1", "job*:2", "jobs:3", "other"] {
        held.push(claim(&leases, resource, LONG).await);
    }
    let _ = held.remove(1).release().await;

    let listed = leases.list("job*").await.expect("up");
    let all = leases.list("").await.expect("up");

    let names = |listed: &[(coord_core::Name, _)]| -> Vec<String> {
        let names = listed.iter().map(|(name, _)| name.as_str().to_owned());
        names.collect()
    };
    assert_eq!(names(&listed), ["job*:1"]);
    assert_eq!(listed[0].1.fence, held[0].fence());
    assert_eq!(names(&all), ["job*:1", "jobs:3", "other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_whole_however_many_leases_there_are() {
    let leases = leases(&config(&need!(shared_redis_url().await))).await;
    let mut held = Vec::new();
    for number in 0..600 {
        held.push(claim(&leases, &format!("r{number:03}"), LONG).await);
    }

    let listed = leases.list("r").await.expect("up");

    assert_eq!(listed.len(), 600);
    let fences = |index: usize| (listed[index].1.fence, held[index].fence());
    assert!((0..600).all(|index| fences(index).0 == fences(index).1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_ends_the_lease_that_was_seen_and_is_on_record() {
    let leases = leases(&config(&need!(shared_redis_url().await))).await;
    let lease = claim(&leases, "r", 900).await;
    let (resource, operator) = (name("r"), name("operator"));

    let result = leases.evict(&resource, lease.fence(), &operator).await;

    assert_eq!(result.expect("up"), RemoveResult::Removed);
    let fields = [("by", "operator"), ("lease", lease.key().as_str())];
    let evicted = "redis.resource_lease.evicted";
    recorder().event(evicted, &fields, SOON).await;
    is_lost(&lease).await;
    assert!(claim(&leases, "r", LONG).await.fence() > lease.fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_leaves_a_later_grant_alone() {
    let leases = leases(&config(&need!(shared_redis_url().await))).await;
    let first = claim(&leases, "r", LONG).await;
    let (resource, operator, seen) = (name("r"), name("operator"), first.fence());
    let _ = first.release().await;
    let second = claim(&leases, "r", LONG).await;

    let result = leases.evict(&resource, seen, &operator).await.expect("up");

    assert!(
        matches!(result, RemoveResult::NotOwner { .. }),
        "{result:?}"
    );
    second.renew().await.expect("it is still there");
    let _ = second.release().await;
    let nothing = leases.evict(&resource, seen, &operator).await.expect("up");
    assert_eq!(nothing, RemoveResult::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lease_is_corrupt_to_an_inspection_and_missing_in_a_list() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = Leases::new(&redis);
    let _lease = claim(&leases, "good", LONG).await;
    let key = redis.keys().key("lease", &[&name("bad")]);
    ask(&server, &["LPUSH", key.as_str(), "1"]).await;

    let inspected = leases.inspect(&name("bad")).await.expect_err("a list");
    let listed = leases.list("").await.expect("up");

    assert_eq!(inspected.kind(), ErrorKind::Corrupt);
    assert_eq!(listed.len(), 1);
    let fields = [("operation", "inspect")];
    let foreign = "redis.resource_lease.foreign";
    recorder().event(foreign, &fields, SOON).await;
}

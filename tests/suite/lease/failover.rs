//! Leases behind sentinels whose master dies.

use coord_core::ErrorKind;
use coord_lease::RemoveResult;
use coord_tests::need;
use coord_tests::servers::Sentinel;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{LONG, SOON, claim, claimed, config, is_lost, leases, name, owner, ttl};

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_keeps_what_was_replicated_and_what_was_not_is_granted_again() {
    let group = need!(Sentinel::start().await);
    let config = config(&group.url());
    let (mine, theirs) = (leases(&config).await, leases(&config).await);
    let kept = claim(&mine, "kept", LONG).await;
    group.detach_replicas().await;
    let first = claim(&mine, "r", 15_000).await;

    group.fail_over().await;
    let mut pending = theirs.prepare(&name("r"), &owner("next"), ttl(LONG));
    let second = claimed(&mut pending).await;

    let end = first.valid_until();
    assert!(Instant::now() < end, "before the first one ends");
    assert!(second.fence() > first.fence());
    is_lost(&first).await;
    assert_eq!(first.check().expect_err("lost").kind(), ErrorKind::Lost);
    let released = first.release().await;
    assert!(
        matches!(released, RemoveResult::NotOwner { holder: Some(_) }),
        "{released:?}"
    );
    second.renew().await.expect("it is there");
    assert_eq!(second.release().await, RemoveResult::Removed);
    eventually(SOON, "the replicated one goes on", || async {
        kept.renew().await.is_ok()
    })
    .await;
    assert_eq!(kept.release().await, RemoveResult::Removed);
}

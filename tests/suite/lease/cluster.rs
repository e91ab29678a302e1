//! Leases on a cluster: each in its slot, all renewed.

use coord_core::Name;
use coord_lease::{Lease, RemoveResult};
use coord_tests::need;
use coord_tests::servers::Cluster;
use coord_tests::wait::eventually;

use super::{SOON, claim, config, leases};

#[tokio::test(flavor = "multi_thread")]
async fn leases_on_all_nodes_are_renewed_listed_and_released() {
    let cluster = need!(Cluster::start(3).await);
    let leases = leases(&config(&cluster.url())).await;
    let mut held = Vec::new();
    for number in 0..60 {
        held.push(claim(&leases, &format!("r{number:02}"), 6000).await);
    }
    let claimed: Vec<_> = held.iter().map(Lease::valid_until).collect();

    eventually(SOON, "all are renewed", || async {
        let mut all = held.iter().zip(&claimed);
        all.all(|(lease, until)| lease.valid_until() > *until)
    })
    .await;
    let listed = leases.list("r").await.expect("up");

    let names: Vec<_> = listed.iter().map(|(name, _)| Name::as_str(name)).collect();
    assert_eq!(names.len(), 60);
    assert!(names.is_sorted());
    for lease in held {
        assert_eq!(lease.release().await, RemoveResult::Removed);
    }
    assert_eq!(leases.list("r").await.expect("up"), []);
}

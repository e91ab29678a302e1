//! Resource leases under real faults.

mod abandoned;
mod claim;
mod cluster;
mod failover;
mod loss;
mod operators;
mod release;
mod renewal;
mod storage;

use std::time::Duration;

use coord_core::{Key, Name, Ttl};
use coord_lease::{Claim, Lease, Leases, Owner, Pending};
use coord_redis::Config;
use coord_tests::need::unique;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisServer};
use coord_tests::stage::{self, connect};
use coord_tests::wait::eventually;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// Within this long after a fault ends, nothing of an abandoned claim may be left.
const CLEANED_WITHIN: Duration = Duration::from_secs(1);

/// Longer than any test: what has this TTL ends because somebody ends it.
const LONG: u64 = 60_000;

fn config(url: &str) -> Config {
    // Whoever emits before the recorder is there is not heard.
    recorder();
    stage::config(url, &unique("lease"))
        .ping_interval(Duration::from_millis(500))
        .deadline(Duration::from_secs(1))
}

/// The leases of a client of its own in the space of `config`.
async fn leases(config: &Config) -> Leases {
    Leases::new(&connect(config.clone()).await)
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn owner(text: &str) -> Owner {
    Owner::new(name(text))
}

fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).expect("in range")
}

async fn claim(leases: &Leases, resource: &str, millis: u64) -> Lease {
    let (resource, owner) = (name(resource), owner("test"));
    let claim = leases.claim(&resource, &owner, ttl(millis)).await;
    match claim.expect("the server is there") {
        Claim::Claimed(lease) => lease,
        Claim::Held(holder) => panic!("{resource} is held by {holder:?}"),
    }
}

/// Makes the claim again until it has the lease.
async fn claimed(pending: &mut Pending) -> Lease {
    let claimed = async {
        loop {
            match pending.claim().await {
                Ok(Claim::Claimed(lease)) => return lease,
                Ok(Claim::Held(_)) | Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(SOON, claimed)
        .await
        .expect("it is claimed")
}

/// Waits for the news that the lease is lost.
async fn is_lost(lease: &Lease) {
    let lost = tokio::time::timeout(SOON, lease.lost()).await;
    lost.expect("it is lost");
}

/// Has the server know all scripts, so that the next call of one is a single request.
async fn warm(leases: &Leases) {
    let lease = claim(leases, "warm", LONG).await;
    lease.renew().await.expect("the server is there");
    assert_eq!(lease.release().await, coord_lease::RemoveResult::Removed);
}

async fn ask(server: impl Into<Deployment>, words: &[&str]) -> String {
    let answer = server.into().command(words).await;
    answer.expect("the server is there").text()
}

async fn exists(server: impl Into<Deployment>, key: &Key) -> bool {
    ask(server, &["EXISTS", key.as_str()]).await == "1"
}

async fn pttl(server: impl Into<Deployment>, key: &Key) -> i64 {
    let text = ask(server, &["PTTL", key.as_str()]).await;
    text.parse().expect("a number")
}

async fn is_gone_within(limit: Duration, server: impl Into<Deployment>, key: &Key) {
    let (server, what) = (server.into(), format!("{key} is gone"));
    eventually(limit, &what, || async { !exists(&server, key).await }).await;
}

/// Has the server answer nobody for that long.
async fn pause(server: &RedisServer, time: Duration) {
    let millis = time.as_millis().to_string();
    ask(server, &["CLIENT", "PAUSE", &millis, "ALL"]).await;
}

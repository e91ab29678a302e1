//! What lies in the server: never without a TTL, never somebody else's.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_lease::{Claim, Leases, RemoveResult};
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::servers::{Deployment, RedisServer};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{LONG, SOON, ask, claim, config, connect, leases, name, owner, pttl, ttl, warm};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_ever_without_a_ttl_and_the_record_outlives_the_lease_by_a_day() {
    let server = need!(Deployment::shared().await);
    let prefix = unique("lease");
    let config = config(&server.url()).prefix(&prefix).expect("valid");
    let leases = leases(&config).await;
    let mut work = JoinSet::new();
    for worker in 0..8 {
        let leases = leases.clone();
        work.spawn(async move {
            for round in 0..60 {
                let resource = name(&format!("r{}", (worker + round) % 5));
                let owner = owner(&format!("worker-{worker}"));
                let claim = leases.claim(&resource, &owner, ttl(100 + round)).await;
                // Answered too late on a busy machine, or lost: the keys have a TTL either way.
                if let Ok(Claim::Claimed(lease)) = claim {
                    let _ = lease.renew().await;
                    let _ = lease.release().await;
                }
            }
        });
    }

    let mut seen = 0;
    while !work.is_empty() {
        let keys = server.keys(&prefix).await.expect("up");
        for key in keys {
            let ttl = server.command(&["PTTL", &key]).await.expect("up");
            let ttl = ttl.int().expect("a number");
            assert_ne!(ttl, -1, "{key}");
            if key.ends_with(":record") {
                // A day from the end of its last lease, which was within this test.
                assert!(ttl > DAY_MS - 60_000, "{key}: {ttl}");
            }
            seen += 1;
        }
        while work.try_join_next().is_some() {}
    }
    assert!(seen > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_extends_the_record_too() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "r", LONG).await;
    let record = coord_lease::format::record(lease.key());
    ask(&server, &["PEXPIRE", record.as_str(), "1000"]).await;

    lease.renew().await.expect("up");

    assert!(pttl(&server, &record).await > DAY_MS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_touches_nothing_that_is_no_lease() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = Leases::new(&redis);
    let foreign: [&[&str]; 5] = [
        &["LPUSH", "1"],
        &["SET", "somebody's"],
        &["SET", "abc:17"],
        &["SET", "00000000000000000000000000000000:"],
        &["SET", "00000000000000000000000000000000:1.7e+15"],
    ];

    for (number, words) in foreign.into_iter().enumerate() {
        let resource = name(&format!("r{number}"));
        let key = redis.keys().key("lease", &[&resource]);
        ask(&server, &[words[0], key.as_str(), words[1]]).await;
        let stored = ask(&server, &["DUMP", key.as_str()]).await;

        let claim = leases.claim(&resource, &owner("test"), ttl(LONG)).await;

        assert_eq!(claim.expect_err("foreign").kind(), ErrorKind::Corrupt);
        assert_eq!(ask(&server, &["DUMP", key.as_str()]).await, stored);
        assert_eq!(ask(&server, &["PTTL", key.as_str()]).await, "-1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_touches_no_record_that_is_none() {
    let server = need!(Deployment::shared().await);
    let redis = connect(config(&server.url())).await;
    let leases = Leases::new(&redis);
    let foreign: [&[&str]; 3] = [
        &["LPUSH", "1"],
        &["SET", "somebody's"],
        // No number of Lua can be larger than this one by one.
        &["SET", "9007199254740991:1:{}"],
    ];

    for (number, words) in foreign.into_iter().enumerate() {
        let resource = name(&format!("r{number}"));
        let key = redis.keys().key("lease", &[&resource]);
        let record = coord_lease::format::record(&key);
        ask(&server, &[words[0], record.as_str(), words[1]]).await;

        let claim = leases.claim(&resource, &owner("test"), ttl(LONG)).await;

        assert_eq!(claim.expect_err("foreign").kind(), ErrorKind::Corrupt);
        assert_eq!(ask(&server, &["EXISTS", key.as_str()]).await, "0");
        assert_eq!(ask(&server, &["PTTL", record.as_str()]).await, "-1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_refuses_claims_and_still_renews_and_releases() {
    let server = need!(RedisServer::start().await);
    let leases = leases(&config(&server.url())).await;
    warm(&leases).await;
    let lease = claim(&leases, "r", LONG).await;
    ask(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;

    let refused = leases.claim(&name("s"), &owner("test"), ttl(LONG)).await;
    let until = lease.valid_until();
    let renewed = lease.renew().await;
    let moved = lease.valid_until() > until;
    let result = lease.release().await;

    let refused = refused.expect_err("out of memory");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(renewed.is_ok() && moved, "{renewed:?}");
    assert_eq!(result, RemoveResult::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shortest_and_the_longest_life_are_granted_as_they_are() {
    let server = need!(Deployment::shared().await);
    let leases = leases(&config(&server.url())).await;
    let lease = claim(&leases, "long", 86_400_000).await;
    let before = Instant::now();
    let short = leases.claim(&name("short"), &owner("test"), ttl(10)).await;

    let left = pttl(&server, lease.key()).await;

    assert!((86_400_000 - 10_000..=86_400_000).contains(&left), "{left}");
    // The answer may well have come too late on a busy machine; it is never trusted for longer.
    if let Some(short) = short.ok().and_then(Claim::claimed) {
        assert!(short.valid_until() <= Instant::now() + Duration::from_millis(8));
        assert!(short.valid_until() > before);
        let _ = tokio::time::timeout(SOON, short.lost()).await;
    }
}

//! Locks and leases, and the rates of callers: on a Redis.

use coord_core::{Env, Name, Ttl, Variable};
use coord_lease::{Leases, Owner};
use coord_lock::{LockOptions, Locks};
use coord_ratelimit::{Limit, Limiter, Quota, WithoutRedis};
use coord_redis::{Config, Redis};
use coord_server::Access;
use serde_json::json;

use crate::control_plane::stage::{Place, Stage};

const REDIS: Variable = Variable::new(
    "COORD_TEST_REDIS_URL",
    "redis://127.0.0.1:6379",
    "the Redis of the tests",
);

/// A client with keys of its own.
async fn redis(test: &str) -> Redis {
    let env = Env::process();
    let url = env
        .text(&REDIS)
        .expect("text")
        .unwrap_or(REDIS.default)
        .to_owned();
    let prefix = format!("server-{test}-{}", std::process::id());
    let config = Config::from_url(&url)
        .expect("a url")
        .prefix(&prefix)
        .expect("a prefix");
    Redis::connect(config).await.expect("a Redis")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_shown_and_released_by_its_fence() {
    let redis = redis("locks").await;
    let stage = Stage::with(Place::Memory, Access::open(), |node| {
        node.redis(redis.clone())
    })
    .await;
    let locks = Locks::new(&redis);
    let nobody = stage.get("/api/locks/orders").await;
    assert_eq!((nobody.status, nobody.reason()), (404, "not_held"));
    let lock = locks
        .try_acquire(&name("orders"), &LockOptions::default())
        .await;
    let lock = lock.expect("an answer").acquired().expect("it is free");

    let shown = stage.get("/api/locks/orders").await.body;
    let fence = shown["fence"].as_u64().expect("a number");
    assert_eq!(fence, lock.fence().get());
    let listed = stage.get("/api/locks?prefix=ord").await.body;
    let listed = &listed["locks"][0];
    assert_eq!(
        (&listed["name"], &listed["fence"]),
        (&json!("orders"), &shown["fence"])
    );
    let others = stage.get("/api/locks?prefix=other").await.body;
    assert_eq!(others, json!({"locks": []}));
    let outdated = json!({"fence": fence - 1});
    let outdated = stage
        .post("/api/locks/orders/force-release", outdated)
        .await;
    assert_eq!(
        (outdated.status, outdated.reason()),
        (409, "fence_outdated")
    );
    let none = stage
        .post("/api/locks/orders/force-release", json!({"fence": 0}))
        .await;
    assert_eq!((none.status, none.reason()), (422, "validation_failed"));

    let fence = json!({"fence": fence});
    let released = stage
        .post("/api/locks/orders/force-release", fence.clone())
        .await;
    assert_eq!(
        (released.status, &released.body["outcome"]),
        (200, &json!("released"))
    );
    let again = stage.post("/api/locks/orders/force-release", fence).await;
    assert_eq!(
        (again.status, &again.body["outcome"]),
        (200, &json!("gone"))
    );
    let free = locks
        .try_acquire(&name("orders"), &LockOptions::default())
        .await;
    assert!(free.expect("an answer").acquired().is_some());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_listed_and_released_by_its_fence() {
    let redis = redis("leases").await;
    let stage = Stage::with(Place::Memory, Access::open(), |node| {
        node.redis(redis.clone())
    })
    .await;
    let leases = Leases::new(&redis);
    let ttl = Ttl::new(std::time::Duration::from_mins(1)).expect("a ttl");
    let mut held = Vec::new();
    for resource in ["job-1", "job-2", "other"] {
        let owner = Owner::new(name("tests"));
        let claim = leases.claim(&name(resource), &owner, ttl).await;
        held.push(claim.expect("an answer").claimed().expect("it is free"));
    }

    let listed = stage.get("/api/leases?prefix=job-").await.body;
    let mut names: Vec<_> = listed["leases"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|lease| lease["name"].as_str().expect("a name").to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["job-1", "job-2"]);
    let shown = stage.get("/api/leases/job-1").await.body;
    assert!(
        shown["owner"]
            .as_str()
            .is_some_and(|it| it.starts_with("tests on ")),
        "{shown}"
    );
    let fence = json!({"fence": shown["fence"]});
    let released = stage.post("/api/leases/job-1/force-release", fence).await;
    assert_eq!(released.body["outcome"], "released");
    let gone = stage.get("/api/leases/job-1").await;
    assert_eq!((gone.status, gone.reason()), (404, "not_held"));
    assert_eq!(stage.get("/api/leases/job-2").await.status, 200);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_beyond_its_rate_is_told_when_to_come_back() {
    let redis = redis("rates").await;
    let quota = Quota::per_hour(2).expect("a quota");
    let limit = Limit::sliding_window(name("http"), quota);
    let limiter = Limiter::new(&redis, [limit], WithoutRedis::Deny).expect("a limiter");
    let stage = Stage::with(Place::Memory, Access::open(), |node| node.limiter(limiter)).await;

    for left in [1, 0] {
        let allowed = stage.get("/api/cluster/info").await;
        assert_eq!(allowed.status, 200, "{allowed:?}");
        let standing = allowed.headers["ratelimit"].to_str().expect("text");
        assert!(standing.contains(&format!("r={left}")), "{standing}");
    }
    let denied = stage.get("/api/cluster/info").await;

    assert_eq!((denied.status, denied.reason()), (429, "rate_limited"));
    let after = denied.headers["retry-after"].to_str().expect("text");
    assert!(after.parse::<u64>().is_ok_and(|it| it > 0), "{after}");
    assert!(denied.headers.contains_key("ratelimit-policy"));
    // A load balancer has no token, and no rate.
    assert_eq!(stage.get("/api/health").await.status, 200);
    stage.finish().await;
}

//! `coord locks` and `coord leases`.

use coord_core::{Env, Variable};
use coord_core::{Name, Ttl};
use coord_lease::{Claim, Leases, Owner};
use coord_lock::{LockOptions, Locks};
use coord_redis::{Config, Redis};

use crate::command_line::stage::{Ended, ended, program};

const REDIS: Variable = Variable::new(
    "COORD_TEST_REDIS_URL",
    "redis://127.0.0.1:6379",
    "the Redis of the tests",
);

/// Keys of a test, for this process and for the program.
struct Stage {
    redis: Redis,
    url: String,
    prefix: String,
}

impl Stage {
    async fn new(test: &str) -> Self {
        let env = Env::process();
        let url = env
            .text(&REDIS)
            .expect("text")
            .unwrap_or(REDIS.default)
            .to_owned();
        let prefix = format!("command-line-{test}-{}", std::process::id());
        let config = Config::from_url(&url)
            .expect("a url")
            .prefix(&prefix)
            .expect("a prefix");
        let redis = Redis::connect(config).await.expect("a Redis");
        Self { redis, url, prefix }
    }

    fn coord(&self, words: &[&str]) -> Ended {
        let mut command = program();
        let command = command.args(words).env("COORD_REDIS_URL", &self.url);
        ended(command.env("COORD_REDIS_PREFIX", &self.prefix))
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_shown_with_its_owner_and_released_by_its_fence() {
    let stage = Stage::new("locks").await;
    stage
        .coord(&["locks", "inspect", "orders"])
        .refused(3, &["orders"]);
    let owner = Owner::new(name("packer"));
    let options = LockOptions::default().owner(&owner);
    let lock = Locks::new(&stage.redis)
        .try_acquire(&name("orders"), &options)
        .await;
    let lock = lock.expect("an answer").acquired().expect("it is free");
    let fence = lock.fence().get().to_string();

    let shown = stage
        .coord(&["locks", "inspect", "orders", "--json"])
        .json();
    assert_eq!(shown["fence"].to_string(), fence, "{shown}");
    assert_eq!(shown["owner"]["name"], "packer", "{shown}");
    let listed = stage.coord(&["locks", "list", "--json"]).json();
    assert_eq!(listed["locks"][0]["name"], "orders", "{listed}");
    assert_eq!(listed["locks"][0]["fence"], shown["fence"], "{listed}");
    let others = stage.coord(&["locks", "list", "other", "--json"]).json();
    assert_eq!(others["locks"], serde_json::json!([]));
    let release = |fence: &str| {
        stage.coord(&[
            "locks", "release", "orders", "--fence", fence, "--by", "ann",
        ])
    };
    release("1").refused(6, &["orders", "fencing token"]);
    let released = release(&fence);

    // Who did it stands on standard error, where logs are read.
    assert!(released.err.contains("redis.lock.forced"), "{released:?}");
    assert!(released.err.contains("ann"), "{released:?}");
    released.done();
    stage
        .coord(&["locks", "inspect", "orders"])
        .refused(3, &["orders"]);
    assert_eq!(release(&fence).code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_listed_and_evicted_by_their_fence() {
    let stage = Stage::new("leases").await;
    let leases = Leases::new(&stage.redis);
    let ttl = Ttl::new(std::time::Duration::from_mins(5)).expect("a life");
    let owner = Owner::new(name("node-a"));
    let mut held = Vec::new();
    for resource in ["shard:1", "shard:2", "tick"] {
        let claim = leases.claim(&name(resource), &owner, ttl).await;
        let Claim::Claimed(lease) = claim.expect("an answer") else {
            panic!("{resource} is free");
        };
        held.push(lease);
    }

    let listed = stage.coord(&["leases", "list", "shard:", "--json"]).json();
    let names: Vec<_> = listed["leases"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(names.len(), 2, "{listed}");
    assert_eq!(names[0]["name"], "shard:1", "{listed}");
    let fence = held[0].fence().to_string();
    let evict = [
        "leases", "evict", "shard:1", "--fence", &fence, "--by", "ann",
    ];
    let evicted = stage.coord(&evict);

    assert!(
        evicted.err.contains("redis.resource_lease.evicted"),
        "{evicted:?}"
    );
    evicted.done();
    let table = stage.coord(&["leases", "list"]).done();
    assert!(
        table.contains("shard:2") && !table.contains("shard:1"),
        "{table}"
    );
    assert!(table.contains("node-a"), "{table}");
}

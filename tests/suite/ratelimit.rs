//! Rate limits that hold across instances, on Redis: GCRA, sliding window, fixed window.

mod blocks;
mod decide;
mod http;
mod model;
mod outage;
mod several;
mod storage;
mod topology;
mod wait;

use std::ops::Deref;
use std::time::Duration;

use coord_core::Name;
use coord_ratelimit::{Decision, Limit, Limiter, Quota, Subject, WithoutRedis};
use coord_redis::Redis;
use coord_tests::need::Missing;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::Deployment;
use coord_tests::stage;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(20);

/// How long one call of the clients here may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// So long that nothing comes back while a test runs.
const DAY: Duration = Duration::from_hours(24);

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage(stage::Stage);

/// A stage on a server of its own.
type Alone = stage::Alone<Stage>;

impl From<Deployment> for Stage {
    fn from(redis: Deployment) -> Self {
        Self(stage::Stage::new(redis, "ratelimit"))
    }
}

impl Deref for Stage {
    type Target = stage::Stage;

    fn deref(&self) -> &stage::Stage {
        &self.0
    }
}

/// What only a stage on a server of its own can do.
trait Faults {
    /// A client behind a proxy of its own, to be degraded as `without` says.
    async fn proxied(&self, limit: Limit, without: WithoutRedis) -> (FaultProxy, Limiter);
}

impl Faults for Alone {
    async fn proxied(&self, limit: Limit, without: WithoutRedis) -> (FaultProxy, Limiter) {
        let proxy = self.proxy().await;
        let redis = connect(&proxy.url(), &self.prefix).await;
        let limiter = Limiter::new(&redis, [limit], without).expect("a valid limiter");
        (proxy, limiter)
    }
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        Ok(Self::from(Deployment::shared().await?))
    }

    async fn client(&self) -> Redis {
        connect(&self.redis.url(), &self.prefix).await
    }

    async fn limiter(&self, limits: impl IntoIterator<Item = Limit>) -> Limiter {
        limiter(&self.client().await, limits)
    }

    /// What is stored, by key.
    async fn stored(&self) -> Vec<(String, String)> {
        let mut stored = Vec::new();
        for key in self.keys().await {
            let value = self.ask(&["GET", &key]).await;
            stored.push((key, value));
        }
        stored.sort();
        stored
    }
}

async fn connect(url: &str, prefix: &str) -> Redis {
    let config = stage::config(url, prefix)
        .deadline(DEADLINE)
        .ping_interval(Duration::from_millis(200));
    stage::connect(config).await
}

fn limiter(redis: &Redis, limits: impl IntoIterator<Item = Limit>) -> Limiter {
    Limiter::new(redis, limits, WithoutRedis::Deny).expect("a valid limiter")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn subject(text: &str) -> Subject {
    Subject::new(&name(text))
}

fn quota(permits: u32, period: Duration) -> Quota {
    Quota::new(permits, period).expect("in range")
}

fn gcra(permits: u32, period: Duration) -> Limit {
    Limit::gcra(name("limit"), quota(permits, period), permits).expect("in range")
}

/// The same limit by each algorithm.
fn each_algorithm(permits: u32, period: Duration) -> [Limit; 3] {
    [
        gcra(permits, period),
        Limit::sliding_window(name("limit"), quota(permits, period)),
        Limit::fixed_window(name("limit"), quota(permits, period)),
    ]
}

fn retry_after(decision: &Decision) -> Duration {
    let retry_after = decision.retry_after();
    retry_after.unwrap_or_else(|| panic!("it is denied: {decision:?}"))
}

//! The cache.

mod batch;
mod delete;
mod entries;
mod fault;
mod load;
mod near;
mod nodes;
mod stale;
mod topology;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_cache::{Cache, CacheOptions, Life, LoadError};
use coord_core::{Key, Name};
use coord_redis::Redis;
use coord_tests::need::Missing;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::Deployment;
use coord_tests::stage;
use tokio::sync::Notify;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// How long one call of the clients here may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// How long a placeholder stands without a renewal.
const PLACEHOLDER: Duration = Duration::from_secs(5);

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage(stage::Stage);

/// A stage on a server of its own.
type Alone = stage::Alone<Stage>;

impl From<Deployment> for Stage {
    fn from(redis: Deployment) -> Self {
        Self(stage::Stage::new(redis, "cache"))
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
    /// A cache whose client is behind a proxy of its own.
    async fn proxied(&self, options: CacheOptions) -> (FaultProxy, Cache<String>);
}

impl Faults for Alone {
    async fn proxied(&self, options: CacheOptions) -> (FaultProxy, Cache<String>) {
        let proxy = self.proxy().await;
        let redis = connect(&proxy.url(), &self.prefix).await;
        (proxy, Cache::new(&redis, &users(), options))
    }
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        Ok(Self::from(Deployment::shared().await?))
    }

    async fn client(&self) -> Redis {
        connect(&self.redis.url(), &self.prefix).await
    }

    /// A cache with a client, hence with loads, of its own: as another process has it.
    async fn cache(&self, options: CacheOptions) -> Cache<String> {
        Cache::new(&self.client().await, &users(), options)
    }

    fn key(&self, entry: &str) -> Key {
        self.0.key("cache", &[&users(), &name(entry)])
    }

    async fn pttl(&self, entry: &str) -> i64 {
        self.number(&["PTTL", self.key(entry).as_str()]).await
    }

    async fn exists(&self, entry: &str) -> bool {
        self.ask(&["EXISTS", self.key(entry).as_str()]).await == "1"
    }
}

async fn connect(url: &str, prefix: &str) -> Redis {
    let config = stage::config(url, prefix)
        .deadline(DEADLINE)
        .ping_interval(Duration::from_millis(200));
    stage::connect(config).await
}

fn users() -> Name {
    name("users")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn options() -> CacheOptions {
    CacheOptions::default()
}

fn life(millis: u64) -> Life {
    Life::new(Duration::from_millis(millis)).expect("in range")
}

/// A near cache that only its news empty.
fn near() -> CacheOptions {
    let entries = NonZeroUsize::new(1000).expect("more than none");
    options().near(entries, life(3_600_000))
}

/// The counted loads of one thing, which end when they are let go.
#[derive(Clone, Default)]
struct Loads(Arc<Counters>);

#[derive(Default)]
struct Counters {
    begun: AtomicUsize,
    begin: Notify,
    go: Notify,
}

impl Loads {
    fn begun(&self) -> usize {
        self.0.begun.load(Ordering::SeqCst)
    }

    /// Loads `value` at once.
    fn at_once(
        &self,
        value: &str,
    ) -> impl FnOnce() -> std::future::Ready<Result<String, Infallible>> + Send + use<> {
        let (counters, value) = (Arc::clone(&self.0), value.to_owned());
        move || {
            counters.begun.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(value))
        }
    }

    /// Loads `value` once [`let_go`](Self::let_go) is called.
    fn held(
        &self,
        value: &str,
    ) -> impl FnOnce() -> std::pin::Pin<Box<dyn Future<Output = Result<String, Infallible>> + Send>>
    + Send
    + use<> {
        let (counters, value) = (Arc::clone(&self.0), value.to_owned());
        move || {
            counters.begun.fetch_add(1, Ordering::SeqCst);
            counters.begin.notify_one();
            Box::pin(async move {
                counters.go.notified().await;
                Ok(value)
            })
        }
    }

    /// Waits for a held load to begin.
    async fn begins(&self) {
        let begun = tokio::time::timeout(SOON, self.0.begin.notified()).await;
        begun.expect("a load begins");
    }

    /// Lets one held load end, that which runs now or the next.
    fn let_go(&self) {
        self.0.go.notify_one();
    }
}

fn text(outcome: Result<Option<Arc<String>>, LoadError>) -> String {
    let value = outcome.expect("a value").expect("there is one");
    value.as_str().to_owned()
}

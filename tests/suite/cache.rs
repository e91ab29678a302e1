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
use coord_core::{Key, KeySpace, Name};
use coord_redis::{Config, Redis};
use coord_tests::need::{Missing, unique};
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisBuilder, RedisServer};
use coord_tests::wait::eventually_some;
use tokio::sync::Notify;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// How long one call of the clients here may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// How long a placeholder stands without a renewal.
const PLACEHOLDER: Duration = Duration::from_secs(5);

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage {
    redis: Deployment,
    prefix: String,
}

/// A stage on a server of its own, for tests that break it or the way there, or watch all that it
/// is asked.
struct Alone {
    stage: Stage,
    server: RedisServer,
}

impl Alone {
    async fn new() -> Result<Self, Missing> {
        Self::with(RedisServer::builder()).await
    }

    async fn with(builder: RedisBuilder) -> Result<Self, Missing> {
        let server = builder.start().await?;
        Ok(Self {
            stage: Stage::on(Deployment::from(&server)),
            server,
        })
    }

    /// A cache whose client is behind a proxy of its own.
    async fn proxied(&self, options: CacheOptions) -> (FaultProxy, Cache<String>) {
        let proxy = FaultProxy::start(self.server.addr()).await;
        let redis = connect(&proxy.url(), &self.prefix).await;
        (proxy, Cache::new(&redis, &users(), options))
    }
}

impl Deref for Alone {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        Ok(Self::on(Deployment::shared().await?))
    }

    fn on(redis: Deployment) -> Self {
        recorder();
        Self {
            redis,
            prefix: unique("cache"),
        }
    }

    async fn client(&self) -> Redis {
        connect(&self.redis.url(), &self.prefix).await
    }

    /// A cache with a client, hence with loads, of its own: as another process has it.
    async fn cache(&self, options: CacheOptions) -> Cache<String> {
        Cache::new(&self.client().await, &users(), options)
    }

    fn key(&self, entry: &str) -> Key {
        let keys = KeySpace::new(&self.prefix).expect("a valid prefix");
        keys.key("cache", &[&users(), &name(entry)])
    }

    async fn ask(&self, words: &[&str]) -> String {
        let answer = self.redis.command(words).await;
        answer.expect("the server answers").text()
    }

    async fn pttl(&self, entry: &str) -> i64 {
        let pttl = self.ask(&["PTTL", self.key(entry).as_str()]).await;
        pttl.parse().expect("a number")
    }

    async fn exists(&self, entry: &str) -> bool {
        self.ask(&["EXISTS", self.key(entry).as_str()]).await == "1"
    }
}

async fn connect(url: &str, prefix: &str) -> Redis {
    let config = Config::from_url(url)
        .expect("the harness gives valid URLs")
        .prefix(prefix)
        .expect("a valid prefix")
        .deadline(DEADLINE)
        .ping_interval(Duration::from_millis(200));
    // A busy machine may take longer than a deadline that is meant for calls.
    eventually_some(SOON, "the client is connected", || async {
        Redis::connect(config.clone()).await.ok()
    })
    .await
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

//! Distributed locks.

mod acquire;
mod cancel;
mod chaos;
mod fair;
mod fault;
mod loss;
mod reentry;
mod release;
mod server;
mod topology;
mod wait;

use std::ops::Deref;
use std::time::Duration;

use coord_core::{Key, KeySpace, Name, Ttl};
use coord_lock::{Lock, LockOptions, Locks, Order, TryAcquire};
use coord_redis::{Config, Redis};
use coord_tests::need::{Missing, unique};
use coord_tests::process::{NodeProcess, Program};
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Deployment, RedisBuilder, RedisServer};
use coord_tests::wait::{eventually, eventually_some};

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// How long one call of the clients here may take.
const DEADLINE: Duration = Duration::from_secs(1);

const ORDERS: [Order; 2] = [Order::Any, Order::Fifo];

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage {
    redis: Deployment,
    prefix: String,
}

/// A stage on a server of its own, for tests that break it or the way there.
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

    /// A client behind a proxy of its own.
    async fn proxied(&self) -> (FaultProxy, Locks) {
        let proxy = FaultProxy::start(self.server.addr()).await;
        let locks = self.locks_at(&proxy.url()).await;
        (proxy, locks)
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
            prefix: unique("lock"),
        }
    }

    async fn locks(&self) -> Locks {
        self.locks_at(&self.redis.url()).await
    }

    async fn locks_at(&self, url: &str) -> Locks {
        Locks::new(&connect(url, &self.prefix).await)
    }

    async fn node(&self) -> NodeProcess {
        let node = Program::at(env!("CARGO_BIN_EXE_lock_node"))
            .args([&self.redis.url(), &self.prefix])
            .start();
        let mut node = node.expect("cargo built it");
        node.line_starting("ready", SOON).await;
        node
    }

    fn key(&self) -> Key {
        let keys = KeySpace::new(&self.prefix).expect("a valid prefix");
        keys.key("lock", &[&job()])
    }

    async fn ask(&self, words: &[&str]) -> String {
        let answer = self.redis.command(words).await;
        answer.expect("the server answers").text()
    }

    async fn number(&self, words: &[&str]) -> i64 {
        self.ask(words).await.parse().expect("a number")
    }

    /// All keys of the stage.
    async fn keys(&self) -> Vec<String> {
        let keys = self.redis.keys(&self.prefix).await;
        keys.expect("the server answers")
    }

    /// What is stored of the lock, `token:fence`; empty when nobody has it.
    async fn value(&self) -> String {
        self.ask(&["GET", self.key().as_str()]).await
    }

    async fn pttl(&self) -> i64 {
        self.number(&["PTTL", self.key().as_str()]).await
    }

    /// How many wait: places, and one for all who have none.
    async fn waiting(&self) -> i64 {
        let queue = self.key().part("queue");
        self.number(&["ZCARD", queue.as_str()]).await
    }

    async fn waiting_becomes(&self, count: i64) {
        eventually(SOON, &format!("{count} wait"), || async {
            self.waiting().await == count
        })
        .await;
    }

    /// Neither a lock nor a place in the queue is left, long before a TTL could have ended it.
    async fn is_clean(&self) {
        let (key, places) = (self.key(), self.key().part("places"));
        eventually(Duration::from_secs(5), "nothing is left", || async {
            self.number(&["EXISTS", key.as_str(), places.as_str()])
                .await
                == 0
        })
        .await;
    }
}

async fn connect(url: &str, prefix: &str) -> Redis {
    let config = config(url, prefix).ping_interval(Duration::from_millis(200));
    // A busy machine may take longer than a deadline that is meant for calls.
    eventually_some(SOON, "the client is connected", || async {
        Redis::connect(config.clone()).await.ok()
    })
    .await
}

fn config(url: &str, prefix: &str) -> Config {
    Config::from_url(url)
        .expect("the harness gives valid URLs")
        .prefix(prefix)
        .expect("a valid prefix")
        .deadline(DEADLINE)
}

fn job() -> Name {
    Name::new("job").expect("a valid name")
}

fn ttl_ms(ttl: u64) -> LockOptions {
    LockOptions::default().ttl(Ttl::from_millis(ttl).expect("in range"))
}

fn ordered(order: Order) -> LockOptions {
    LockOptions::default().order(order)
}

/// Takes the lock, which is free.
async fn take(locks: &Locks, options: &LockOptions) -> Lock {
    let attempt = locks.try_acquire(&job(), options).await;
    let attempt = attempt.expect("the server is there");
    attempt.acquired().expect("it is free")
}

fn is_held(attempt: &TryAcquire) -> bool {
    matches!(attempt, TryAcquire::Held(_))
}

//! Distributed locks.

mod acquire;
mod cancel;
mod chaos;
mod fair;
mod fault;
mod list;
mod loss;
mod named;
mod reentry;
mod release;
mod server;
mod topology;
mod wait;

use std::ops::Deref;
use std::time::Duration;

use coord_core::{Key, Name, Ttl};
use coord_lock::{Lock, LockOptions, Locks, Order, TryAcquire};
use coord_redis::{Config, Redis};
use coord_tests::need::Missing;
use coord_tests::process::{NodeProcess, Program};
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::Deployment;
use coord_tests::stage;
use coord_tests::wait::eventually;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(10);

/// How long one call of the clients here may take.
const DEADLINE: Duration = Duration::from_secs(1);

const ORDERS: [Order; 2] = [Order::Any, Order::Fifo];

/// A Redis of any topology, and clients whose keys share a prefix.
struct Stage(stage::Stage);

/// A stage on a server of its own.
type Alone = stage::Alone<Stage>;

impl From<Deployment> for Stage {
    fn from(redis: Deployment) -> Self {
        Self(stage::Stage::new(redis, "lock"))
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
    /// A client behind a proxy of its own.
    async fn proxied(&self) -> (FaultProxy, Locks);
}

impl Faults for Alone {
    async fn proxied(&self) -> (FaultProxy, Locks) {
        let proxy = self.proxy().await;
        let locks = self.locks_at(&proxy.url()).await;
        (proxy, locks)
    }
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        Ok(Self::from(Deployment::shared().await?))
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
        self.0.key("lock", &[&job()])
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
    stage::connect(config).await
}

fn config(url: &str, prefix: &str) -> Config {
    stage::config(url, prefix).deadline(DEADLINE)
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

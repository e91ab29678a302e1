//! The client: connections by purpose, and what runs on them.

mod listen;
mod scan;
mod settle;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Env, Error, ErrorKind, Key, KeySpace, LONGEST_WAIT, Pattern, Result};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::command::{Command, Reply, slot_of};
use crate::config::{Config, Topology};
use crate::lane::Lane;
use crate::server::Server;
use crate::signals::{Kept, Purpose, SIGNALS, Signal};
use crate::subscriber::Subscriber;
use crate::tracking::{Change, Tracker, Tracking};
use crate::upkeep::Upkeep;

/// A client of one Redis: a server, a master behind sentinels, or a cluster.
///
/// Clones share its connections, which are separated by purpose: **command** connections carry
/// all calls, pipelined, and never subscribe; **upkeep** has a thread and a connection of its own
/// for renewals and releases, so that they go on while the caller's runtime is busy; one
/// **subscriber** carries all subscriptions of the process, and one **tracking** connection the news
/// of changed keys; the **blocking** pool (feature
/// `blocking`) takes the calls that occupy a connection. Each is supervised: reconnected by
/// failure, for ever, with capped and jittered backoff.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    config: Arc<Config>,
    server: Server,
    command: Lane,
    apart: Lane,
    subscriber: OnceLock<Subscriber>,
    tracker: OnceLock<Tracker>,
    #[cfg(feature = "blocking")]
    pools: crate::blocking::Pools,
    /// Weak, since what is shared has the client in turn.
    shared: Mutex<HashMap<TypeId, Weak<dyn Any + Send + Sync>>>,
    upkeep: Upkeep,
}

impl Redis {
    /// Connects, and reads the server's kind and version.
    ///
    /// # Errors
    /// `Unavailable` when no connection is there within the configured deadline; `Invalid` for a
    /// password that is refused, a server older than Redis 6.2, TLS settings that cannot work, or
    /// a span of time below 1 ms.
    ///
    /// # Cancel safety
    /// Safe: what was opened is closed.
    pub async fn connect(config: Config) -> Result<Self> {
        coord_core::signals::register(SIGNALS);
        config.check()?;
        #[cfg(feature = "tls")]
        if config.tls {
            crate::tls::install_provider();
        }
        let config = Arc::new(config);
        let deadline = Instant::now() + config.deadline;
        let upkeep = Upkeep::start()?;
        let command = Lane::start(&config, Purpose::Command, &Handle::current());
        let server = probe(&command, &config.topology, deadline).await?;
        let apart = Lane::start(&config, Purpose::Upkeep, upkeep.runtime());
        Ok(Self(Arc::new(Inner {
            #[cfg(feature = "blocking")]
            pools: crate::blocking::Pools::new(&config),
            config,
            server,
            command,
            apart,
            subscriber: OnceLock::new(),
            tracker: OnceLock::new(),
            shared: Mutex::default(),
            upkeep,
        })))
    }

    /// Connects as the environment says; see [`Config::from_env`].
    ///
    /// # Errors
    /// As [`Config::from_env`] and [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Safe: what was opened is closed.
    pub async fn from_env(env: &Env) -> Result<Self> {
        Self::connect(Config::from_env(env)?).await
    }

    /// The space in which all keys of this client lie.
    pub fn keys(&self) -> &KeySpace {
        &self.0.config.keys
    }

    /// What kind of server it is.
    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// How long a call may take when it says nothing else.
    pub fn deadline(&self) -> Duration {
        self.0.config.deadline
    }

    /// The database number, which [`Key::channel`](coord_core::Key::channel) takes.
    pub fn database(&self) -> u32 {
        self.0.config.database
    }

    /// Runs a command within the configured deadline.
    ///
    /// # Errors
    /// `Unavailable` when it was not executed; `Timeout` when it may have been; `Invalid` and
    /// `Corrupt` when the server says that it can never succeed.
    ///
    /// # Cancel safety
    /// Dropping it leaves open whether the command is executed; see [`Receipt`](crate::Receipt).
    pub async fn run(&self, command: &Command) -> Result<Reply> {
        self.run_within(command, self.0.config.deadline).await
    }

    /// Runs a command within `limit`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_within(&self, command: &Command, limit: Duration) -> Result<Reply> {
        let deadline = Instant::now() + limit.min(LONGEST_WAIT);
        self.0.command.run(command, deadline).await
    }

    /// Runs a command within `limit` on the connection of the upkeep thread, which a busy runtime
    /// or a full pipeline of the caller does not hold up. Call it from work given to
    /// [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_apart(&self, command: &Command, limit: Duration) -> Result<Reply> {
        let deadline = Instant::now() + limit.min(LONGEST_WAIT);
        self.0.apart.run(command, deadline).await
    }

    /// Runs `work` on the upkeep thread. [`shutdown`](Self::shutdown) waits for it.
    ///
    /// It may be called from anywhere, also from a `Drop` on a thread without a runtime. Work that
    /// blocks its thread holds up all renewals.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.upkeep.spawn(work);
    }

    /// Runs `work` on the upkeep thread beside what [`shutdown`](Self::shutdown) waits for: a loop
    /// that its owner ends, or that ends with the client.
    pub fn tend(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.upkeep.runtime().spawn(work);
    }

    /// The one `T` of this client: made by the first who asks, gone with the last who has it.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.get(&TypeId::of::<T>()).and_then(Weak::upgrade);
        if let Some(Ok(there)) = there.map(Arc::downcast) {
            return there;
        }
        let first = Arc::new(make());
        let weak = Arc::downgrade(&first);
        all.insert(TypeId::of::<T>(), weak);
        first
    }

    /// Has `changed` told of every change of the keys that match `pattern`, whoever makes it, from
    /// [`Change::Begun`] on, until the returned value is dropped.
    ///
    /// It runs on the upkeep thread, so it must be quick. All that is tracked by this client
    /// shares one connection to each master, which carries no commands (`CLIENT TRACKING` in
    /// broadcasting mode).
    pub fn track(
        &self,
        pattern: &Pattern,
        changed: impl Fn(Change<'_>) + Send + 'static,
    ) -> Tracking {
        let tracker = self
            .0
            .tracker
            .get_or_init(|| Tracker::start(&self.0.config, &self.0.apart, self.0.upkeep.runtime()));
        tracker.track(pattern, Box::new(changed))
    }

    /// Says that the caller keeps `kept` in this Redis; warns by the signal
    /// `redis.server.evicts` when the server may evict it.
    pub fn keeps(&self, kept: Kept) {
        if let Some(policy) = &self.0.server.evicts {
            Signal::ServerEvicts {
                kept,
                policy: Detail::new(policy),
            }
            .emit();
        }
    }

    /// Whether keys of different hash tags may share a call: on anything but a cluster.
    pub fn is_cluster(&self) -> bool {
        self.0.command.cluster().is_some()
    }

    /// By what calls with several keys must be grouped: the cluster's slot of `key`, and nothing
    /// where there is no cluster.
    pub fn slot(&self, key: &Key) -> Option<u16> {
        self.is_cluster().then(|| slot_of(key.hash_tag()))
    }

    /// Runs a command that occupies its connection for up to `block`, such as `XREADGROUP BLOCK`,
    /// on a connection of the pool. Values of megabytes go this way too, with a `block` of zero,
    /// since they would hold up all small calls on the shared connection.
    ///
    /// # Errors
    /// As [`run`](Self::run); `Unavailable` also when the pool has no free connection in time.
    ///
    /// # Cancel safety
    /// Its connection is closed, so that nothing is delivered to nobody; the server may have
    /// executed the command.
    #[cfg(feature = "blocking")]
    pub async fn run_blocking(&self, command: &Command, block: Duration) -> Result<Reply> {
        let deadline = Instant::now() + self.0.config.deadline;
        let address = self.0.command.address(command.slot, deadline).await?;
        self.0
            .pools
            .run(
                &address,
                command,
                block.min(LONGEST_WAIT),
                self.0.config.deadline,
            )
            .await
    }

    /// Runs `write`, then waits until as many `replicas` have confirmed what its connection wrote,
    /// or `within` is over (in whole ms, at least one). Gives the reply, and how many have.
    ///
    /// It takes a connection of the pool, so that no other call waits for a replica.
    ///
    /// # Errors
    /// As [`run_blocking`](Self::run_blocking). Too few replicas are no error.
    ///
    /// # Cancel safety
    /// As [`run_blocking`](Self::run_blocking).
    #[cfg(feature = "blocking")]
    pub async fn run_replicated(
        &self,
        write: &Command,
        replicas: u32,
        within: Duration,
    ) -> Result<(Reply, u32)> {
        let limit = self.0.config.deadline;
        let address = self.0.command.address(write.slot, Instant::now() + limit);
        let address = address.await?;
        self.0
            .pools
            .replicate(&address, write, replicas, within.min(LONGEST_WAIT), limit)
            .await
    }

    /// Ends in order: waits up to `grace` for what runs on the upkeep thread (releases), then
    /// closes the subscriptions, then the connections. Later calls fail with `Unavailable`.
    ///
    /// # Errors
    /// `Timeout` when work was still under way after `grace`; what it would have released ends by
    /// its TTL.
    ///
    /// # Cancel safety
    /// Safe to call again.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        let drained = self.0.upkeep.drained(grace).await;
        self.0.upkeep.close();
        if let Some(subscriber) = self.0.subscriber.get() {
            subscriber.close();
        }
        if let Some(tracker) = self.0.tracker.get() {
            tracker.close();
        }
        self.0.command.close();
        self.0.apart.close();
        #[cfg(feature = "blocking")]
        self.0.pools.close();
        if drained {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Timeout,
                format!("shutdown: releases were still under way after {grace:?}"),
            ))
        }
    }
}

/// Asks the server what it is: by `INFO`, or by `HELLO` where the ACL user may not.
async fn probe(lane: &Lane, place: &Topology, deadline: Instant) -> Result<Server> {
    let info = Command::new("INFO").idempotent();
    let server = match lane.run(&info, deadline).await {
        Ok(info) => Server::from_info(&info.text()?),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            let hello = lane
                .run(&Command::new("HELLO").idempotent(), deadline)
                .await;
            // The first error says which right is missing.
            Server::from_hello(hello.map_err(|_| error)?)
        }
        Err(error) => return Err(error),
    };
    server.map_err(|error| {
        Error::new(
            error.kind(),
            format!("redis at {place}: {}", error.message()),
        )
    })
}

impl fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Redis")
            .field("topology", &self.0.config.topology)
            .finish_non_exhaustive()
    }
}

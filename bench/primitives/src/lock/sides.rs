//! The clients of locks.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{ClaimToken, Key, Name};
use coord_lock::{LockOptions, Locks, Released};
use coord_redis::{Command, Redis, Script};
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use serde::Serialize;

use super::{ROUND, TASKS, TTL_MS};
use crate::Result;
use crate::npm::Npm;
use crate::round::{Driven, drive};
use crate::scripts::{self, LockKeys};
use crate::server::Server;

/// A client of locks.
pub(super) enum Side {
    Ours(Arc<Ours>),
    Scripts(Arc<Scripts>),
    Plain(Arc<Plain>),
    Unfenced(Arc<Unfenced>),
    Rslock(LockManager),
    Redlock,
}

pub(super) struct Ours {
    locks: Locks,
    names: Vec<Name>,
    options: LockOptions,
}

/// The bare client with the scripts of coord-lock.
pub(super) struct Scripts {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    owner: String,
    keys: Vec<LockKeys>,
}

/// The bare client with the least that is a lock: no fence, nobody waits.
pub(super) struct Plain {
    connection: MultiplexedConnection,
    release: String,
    keys: Vec<String>,
}

/// The same by coord-redis.
pub(super) struct Unfenced {
    redis: Redis,
    keys: Vec<Key>,
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

static UNFENCED_RELEASE: Script = Script::new("bench.compare_and_delete", COMPARE_AND_DELETE);

/// The places of the sides.
pub(super) const OURS: usize = 0;
pub(super) const SCRIPTS: usize = 1;
pub(super) const PLAIN: usize = 2;
pub(super) const UNFENCED: usize = 3;
pub(super) const RSLOCK: usize = 4;
pub(super) const REDLOCK: usize = 5;

/// All of them, each in its place.
pub(super) async fn all(server: &Server, nodelay: bool, has_npm: bool) -> Result<Vec<Side>> {
    let most = TASKS.into_iter().max().unwrap_or_default();
    let names = || (0..most).map(|task| format!("own-{task}"));
    let redis = server.coord(nodelay).await?;
    let unfenced = Unfenced {
        keys: names()
            .map(|name| Ok(redis.keys().key("unfenced", &[&Name::new(name)?])))
            .collect::<Result<_>>()?,
        redis: redis.clone(),
    };
    let ours = Ours {
        locks: Locks::new(&redis),
        names: names().map(Name::new).collect::<Result<_, _>>()?,
        options: LockOptions::default(),
    };
    let mut connection = server.plain(nodelay).await?;
    let scripts = Scripts {
        acquire: scripts::load(&mut connection, scripts::ACQUIRE).await?,
        release: scripts::load(&mut connection, scripts::RELEASE).await?,
        connection,
        owner: scripts::owner()?,
        keys: names()
            .map(|name| LockKeys::new("bench-scripts", &name))
            .collect::<Result<_>>()?,
    };
    let plain = Plain {
        connection: server.plain(nodelay).await?,
        release: redis::Script::new(COMPARE_AND_DELETE).get_hash().to_owned(),
        keys: names().map(|name| format!("bench-plain:{name}")).collect(),
    };
    let mut loading = redis::cmd("SCRIPT");
    loading.arg("LOAD").arg(COMPARE_AND_DELETE);
    loading
        .query_async::<()>(&mut plain.connection.clone())
        .await?;
    let mut sides = vec![
        Side::Ours(Arc::new(ours)),
        Side::Scripts(Arc::new(scripts)),
        Side::Plain(Arc::new(plain)),
        Side::Unfenced(Arc::new(unfenced)),
        Side::Rslock(LockManager::from_clients(vec![server.client(nodelay)?])),
    ];
    if has_npm {
        sides.push(Side::Redlock);
    }
    Ok(sides)
}

impl Side {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "coord-lock",
            Self::Scripts(_) => "same scripts",
            Self::Plain(_) => "plain",
            Self::Unfenced(_) => "coord-redis, plain",
            Self::Rslock(_) => "rslock",
            Self::Redlock => "npm redlock",
        }
    }

    /// What it sends: the rest is what scripts call.
    pub(super) fn commands(&self) -> &'static [&'static str] {
        match self {
            Self::Ours(_) | Self::Scripts(_) | Self::Redlock => &["evalsha", "eval"],
            Self::Plain(_) | Self::Unfenced(_) | Self::Rslock(_) => &["set", "evalsha", "eval"],
        }
    }

    pub(super) async fn drive(
        &self,
        server: &Server,
        npm: Option<&Npm>,
        tasks: usize,
    ) -> Result<Driven> {
        match self {
            Self::Ours(ours) => {
                let ours = Arc::clone(ours);
                drive(tasks, ROUND, move |task| {
                    let ours = Arc::clone(&ours);
                    async move { ours.pair(task).await }
                })
                .await
            }
            Self::Scripts(scripts) => {
                let scripts = Arc::clone(scripts);
                drive(tasks, ROUND, move |task| {
                    let scripts = Arc::clone(&scripts);
                    async move { scripts.pair(task).await }
                })
                .await
            }
            Self::Plain(plain) => {
                let plain = Arc::clone(plain);
                drive(tasks, ROUND, move |task| {
                    let plain = Arc::clone(&plain);
                    async move { plain.pair(task).await }
                })
                .await
            }
            Self::Unfenced(unfenced) => {
                let unfenced = Arc::clone(unfenced);
                drive(tasks, ROUND, move |task| {
                    let unfenced = Arc::clone(&unfenced);
                    async move { unfenced.pair(task).await }
                })
                .await
            }
            Self::Rslock(manager) => {
                let manager = manager.clone();
                drive(tasks, ROUND, move |task| {
                    let manager = manager.clone();
                    async move { rslock_pair(&manager, task).await }
                })
                .await
            }
            Self::Redlock => {
                let npm = npm.ok_or("the npm peers are not there")?;
                npm.run(&Redlock {
                    run: "lock",
                    url: server.url(),
                    tasks,
                    ms: ROUND.as_millis(),
                    ttl_ms: TTL_MS,
                })
                .await
            }
        }
    }
}

#[derive(Serialize)]
struct Redlock<'a> {
    run: &'static str,
    url: &'a str,
    tasks: usize,
    ms: u128,
    ttl_ms: u64,
}

impl Ours {
    async fn pair(&self, task: usize) -> Result<()> {
        let wait = Duration::from_secs(5);
        let lock = self
            .locks
            .acquire(&self.names[task], wait, &self.options)
            .await?;
        match lock.release().await? {
            Released::Freed => Ok(()),
            other => Err(format!("coord-lock: released {other:?}").into()),
        }
    }
}

impl Scripts {
    async fn pair(&self, task: usize) -> Result<()> {
        let (mut connection, keys) = (self.connection.clone(), &self.keys[task]);
        let token = ClaimToken::random();
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(3);
        acquire.arg(&keys.lock).arg(&keys.record).arg(&keys.queue);
        acquire
            .arg(token.as_str())
            .arg(TTL_MS)
            .arg(&self.owner)
            .arg("");
        let fence: String = acquire.query_async(&mut connection).await?;
        fence.parse::<u64>()?;
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(4);
        release
            .arg(&keys.lock)
            .arg(&keys.record)
            .arg(&keys.queue)
            .arg(&keys.places);
        release
            .arg(token.as_str())
            .arg(&keys.channel)
            .arg("PUBLISH")
            .arg(1000)
            .arg("token");
        released(release.query_async(&mut connection).await?)
    }
}

impl Plain {
    async fn pair(&self, task: usize) -> Result<()> {
        let (mut connection, key) = (self.connection.clone(), &self.keys[task]);
        let token = ClaimToken::random();
        let mut acquire = redis::cmd("SET");
        acquire
            .arg(key)
            .arg(token.as_str())
            .arg("NX")
            .arg("GET")
            .arg("PX")
            .arg(TTL_MS);
        if acquire
            .query_async::<Option<String>>(&mut connection)
            .await?
            .is_some()
        {
            return Err("plain: the lock is held".into());
        }
        let mut release = redis::cmd("EVALSHA");
        release
            .arg(&self.release)
            .arg(1)
            .arg(key)
            .arg(token.as_str());
        released(release.query_async(&mut connection).await?)
    }
}

impl Unfenced {
    async fn pair(&self, task: usize) -> Result<()> {
        let (key, token) = (&self.keys[task], ClaimToken::random());
        let acquire = Command::new("SET").key(key).arg(token.as_str());
        let acquire = acquire.arg("NX").arg("GET").arg("PX").arg(TTL_MS);
        if self.redis.run(&acquire).await?.optional().is_some() {
            return Err("coord-redis: the lock is held".into());
        }
        let release = UNFENCED_RELEASE.call(&[key]).arg(token.as_str());
        released(self.redis.run(&release).await?.int()?)
    }
}

async fn rslock_pair(manager: &LockManager, task: usize) -> Result<()> {
    let key = format!("bench-rslock:own-{task}");
    let ttl = Duration::from_millis(TTL_MS);
    let guard = manager.acquire(key.as_bytes(), ttl).await?;
    guard.release().await;
    Ok(())
}

fn released(reply: i64) -> Result<()> {
    if reply == 1 {
        Ok(())
    } else {
        Err(format!("a release answered {reply}").into())
    }
}

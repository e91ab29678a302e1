//! Where a suite plays: a Redis, and clients whose keys share a prefix.

use std::ops::Deref;
use std::time::Duration;

use coord_core::{Key, KeySpace, Name};
use coord_redis::{Config, Redis};

use crate::need::{Missing, unique};
use crate::proxy::FaultProxy;
use crate::recorder::recorder;
use crate::servers::{Deployment, RedisBuilder, RedisServer};
use crate::wait::eventually_some;

/// Far above what connecting takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis of any topology, and a prefix that no other test has. Suites build their own on it.
#[derive(Debug)]
pub struct Stage {
    /// The Redis.
    pub redis: Deployment,
    /// What all keys of the stage begin with.
    pub prefix: String,
}

impl Stage {
    /// A stage on `redis`, whose prefix begins with the name of the `suite`.
    pub fn new(redis: Deployment, suite: &str) -> Self {
        // Whoever emits before the recorder is there is not heard.
        recorder();
        Self {
            redis,
            prefix: unique(suite),
        }
    }

    /// The key that the crates make for `names`.
    ///
    /// # Panics
    /// Never: a prefix of a stage is valid.
    pub fn key(&self, kind: &'static str, names: &[&Name]) -> Key {
        let keys = KeySpace::new(&self.prefix).expect("a valid prefix");
        keys.key(kind, names)
    }

    /// What the server answers, as text.
    ///
    /// # Panics
    /// When it refuses the command, or does not answer.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn ask(&self, words: &[&str]) -> String {
        let answer = self.redis.command(words).await;
        answer.expect("the server answers").text()
    }

    /// The number that the server answers.
    ///
    /// # Panics
    /// As [`ask`](Self::ask), and when it is none.
    ///
    /// # Cancel safety
    /// As [`ask`](Self::ask).
    pub async fn number(&self, words: &[&str]) -> i64 {
        self.ask(words).await.parse().expect("a number")
    }

    /// All keys of the stage.
    ///
    /// # Panics
    /// When a server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn keys(&self) -> Vec<String> {
        let keys = self.redis.keys(&self.prefix).await;
        keys.expect("the server answers")
    }
}

/// A suite's stage `S` on a server of its own, for tests that break it or the way there, or look at
/// all that it is asked.
pub struct Alone<S> {
    stage: S,
    /// The server.
    pub server: RedisServer,
}

impl<S: From<Deployment>> Alone<S> {
    /// A stage on a new server.
    ///
    /// # Errors
    /// [`Missing`] where the machine has none.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn new() -> Result<Self, Missing> {
        Self::with(RedisServer::builder()).await
    }

    /// A stage on a new server with settings.
    ///
    /// # Errors
    /// [`Missing`] where the machine has none.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn with(builder: RedisBuilder) -> Result<Self, Missing> {
        let server = builder.start().await?;
        Ok(Self {
            stage: S::from(Deployment::from(&server)),
            server,
        })
    }

    /// A proxy before the server.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn proxy(&self) -> FaultProxy {
        FaultProxy::start(self.server.addr()).await
    }
}

impl<S> Deref for Alone<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stage
    }
}

/// What a client at `url` is told, with its keys under `prefix`.
///
/// # Panics
/// When either is invalid, which none of the harness is.
pub fn config(url: &str, prefix: &str) -> Config {
    Config::from_url(url)
        .expect("the harness gives valid URLs")
        .prefix(prefix)
        .expect("a valid prefix")
}

/// A client. A busy machine may take longer than a deadline that is meant for calls, so it is
/// given several.
///
/// # Panics
/// When it is not connected within twenty seconds.
///
/// # Cancel safety
/// Safe.
pub async fn connect(config: Config) -> Redis {
    eventually_some(PATIENCE, "the client is connected", || async {
        Redis::connect(config.clone()).await.ok()
    })
    .await
}

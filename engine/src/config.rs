//! An engine as the environment says.

mod database;
mod hints;
mod read;
mod report;
#[cfg(test)]
mod tests;
mod variables;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Effective, Env, Result};

use crate::archive::Folder;
use crate::compatibility::Compatibility;
use crate::engine::{Engine, EngineBuilder};
use crate::limits::Limits;
use crate::model::{Namespace, NodeName, Queue};
use crate::quotas::Quotas;
use crate::recovery::Recovery;
use crate::store::Place;
#[cfg(feature = "redis")]
use hints::Mode;
use hints::{Driver, Validation};
use variables as v;

pub use read::LogLevel;
pub use variables::VARIABLES;

/// An engine as the environment says: the database, what carries hints, limits, recovery and
/// retention.
///
/// `docs/CONFIGURATION.md` lists every variable; [`effective`](Self::effective) says what holds of
/// each in this process. A value that cannot hold is refused with the rule that it breaks. What is
/// set and has no effect, be it misspelt or without a counterpart here, is reported when the engine
/// is made, by the signals `engine.config.unknown_variable` and `engine.config.without_effect`.
///
/// ```
/// use coord_core::Env;
/// use coord_engine::EngineConfig;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), coord_core::Error> {
/// // A program says `Env::process()`.
/// let env = Env::from_pairs([("DB_CONNECTION", "sqlite"), ("DB_DATABASE", ":memory:")]);
/// let config = EngineConfig::from_env(&env)?;
/// let engine = config.builder()?.start().await?;
/// let client = engine.client(config.namespace.clone(), config.queue.clone());
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct EngineConfig {
    /// The namespace of clients and workers that are not told another one.
    pub namespace: Namespace,
    /// Whether what this process does for all stays in that namespace.
    pub keeps_to_namespace: bool,
    /// Their queue.
    pub queue: Queue,
    /// What this process is called; `None` for a name of its own at each start.
    pub node: Option<NodeName>,
    /// How much a run may have open, and how large values may be.
    pub limits: Limits,
    /// Which builds go on with which runs.
    pub compatibility: Compatibility,
    /// Whether runs stay with the definition with which they began.
    pub pins: bool,
    /// How much of a queue or a namespace may be under way.
    pub quotas: Quotas,
    /// How soon the others notice that this process is gone.
    pub recovery: Recovery,
    /// Whether this process may be the one that looks after the others.
    pub recovers: bool,
    /// For how long closed runs are kept where their namespace does not say.
    pub retention: Duration,
    /// Into which folder histories of closed runs go, and after how long; `None` when they stay.
    pub archive: Option<(PathBuf, Duration)>,
    /// How long a worker leases a task.
    pub lease: Duration,
    /// How long the lease of a local step is at most; `None` for that of every task.
    pub local_lease: Option<Duration>,
    /// How many runs a worker keeps in memory between their turns.
    pub cached_runs: usize,
    /// For how long a caller waits for the answer to an update who does not say.
    pub update_wait: Duration,
    /// What is logged by a program that sets up a log; the engine itself sets up none.
    pub log_level: LogLevel,
    place: Place,
    is_pooled: bool,
    drivers: Vec<Driver>,
    #[cfg(feature = "redis")]
    mode: Mode,
    validation: Validation,
    #[cfg(feature = "redis")]
    redis: coord_redis::Config,
    env: Env,
}

impl EngineConfig {
    /// What `env` says. Nothing is opened and nothing is emitted, so that a program may set up its
    /// log by what it reads here.
    ///
    /// # Errors
    /// `Invalid`, with the variable, its value and the rule that it breaks; and when nothing says
    /// where the database is.
    pub fn from_env(env: &Env) -> Result<Self> {
        let place = database::place(env)?;
        let drivers = hints::drivers(env, &place)?;
        // A word that is none is refused whether or not there is something to hand tasks over by.
        #[cfg_attr(
            not(feature = "redis"),
            expect(unused_variables, reason = "only Redis hands over")
        )]
        let mode = hints::mode(env)?;
        let recovery = read::recovery(env)?;
        let namespace = read::id(env, &v::NAMESPACE, Namespace::new)?;
        Ok(Self {
            keeps_to_namespace: namespace.is_some(),
            namespace: namespace.unwrap_or_default(),
            queue: read::id(env, &v::QUEUE, Queue::new)?.unwrap_or_default(),
            node: read::id(env, &v::APP_NAME, NodeName::new)?,
            limits: Limits::from_env(env)?,
            compatibility: Compatibility::from_env(env)?,
            pins: env.flag(&v::PIN)?.unwrap_or(true),
            quotas: Quotas::from_env(env)?,
            recovery,
            recovers: read::recovers(env)?,
            retention: read::retention(env)?,
            archive: read::archive(env)?,
            lease: read::lease(env)?,
            local_lease: read::local_lease(env)?,
            cached_runs: read::cached_runs(env)?,
            update_wait: read::update_wait(env)?,
            log_level: read::log_level(env)?,
            place,
            is_pooled: env.flag(&v::DB_POOLER)?.unwrap_or(false),
            drivers,
            #[cfg(feature = "redis")]
            mode,
            validation: hints::validation(env)?,
            #[cfg(feature = "redis")]
            redis: coord_redis::Config::from_env(env)?,
            env: env.clone(),
        })
    }

    /// What holds of every variable that is read here, for people: passwords are hidden.
    pub fn effective(&self) -> Vec<Effective> {
        report::effective(&self.env, &self.drivers)
    }

    /// Where Redis is, for the primitives of a program that uses them beside the engine.
    #[cfg(feature = "redis")]
    pub fn redis(&self) -> &coord_redis::Config {
        &self.redis
    }

    /// The engine to be, for a program that has more to say to it. Nothing is opened yet; what is
    /// set without effect is reported.
    ///
    /// # Errors
    /// `Invalid` when this program was built without what the environment asks for.
    pub fn builder(&self) -> Result<EngineBuilder> {
        report::emit(self);
        let store = if self.is_pooled {
            self.place.open_behind_pooler()?
        } else {
            self.place.open()?
        };
        let builder = EngineBuilder::on(Arc::clone(&store))
            .limits(self.limits)
            .compatibility(self.compatibility.clone())
            .quotas(self.quotas.clone())
            .recovery(self.recovery)
            .retention(self.retention)
            .lease(self.lease)
            .cached_runs(self.cached_runs);
        let builder = if self.keeps_to_namespace {
            builder.namespace(self.namespace.clone())
        } else {
            builder
        };
        let builder = if self.recovers {
            builder
        } else {
            builder.without_recovery()
        };
        let builder = if self.pins {
            builder
        } else {
            builder.without_pins()
        };
        let builder = match &self.archive {
            Some((folder, after)) => builder.archive(Folder::new(folder), *after),
            None => builder,
        };
        let builder = match self.local_lease {
            Some(bound) => builder.local_lease(bound),
            None => builder,
        };
        let builder = match &self.node {
            Some(node) => builder.node(node.clone()),
            None => builder,
        };
        hints::add(self, builder, &store)
    }

    /// The engine, started.
    ///
    /// # Errors
    /// As [`builder`](Self::builder) and [`EngineBuilder::start`].
    ///
    /// # Cancel safety
    /// Safe: migrations happen whole or not at all.
    pub async fn start(&self) -> Result<Engine> {
        self.builder()?.start().await
    }
}

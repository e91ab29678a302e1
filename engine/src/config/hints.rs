//! What carries hints: the drivers that the environment names.

#[cfg(any(feature = "memcached", feature = "nats"))]
mod brokers;

use std::sync::Arc;

use coord_core::{Env, Error, Result};

use super::EngineConfig;
use super::read::refused;
use super::variables::{CACHE_DRIVER, CACHE_MODE, DISPATCH, MULTI_NODE, VALIDATE_CACHE};
use crate::engine::EngineBuilder;
use crate::health::Alone;
use crate::store::{Place, Store};
use crate::wake::Table;

/// A driver by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Driver {
    Redis,
    Memcached,
    Nats,
    Database,
    Notify,
    /// One that reaches no other node: what it is called.
    Alone(&'static str),
}

impl Driver {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "redis" => Self::Redis,
            "memcached" => Self::Memcached,
            "nats" => Self::Nats,
            "database" => Self::Database,
            "notify" | "pg-notify" => Self::Notify,
            "file" => Self::Alone("file"),
            "array" => Self::Alone("array"),
            "none" | "null" => Self::Alone("none"),
            _ => return None,
        })
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Nats => "nats",
            Self::Database => "database",
            Self::Notify => "notify",
            Self::Alone(name) => name,
        }
    }

    /// Whether it carries hints to other nodes.
    pub(super) const fn reaches_others(self) -> bool {
        !matches!(self, Self::Alone(_))
    }
}

/// The drivers that are named, or those that suit what is there.
pub(super) fn drivers(env: &Env, place: &Place) -> Result<Vec<Driver>> {
    const FORM: &str = "one or more of redis, memcached, nats, database, notify, file, array and \
                        none, with commas between";
    let Some(text) = env.text(&CACHE_DRIVER)? else {
        #[cfg(feature = "redis")]
        if coord_redis::Config::is_placed(env)? {
            return Ok(vec![Driver::Redis]);
        }
        return Ok(vec![Driver::Database]);
    };
    let mut drivers = Vec::new();
    for word in text.split(',') {
        let driver = Driver::of(&word.trim().to_ascii_lowercase());
        let driver = driver.ok_or_else(|| refused(env, &CACHE_DRIVER, FORM))?;
        if driver == Driver::Notify && !place.is_postgres() {
            let form = "one without notify: the database is not PostgreSQL";
            return Err(refused(env, &CACHE_DRIVER, form));
        }
        check(driver, env)?;
        if !drivers.contains(&driver) {
            drivers.push(driver);
        }
    }
    Ok(drivers)
}

/// How workers learn of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Hints have all of them look.
    Poll,
    /// Tasks are handed over, where something can carry them.
    Queue,
}

pub(super) fn mode(env: &Env) -> Result<Mode> {
    let Some(word) = env.text(&DISPATCH)? else {
        return Ok(Mode::Queue);
    };
    match word.to_ascii_lowercase().as_str() {
        "queue" => Ok(Mode::Queue),
        "poll" => Ok(Mode::Poll),
        _ => Err(refused(env, &DISPATCH, "poll or queue")),
    }
}

/// Refuses what cannot hold of the servers that `driver` names.
#[cfg_attr(
    not(any(feature = "memcached", feature = "nats")),
    expect(clippy::unnecessary_wraps, reason = "it can fail with these features")
)]
fn check(driver: Driver, env: &Env) -> Result<()> {
    match driver {
        #[cfg(feature = "memcached")]
        Driver::Memcached => brokers::memcached(env).map(drop),
        #[cfg(feature = "nats")]
        Driver::Nats => brokers::nats(env).map(drop),
        _ => {
            _ = env;
            Ok(())
        }
    }
}

/// Gives `builder` what carries hints.
pub(super) fn add(
    config: &EngineConfig,
    mut builder: EngineBuilder,
    store: &Arc<dyn Store>,
) -> Result<EngineBuilder> {
    for driver in &config.drivers {
        builder = match driver {
            Driver::Redis => redis(config, builder)?,
            Driver::Memcached => memcached(config, builder)?,
            Driver::Nats => nats(config, builder)?,
            Driver::Database => builder.wake(Table::on(Arc::clone(store))),
            Driver::Notify => {
                let missing = || {
                    let message = "CACHE_DRIVER is \"notify\", and the database has no such thing";
                    Error::invalid(message)
                };
                builder.wake_by(store.notify().ok_or_else(missing)?)
            }
            Driver::Alone(_) => builder,
        };
    }
    Ok(match alone(&config.drivers) {
        Some(drivers) => builder.alone(Alone {
            drivers,
            is_fault: config.validation.is_said,
        }),
        None => builder,
    })
}

#[cfg(feature = "redis")]
#[expect(clippy::unnecessary_wraps, reason = "it can fail without the feature")]
fn redis(config: &EngineConfig, builder: EngineBuilder) -> Result<EngineBuilder> {
    let at = || config.redis.clone();
    let builder = builder.wake(crate::wake::Redis::at(at()));
    if config.mode == Mode::Queue {
        return Ok(builder.handover(crate::wake::Streams::at(at())));
    }
    Ok(builder)
}

#[cfg(feature = "memcached")]
fn memcached(config: &EngineConfig, builder: EngineBuilder) -> Result<EngineBuilder> {
    Ok(builder.wake(brokers::memcached(&config.env)?))
}

#[cfg(feature = "nats")]
fn nats(config: &EngineConfig, builder: EngineBuilder) -> Result<EngineBuilder> {
    Ok(builder.wake(brokers::nats(&config.env)?))
}

macro_rules! not_built_in {
    ($($feature:literal $name:ident)+) => {$(
        #[cfg(not(feature = $feature))]
        fn $name(_: &EngineConfig, _: EngineBuilder) -> Result<EngineBuilder> {
            Err(Error::invalid(concat!(
                "CACHE_DRIVER is \"", $feature, "\", but this program was built without the feature `",
                $feature, "` of coord-engine"
            )))
        }
    )+};
}

not_built_in! { "redis" redis "memcached" memcached "nats" nats }

/// The drivers, when they reach no other node.
fn alone(drivers: &[Driver]) -> Option<String> {
    let is_alone = !drivers.iter().any(|driver| driver.reaches_others());
    let names: Vec<_> = drivers.iter().map(|driver| driver.as_str()).collect();
    is_alone.then(|| names.join(","))
}

/// Whether it is said that several nodes have nothing that carries hints between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Validation {
    is_said: bool,
}

pub(super) fn validation(env: &Env) -> Result<Validation> {
    const FORM: &str = "fail, warn or silent";
    let is_loud = match env.text(&CACHE_MODE)? {
        None => true,
        Some(word) => match word.to_ascii_lowercase().as_str() {
            "warn" | "fail" => true,
            "silent" => false,
            _ => return Err(refused(env, &CACHE_MODE, FORM)),
        },
    };
    let is_multi = env.flag(&MULTI_NODE)?.unwrap_or(false);
    let is_checked = env.flag(&VALIDATE_CACHE)?.unwrap_or(true);
    Ok(Validation {
        is_said: is_loud && is_multi && is_checked,
    })
}

impl Validation {
    /// The drivers, when they reach no other node and that is to be said.
    pub(super) fn failed(self, drivers: &[Driver]) -> Option<String> {
        alone(drivers).filter(|_| self.is_said)
    }
}

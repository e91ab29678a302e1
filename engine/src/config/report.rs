//! What holds, and what is set without effect.

use coord_core::signals::Detail;
use coord_core::{Effective, Env};

use super::EngineConfig;
use super::hints::{Driver, Mode};
use super::variables::{
    CACHE_DRIVER, DATABASE_URL, DB_CONNECTION, DB_DATABASE, DB_HOST, DB_PASSWORD, DB_PORT,
    DB_USERNAME, DISPATCH, PREFIXES, STICKY, STICKY_CAPACITY, VARIABLES,
};
use crate::signals::{SIGNALS, Signal};

const PARTS: [&str; 6] = [
    DB_CONNECTION.name,
    DB_HOST.name,
    DB_PORT.name,
    DB_DATABASE.name,
    DB_USERNAME.name,
    DB_PASSWORD.name,
];

pub(super) fn effective(env: &Env, drivers: &[Driver]) -> Vec<Effective> {
    let mut rows = env.effective(VARIABLES);
    #[cfg(feature = "redis")]
    rows.extend(env.effective(coord_redis::VARIABLES));
    let is_set = |name: &str| rows.iter().any(|row| row.name == name && row.is_set());
    let (has_url, is_off) = (
        is_set(DATABASE_URL.name),
        env.flag(&STICKY).ok().flatten() == Some(false),
    );
    let is_sqlite = env
        .text(&DB_CONNECTION)
        .ok()
        .flatten()
        .is_some_and(|it| it == "sqlite");
    let has_streams = drivers.contains(&Driver::Redis);
    let is_queue = super::hints::mode(env).ok() == Some(Mode::Queue);
    #[cfg(feature = "redis")]
    let has_redis_url = is_set("COORD_REDIS_URL");
    for row in &mut rows {
        let overruled = match row.name {
            CACHE_DRIVER_NAME => {
                row.value = named(drivers);
                None
            }
            name if name == DISPATCH.name && !has_streams => {
                "poll".clone_into(&mut row.value);
                Some("CACHE_DRIVER does not name redis, which carries tasks").filter(|_| is_queue)
            }
            name if PARTS.contains(&name) && has_url => Some("DATABASE_URL wins"),
            name if SERVER_PARTS.contains(&name) && is_sqlite => Some("SQLite is no server"),
            name if name == STICKY_CAPACITY.name && is_off => Some("no run is kept in memory"),
            #[cfg(feature = "redis")]
            "REDIS_HOST" | "REDIS_PORT" | "REDIS_USERNAME" | "REDIS_PASSWORD" | "REDIS_DB"
                if has_redis_url =>
            {
                Some("the URL of Redis wins")
            }
            _ => None,
        };
        if let Some(why) = overruled.filter(|_| row.is_set()) {
            row.without_effect = Some(why.to_owned());
        }
    }
    rows
}

const CACHE_DRIVER_NAME: &str = CACHE_DRIVER.name;
const SERVER_PARTS: [&str; 4] = [
    DB_HOST.name,
    DB_PORT.name,
    DB_USERNAME.name,
    DB_PASSWORD.name,
];

fn named(drivers: &[Driver]) -> String {
    let names: Vec<_> = drivers.iter().map(|driver| driver.as_str()).collect();
    names.join(",")
}

/// Says what is set and has no effect.
pub(super) fn emit(config: &EngineConfig) {
    coord_core::signals::register(SIGNALS);
    for prefix in PREFIXES {
        for name in config.env.unknown(prefix, VARIABLES) {
            let variable = Detail::new(name);
            Signal::UnknownVariable { variable }.emit();
        }
    }
    for row in config.effective() {
        let Some(reason) = row.without_effect.as_ref().filter(|_| row.is_set()) else {
            continue;
        };
        Signal::WithoutEffect {
            variable: Detail::new(row.source),
            reason: Detail::new(reason),
        }
        .emit();
    }
    if let Some(drivers) = config.validation.failed(&config.drivers) {
        let drivers = Detail::new(drivers);
        Signal::NodesAlone { drivers }.emit();
    }
}

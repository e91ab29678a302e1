//! Servers that carry hints and do nothing else here.

use coord_core::{Env, Error, Result};

use crate::config::variables::CACHE_PREFIX;

fn prefix(env: &Env) -> Result<&str> {
    Ok(env.text(&CACHE_PREFIX)?.unwrap_or(CACHE_PREFIX.default))
}

/// `error` with the variables that it is about. Their values may hold a password.
fn about(names: &str) -> impl Fn(Error) -> Error {
    move |error| {
        let message = format!("{names}: {}", error.message());
        Error::invalid(message)
    }
}

#[cfg(feature = "memcached")]
pub(super) fn memcached(env: &Env) -> Result<crate::wake::Memcached> {
    use crate::config::variables::{MEMCACHED_HOST, MEMCACHED_PORT};

    let host = env.text(&MEMCACHED_HOST)?.unwrap_or(MEMCACHED_HOST.default);
    let port: Option<u16> = env.parsed(&MEMCACHED_PORT, "the number of a port")?;
    let server = if host.starts_with('/') {
        host.to_owned()
    } else {
        format!("{host}:{}", port.unwrap_or(11211))
    };
    let memcached = crate::wake::Memcached::at(&server, prefix(env)?);
    memcached.map_err(about("MEMCACHED_HOST, MEMCACHED_PORT or CACHE_PREFIX"))
}

#[cfg(feature = "nats")]
pub(super) fn nats(env: &Env) -> Result<crate::wake::Nats> {
    use crate::config::variables::{NATS_PASSWORD, NATS_TOKEN, NATS_URL, NATS_USER};

    let url = env.text(&NATS_URL)?.unwrap_or(NATS_URL.default);
    let has_token = |server: &str| {
        let login = server.rsplit_once('@').map(|(login, _)| login);
        let login = login.map(|login| login.rsplit('/').next().unwrap_or(login));
        login.is_some_and(|login| !login.contains(':'))
    };
    if url.split(',').any(has_token) {
        let message = "NATS_URL holds a token, and must not: NATS_TOKEN is for it";
        return Err(Error::invalid(message));
    }
    let nats = crate::wake::Nats::at(url, prefix(env)?);
    let nats = nats.map_err(about("NATS_URL or CACHE_PREFIX"))?;
    Ok(match (env.text(&NATS_USER)?, env.text(&NATS_TOKEN)?) {
        (Some(user), None) => nats.user(user, env.text(&NATS_PASSWORD)?.unwrap_or_default()),
        (None, Some(token)) => nats.token(token),
        (None, None) => nats,
        (Some(_), Some(_)) => {
            let message = "NATS_USER and NATS_TOKEN are both set, and a server wants one of them";
            return Err(Error::invalid(message));
        }
    })
}

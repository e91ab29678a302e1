//! How a node is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use coord_core::{Env, Result, Variable};

/// Where a node listens, what it stands on, and how it ends.
#[derive(Clone, Debug)]
pub struct Config {
    /// The database of the engine, as [`Engine::connect`](coord_engine::Engine::connect) reads it.
    pub database_url: String,
    /// Where it accepts HTTP.
    pub listen: SocketAddr,
    /// How long it may take to end after it was told to.
    pub drain: Duration,
}

/// Every variable that [`Config::from_env`] reads.
pub const VARIABLES: &[Variable] = &[DATABASE_URL, LISTEN, DRAIN_TIMEOUT];

const DATABASE_URL: Variable = Variable::new(
    "COORD_DATABASE_URL",
    "sqlite:coord.db",
    "The database of the engine: `postgres://`, `mysql://`, `mariadb://` or `sqlite:`.",
);
const LISTEN: Variable = Variable::new(
    "COORD_LISTEN",
    "127.0.0.1:8080",
    "The address and port on which the node accepts HTTP; loopback unless it is said otherwise.",
);
const DRAIN_TIMEOUT: Variable = Variable::new(
    "COORD_DRAIN_TIMEOUT",
    "25s",
    "How long a node that was told to end may take to finish what it has begun: a little less than the 30 s that orchestrators give it.",
);

impl Default for Config {
    fn default() -> Self {
        Self {
            database_url: DATABASE_URL.default.to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            drain: Duration::from_secs(25),
        }
    }
}

impl Config {
    /// From the environment ([`VARIABLES`]).
    ///
    /// # Errors
    /// `Invalid`, naming the variable, its value and what it must be.
    pub fn from_env(env: &Env) -> Result<Self> {
        let mut config = Self::default();
        if let Some(url) = env.text(&DATABASE_URL)? {
            url.clone_into(&mut config.database_url);
        }
        if let Some(listen) = env.parsed(&LISTEN, "an address and a port, such as 0.0.0.0:8080")? {
            config.listen = listen;
        }
        if let Some(drain) = env.duration(&DRAIN_TIMEOUT)? {
            config.drain = drain;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_documented_is_what_holds() {
        let named = VARIABLES
            .iter()
            .map(|variable| (variable.name, variable.default));
        let documented = Config::from_env(&Env::from_pairs(named)).expect("it reads");

        assert_eq!(
            format!("{documented:?}"),
            format!("{:?}", Config::default())
        );
    }

    #[test]
    fn what_does_not_read_is_named() {
        let env = Env::from_pairs([("COORD_LISTEN", "everywhere")]);

        let error = Config::from_env(&env).expect_err("refused");

        assert!(error.to_string().contains("COORD_LISTEN"), "{error}");
    }
}

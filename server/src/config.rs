//! How a node is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use coord_core::{Env, Error, Result, Variable};

use crate::Access;

/// Where a node listens, who may call it, and how it ends.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it accepts HTTP.
    pub listen: SocketAddr,
    /// The file of its tokens, as [`Access::from_json`] reads it.
    pub tokens_file: Option<PathBuf>,
    /// Whether it asks nobody for a token, which it does on loopback alone.
    pub is_open: bool,
    /// How many requests a second each token may make, on all nodes together.
    pub rate_limit: Option<NonZeroU32>,
    /// How long it may take to end after it was told to.
    pub drain: Duration,
}

/// Every variable that [`Config::from_env`] reads.
pub const VARIABLES: &[Variable] = &[LISTEN, TOKENS_FILE, RATE_LIMIT, DRAIN_TIMEOUT];

const LISTEN: Variable = Variable::new(
    "COORD_LISTEN",
    "127.0.0.1:8080",
    "The address and port on which the node accepts HTTP; loopback unless it is said otherwise.",
);
const TOKENS_FILE: Variable = Variable::new(
    "COORD_TOKENS_FILE",
    "",
    "The JSON file of the tokens that may call the node, with their roles and namespaces; without it the node starts on loopback alone, and only when it is told to be open.",
);
const RATE_LIMIT: Variable = Variable::new(
    "COORD_RATE_LIMIT",
    "",
    "How many requests a second each token may make, counted over all nodes in Redis.",
);
const DRAIN_TIMEOUT: Variable = Variable::new(
    "COORD_DRAIN_TIMEOUT",
    "25s",
    "How long a node that was told to end may take to finish what it has begun: a little less than the 30 s that orchestrators give it.",
);

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            tokens_file: None,
            is_open: false,
            rate_limit: None,
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
        if let Some(listen) = env.parsed(&LISTEN, "an address and a port, such as 0.0.0.0:8080")? {
            config.listen = listen;
        }
        config.tokens_file = env.text(&TOKENS_FILE)?.map(PathBuf::from);
        config.rate_limit = env.parsed(&RATE_LIMIT, "a whole number above 0")?;
        if let Some(drain) = env.duration(&DRAIN_TIMEOUT)? {
            config.drain = drain;
        }
        Ok(config)
    }

    /// Who may call the node.
    ///
    /// # Errors
    /// `Invalid` when its file of tokens does not read, and when it asks nobody for a token though
    /// others than this machine reach it, or was not told to.
    pub fn access(&self) -> Result<Access> {
        match &self.tokens_file {
            Some(_) if self.is_open => Err(Error::invalid(
                "a node that is open asks for no tokens: take either --open or the file of tokens",
            )),
            Some(file) => Access::from_file(file),
            None if !self.is_open => Err(Error::invalid(
                "nobody may call this node: name a file of tokens in COORD_TOKENS_FILE, or take \
                 --open on loopback",
            )),
            None if self.listen.ip().is_loopback() => Ok(Access::open()),
            None => Err(Error::invalid(format!(
                "--open lets whoever reaches {} do everything: take it on loopback alone",
                self.listen
            ))),
        }
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

    #[test]
    fn a_node_without_tokens_is_open_on_loopback_and_only_when_it_is_told_to() {
        let config = |listen: &str, is_open| Config {
            listen: listen.parse().expect("an address"),
            is_open,
            ..Config::default()
        };

        assert!(config("127.0.0.1:1", false).access().is_err());
        assert!(
            config("127.0.0.1:1", true)
                .access()
                .expect("open")
                .is_open()
        );
        assert!(config("[::1]:1", true).access().expect("open").is_open());
        for everywhere in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1"] {
            assert!(config(everywhere, true).access().is_err(), "{everywhere}");
        }
        let both = Config {
            tokens_file: Some("tokens.json".into()),
            ..config("127.0.0.1:1", true)
        };
        assert!(both.access().is_err());
    }
}

//! Where the server is and how to talk to it.

#[cfg(feature = "blocking")]
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Env, Error, KeySpace, LONGEST_WAIT, Result};

use crate::signals::Signal;

mod address;
mod url;
mod variables;

pub(crate) use address::{Address, Credentials, Topology};
use url::Url;

pub use variables::VARIABLES;
use variables::{
    CA_FILE, CONNECT_TIMEOUT, DB, DEADLINE, HOST, NODELAY, PASSWORD, PING_INTERVAL, PORT, PREFIX,
    SENTINEL_PASSWORD, SENTINEL_USERNAME, URL, USERNAME,
};

/// Below this no round trip fits in, and a health check would be a flood.
const SHORTEST: Duration = Duration::from_millis(1);

/// Where the server is and how to talk to it.
///
/// ```
/// use std::time::Duration;
/// use coord_redis::Config;
///
/// let config = Config::from_url("redis://app:secret@10.0.0.7:6379/2")?
///     .prefix("shop")?
///     .deadline(Duration::from_millis(500));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) credentials: Credentials,
    pub(crate) sentinel_credentials: Credentials,
    pub(crate) database: u32,
    #[cfg(any(feature = "tls", feature = "blocking"))]
    pub(crate) tls: bool,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) keys: KeySpace,
    pub(crate) deadline: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) nodelay: bool,
    #[cfg(feature = "blocking")]
    pub(crate) blocking_connections: NonZeroUsize,
}

/// The system is told twice of it, in milliseconds of 31 bits.
const LONGEST_PING: Duration = Duration::from_hours(24);

/// Consumers of one process, each blocking on its own.
#[cfg(feature = "blocking")]
const BLOCKING_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

impl Config {
    /// From a URL, with the defaults for everything it does not say.
    ///
    /// | form | for |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | one server |
    /// | `redis+sentinel://[user:password@]host[:port],…/master[/database]` | the master that the sentinels name |
    /// | `redis+cluster://[user:password@]host[:port],…` | a cluster, found through any of its nodes |
    ///
    /// `rediss` in place of `redis` speaks TLS. User and password are percent-encoded where they
    /// hold `@`, `/`, `:`, `?`, `#` or `%`; they are those of the server, not of the sentinels.
    ///
    /// # Errors
    /// `Invalid`, naming the part that is wrong and never the password.
    pub fn from_url(url: &str) -> Result<Self> {
        let Url {
            tls,
            credentials,
            topology,
            database,
        } = Url::parse(url)?;
        if tls && cfg!(not(feature = "tls")) {
            return Err(url::wrong(
                "asks for TLS, but coord-redis is built without its feature tls",
            ));
        }
        Ok(Self {
            topology,
            credentials,
            sentinel_credentials: Credentials::default(),
            database,
            #[cfg(any(feature = "tls", feature = "blocking"))]
            tls,
            ca_file: None,
            keys: KeySpace::new(PREFIX.default).expect("the default prefix is valid"),
            deadline: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(2),
            nodelay: true,
            #[cfg(feature = "blocking")]
            blocking_connections: BLOCKING_CONNECTIONS,
        })
    }

    /// From the environment ([`VARIABLES`]); a name under `COORD_REDIS_` that nobody reads is
    /// reported by the signal `redis.config.unknown_variable`.
    ///
    /// # Errors
    /// `Invalid`, naming the variable, its value (never the URL's) and what it must be.
    pub fn from_env(env: &Env) -> Result<Self> {
        for name in env.unknown("COORD_REDIS_", VARIABLES) {
            Signal::UnknownVariable {
                variable: Detail::new(name),
            }
            .emit();
        }
        let mut config = match env.text(&URL)? {
            Some(url) => Self::from_url(url).map_err(|error| {
                let name = env.name_of(&URL);
                Error::invalid(format!("{name}: {}", error.message()))
            })?,
            None => Self::from_parts(env)?,
        };
        if let Some(prefix) = env.text(&PREFIX)? {
            config = config.prefix(prefix)?;
        }
        if let Some(deadline) = env.duration(&DEADLINE)? {
            config.deadline = deadline;
        }
        if let Some(timeout) = env.duration(&CONNECT_TIMEOUT)? {
            config.connect_timeout = timeout;
        }
        if let Some(interval) = env.duration(&PING_INTERVAL)? {
            config.ping_interval = interval;
        }
        if let Some(nodelay) = env.flag(&NODELAY)? {
            config.nodelay = nodelay;
        }
        config.ca_file = env.text(&CA_FILE)?.map(PathBuf::from);
        config.sentinel_credentials = Credentials {
            username: env.text(&SENTINEL_USERNAME)?.map(str::to_owned),
            password: env.text(&SENTINEL_PASSWORD)?.map(str::to_owned),
        };
        Ok(config)
    }

    /// Whether the environment says where Redis is; [`from_env`](Self::from_env) looks on this
    /// machine otherwise.
    ///
    /// # Errors
    /// `Invalid` when what it says is not UTF-8.
    pub fn is_placed(env: &Env) -> Result<bool> {
        Ok(env.text(&URL)?.is_some() || env.text(&HOST)?.is_some())
    }

    fn from_parts(env: &Env) -> Result<Self> {
        let mut config = Self::from_url(URL.default)?;
        let port = env.parsed(&PORT, "the number of a port")?;
        config.topology = Topology::Standalone(Address {
            host: env.text(&HOST)?.unwrap_or(HOST.default).to_owned(),
            port: port.unwrap_or(url::REDIS_PORT),
        });
        config.credentials = Credentials {
            username: env.text(&USERNAME)?.map(str::to_owned),
            password: env.text(&PASSWORD)?.map(str::to_owned),
        };
        let database = env.parsed(&DB, "the number of a database")?;
        config.database = database.unwrap_or(0);
        Ok(config)
    }

    /// That every span of time is one in which something can happen.
    pub(crate) fn check(&self) -> Result<()> {
        let spans = [
            ("deadline", self.deadline),
            ("connect timeout", self.connect_timeout),
            ("ping interval", self.ping_interval),
        ];
        match spans.into_iter().find(|(_, span)| *span < SHORTEST) {
            Some((name, span)) => Err(Error::invalid(format!(
                "the {name} of redis is {span:?}, but must be {SHORTEST:?} or more"
            ))),
            None => Ok(()),
        }
    }

    /// What all keys start with; `coord` by default.
    ///
    /// # Errors
    /// `Invalid` when it is empty or longer than 512 bytes.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        self.keys = KeySpace::new(prefix)?;
        Ok(self)
    }

    /// How long a call may take when it says nothing else; 2 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.min(LONGEST_WAIT);
        self
    }

    /// How long one attempt to connect may take, handshakes included; 1 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// How often an idle connection is checked; 2 s by default. A silent peer is found within
    /// two intervals. At most a day.
    #[must_use]
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.ping_interval = interval.min(LONGEST_PING);
        self
    }

    /// `TCP_NODELAY`, on by default. Off batches small writes: about a third faster for 64
    /// callers on loopback, up to a round trip slower for a second caller on a network.
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// How many connections to a node may be occupied at a time by calls that block; 16 by default.
    /// Each is made when it is first needed, and one call more waits for one of them.
    #[cfg(feature = "blocking")]
    #[must_use]
    pub fn blocking_connections(mut self, most: NonZeroUsize) -> Self {
        self.blocking_connections = most;
        self
    }

    /// A PEM file with the certificate authority of a private TLS server.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// The user and password at the sentinels, where they have one.
    #[must_use]
    pub fn sentinel_credentials(mut self, username: Option<&str>, password: Option<&str>) -> Self {
        self.sentinel_credentials = Credentials {
            username: username.map(str::to_owned),
            password: password.map(str::to_owned),
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_in_which_nothing_can_happen_is_invalid() {
        let config = |interval| {
            let config = Config::from_url("redis://h").expect("valid");
            config.ping_interval(interval).check()
        };

        assert!(config(Duration::from_millis(1)).is_ok());
        let error = config(Duration::ZERO).expect_err("a flood of checks");
        assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
        assert!(error.message().contains("ping interval"), "{error}");
    }

    #[test]
    fn the_place_is_a_url_or_its_parts_and_the_url_wins() {
        let parts = [
            ("REDIS_HOST", "cache"),
            ("REDIS_PORT", "6380"),
            ("REDIS_PASSWORD", "p@ss/word"),
            ("REDIS_DB", "2"),
        ];
        let env = Env::from_pairs(parts);
        let both = Env::from_pairs(parts.into_iter().chain([("REDIS_URL", "redis://h:1/7")]));

        let config = Config::from_env(&env).expect("valid");
        assert_eq!(config.topology.to_string(), "cache:6380");
        assert_eq!(config.credentials.password.as_deref(), Some("p@ss/word"));
        assert_eq!(config.database, 2);
        let config = Config::from_env(&both).expect("valid");
        assert_eq!(
            (config.topology.to_string(), config.database),
            ("h:1".into(), 7)
        );
        assert!(Config::is_placed(&env).expect("readable"));
        assert!(!Config::is_placed(&Env::default()).expect("readable"));
    }

    #[test]
    fn a_wrong_part_is_named_and_a_wrong_url_by_the_name_it_was_set() {
        let error = |name, value| {
            let env = Env::from_pairs([(name, value)]);
            Config::from_env(&env)
                .expect_err("refused")
                .message()
                .to_owned()
        };

        assert!(error("REDIS_PORT", "70000").contains("REDIS_PORT is \"70000\""));
        assert!(error("REDIS_DB", "main").contains("REDIS_DB"));
        assert!(error("REDIS_URL", "http://h").starts_with("REDIS_URL: "));
    }

    #[test]
    fn settings_from_the_environment_carry_units_and_name_what_is_wrong() {
        let env = |value: &str| {
            Env::from_pairs([
                ("COORD_REDIS_URL", "redis://h"),
                ("COORD_REDIS_DEADLINE", value),
            ])
        };

        let config = Config::from_env(&env("250ms")).expect("valid");
        assert_eq!(config.deadline, Duration::from_millis(250));
        let error = Config::from_env(&env("250")).expect_err("no unit");
        assert!(error.message().contains("COORD_REDIS_DEADLINE"), "{error}");
    }
}

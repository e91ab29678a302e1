//! Where the server is and how to talk to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Env, Error, KeySpace, Result, Variable};

use crate::signals::Signal;

/// The environment variables that [`Config::from_env`] reads.
pub const VARIABLES: &[Variable] = &[
    URL,
    PREFIX,
    DEADLINE,
    CONNECT_TIMEOUT,
    PING_INTERVAL,
    NODELAY,
    CA_FILE,
    SENTINEL_USERNAME,
    SENTINEL_PASSWORD,
];

const URL: Variable = Variable {
    name: "COORD_REDIS_URL",
    default: "redis://127.0.0.1:6379",
    about: "Where Redis is: `redis://`, `redis+sentinel://` or `redis+cluster://`, with `rediss` for TLS.",
};
const PREFIX: Variable = Variable {
    name: "COORD_REDIS_PREFIX",
    default: "coord",
    about: "What all keys start with; one for each application that shares a server.",
};
const DEADLINE: Variable = Variable {
    name: "COORD_REDIS_DEADLINE",
    default: "2s",
    about: "How long a call may take when it says nothing else: rides out a reconnect, not an outage.",
};
const CONNECT_TIMEOUT: Variable = Variable {
    name: "COORD_REDIS_CONNECT_TIMEOUT",
    default: "1s",
    about: "How long one attempt to connect may take, handshakes included.",
};
const PING_INTERVAL: Variable = Variable {
    name: "COORD_REDIS_PING_INTERVAL",
    default: "2s",
    about: "How often an idle connection is checked; a silent peer is found within two intervals.",
};
const NODELAY: Variable = Variable {
    name: "COORD_REDIS_NODELAY",
    default: "true",
    about: "TCP_NODELAY. Off batches small writes, which is faster on loopback and slower on a network.",
};
const CA_FILE: Variable = Variable {
    name: "COORD_REDIS_CA_FILE",
    default: "",
    about: "A PEM file with the certificate authority of a private TLS server; the public roots otherwise.",
};
const SENTINEL_USERNAME: Variable = Variable {
    name: "COORD_REDIS_SENTINEL_USERNAME",
    default: "",
    about: "The ACL user at the sentinels, where they have one.",
};
const SENTINEL_PASSWORD: Variable = Variable {
    name: "COORD_REDIS_SENTINEL_PASSWORD",
    default: "",
    about: "The password at the sentinels, where they have one.",
};

/// The port of a Redis server when the URL names none.
const REDIS_PORT: u16 = 6379;
/// The port of a sentinel when the URL names none.
const SENTINEL_PORT: u16 = 26_379;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// From `host:port` as a cluster names its nodes; the host may be an IPv6 address.
    pub(crate) fn from_node(node: &str) -> Self {
        let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
        Self {
            host: host.to_owned(),
            port: port.parse().unwrap_or(REDIS_PORT),
        }
    }

    fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, tail) = rest.split_once(']')?;
                (host, tail.strip_prefix(':'))
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok()?,
            None => default_port,
        };
        (!host.is_empty()).then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// How the servers are arranged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topology {
    Standalone(Address),
    Sentinel {
        sentinels: Vec<Address>,
        master: String,
    },
    Cluster(Vec<Address>),
}

/// A user and password, of which either may be missing.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl fmt::Debug for Credentials {
    /// Shows that there is a password, never which.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish()
    }
}

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
}

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
    /// hold `@`, `/`, `:` or `%`; they are those of the server, not of the sentinels.
    ///
    /// # Errors
    /// `Invalid`, naming the part that is wrong and never the password.
    pub fn from_url(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid(format!(
                "the Redis URL {what}; it reads redis://[user:password@]host[:port][/database]"
            ))
        };
        let (scheme, rest) = url
            .trim()
            .split_once("://")
            .ok_or_else(|| wrong("has no ://"))?;
        let (secure, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = match secure {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(wrong("has a scheme that is neither redis nor rediss")),
        };
        if tls && cfg!(not(feature = "tls")) {
            return Err(wrong(
                "asks for TLS, but coord-redis is built without its feature tls",
            ));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("has a query or fragment, which has no meaning here"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo), hosts),
            None => (None, authority),
        };
        let port = if kind == "sentinel" {
            SENTINEL_PORT
        } else {
            REDIS_PORT
        };
        let addresses: Vec<_> = hosts
            .split(',')
            .map(|host| {
                Address::parse(host, port)
                    .ok_or_else(|| wrong("has no host, or a port that is no number"))
            })
            .collect::<Result<_>>()?;
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let topology = match kind {
            "" => match <[Address; 1]>::try_from(addresses) {
                Ok([address]) => Topology::Standalone(address),
                Err(_) => return Err(wrong("names several hosts without +sentinel or +cluster")),
            },
            "sentinel" => {
                let master = segments
                    .next()
                    .ok_or_else(|| wrong("names no master for the sentinels"))?;
                Topology::Sentinel {
                    sentinels: addresses,
                    master: master.to_owned(),
                }
            }
            "cluster" => Topology::Cluster(addresses),
            _ => return Err(wrong("has a scheme that is neither +sentinel nor +cluster")),
        };
        let database = match segments.next() {
            None => 0,
            Some(text) => text
                .parse()
                .map_err(|_| wrong("has a database that is no number"))?,
        };
        if segments.next().is_some() {
            return Err(wrong("has more after the database"));
        }
        if database != 0 && kind == "cluster" {
            return Err(wrong("asks a cluster for a database other than 0"));
        }
        let credentials = match userinfo {
            None => Credentials::default(),
            Some(userinfo) => {
                let (username, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                let decoded = |text: &str| {
                    percent_decoded(text)
                        .ok_or_else(|| wrong("has a user or password with a broken %"))
                };
                let some = |text: String| Some(text).filter(|text| !text.is_empty());
                Credentials {
                    username: some(decoded(username)?),
                    password: some(decoded(password)?),
                }
            }
        };
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
        let mut config = Self::from_url(env.text(&URL)?.unwrap_or(URL.default))
            .map_err(|error| Error::invalid(format!("{}: {}", URL.name, error.message())))?;
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
        self.deadline = deadline;
        self
    }

    /// How long one attempt to connect may take, handshakes included; 1 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often an idle connection is checked; 2 s by default. A silent peer is found within
    /// two intervals.
    #[must_use]
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.ping_interval = interval;
        self
    }

    /// `TCP_NODELAY`, on by default. Off batches small writes: about a third faster for 64
    /// callers on loopback, up to a round trip slower for a second caller on a network.
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
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

fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let (byte, tail) = match first {
            b'%' => {
                let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
                (u8::from_str_radix(digits, 16).ok()?, &tail[2..])
            }
            plain => (plain, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    fn topology(url: &str) -> Topology {
        Config::from_url(url).expect(url).topology
    }

    fn address(host: &str, port: u16) -> Address {
        Address {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn each_form_of_url_gives_its_topology() {
        assert_eq!(
            topology("redis://localhost"),
            Topology::Standalone(address("localhost", 6379))
        );
        assert_eq!(
            topology("redis://[::1]:7000/3"),
            Topology::Standalone(address("::1", 7000))
        );
        assert_eq!(
            topology("redis+sentinel://a,b:26380/mymaster/1"),
            Topology::Sentinel {
                sentinels: vec![address("a", 26_379), address("b", 26_380)],
                master: "mymaster".to_owned()
            }
        );
        assert_eq!(
            topology("redis+cluster://a:7000,b:7001"),
            Topology::Cluster(vec![address("a", 7000), address("b", 7001)])
        );
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        let config = Config::from_url("redis://app:p%40ss%3A@h/0").expect("valid");

        assert_eq!(config.credentials.username.as_deref(), Some("app"));
        assert_eq!(config.credentials.password.as_deref(), Some("p@ss:"));
        assert!(!format!("{config:?}").contains("p@ss"));
    }

    #[test]
    fn a_wrong_url_is_refused_without_showing_its_password() {
        for url in [
            "localhost:6379",
            "http://u:secret@h",
            "redis://u:secret@",
            "redis://u:secret@h:port",
            "redis://u:secret@a,b",
            "redis://u:secret@h/zero",
            "redis://u:secret@h/0/1",
            "redis://u:secret%zz@h",
            "redis://u:secret@h?db=1",
            "redis+sentinel://u:secret@h",
            "redis+cluster://u:secret@h/1",
            "redis+ring://u:secret@h",
        ] {
            let error = Config::from_url(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
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

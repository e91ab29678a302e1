//! What kind of server it is, read once at connect.

use std::fmt;

use coord_core::{Error, Result};

use crate::Reply;

/// The oldest Redis that has all we send.
const OLDEST: Version = Version { major: 6, minor: 2 };

/// Major and minor number of a server's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Which family a server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// The server's kind and version, and whether it may evict keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its family.
    pub kind: ServerKind,
    /// Its own version, not the Redis version that Valkey reports for compatibility.
    pub version: Version,
    /// The `maxmemory-policy` when memory is bounded and the policy evicts; leases, locks, ticks
    /// and streams can then vanish before their TTL.
    pub evicts: Option<String>,
    /// The version of Redis that it is compatible with.
    pub(crate) compatible: Version,
}

impl Server {
    /// Reads the text of `INFO`.
    pub(crate) fn from_info(info: &str) -> Result<Self> {
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
        };
        let compatible = field("redis_version")
            .and_then(version)
            .ok_or_else(|| Error::corrupt("the server's INFO names no redis_version"))?;
        if compatible < OLDEST {
            return Err(Error::invalid(format!(
                "the server is Redis {compatible}, but {OLDEST} or newer is needed"
            )));
        }
        let (kind, version) = match field("valkey_version").and_then(version) {
            Some(version) => (ServerKind::Valkey, version),
            None => (ServerKind::Redis, compatible),
        };
        let bounded = field("maxmemory").is_some_and(|bytes| bytes != "0");
        let evicts = field("maxmemory_policy")
            .filter(|policy| bounded && *policy != "noeviction")
            .map(str::to_owned);
        Ok(Self {
            kind,
            version,
            evicts,
            compatible,
        })
    }

    /// Reads the reply of `HELLO`, which says nothing about memory.
    pub(crate) fn from_hello(hello: Reply) -> Result<Self> {
        let mut said = [None, None];
        let mut items = hello.list()?.into_iter();
        while let (Some(name), Some(value)) = (items.next(), items.next()) {
            match name.text()?.as_str() {
                "server" => said[0] = Some(value.text()?),
                "version" => said[1] = Some(value.text()?),
                _ => {}
            }
        }
        let [Some(server), Some(version)] = said else {
            return Err(Error::corrupt("the server's HELLO names no version"));
        };
        // Valkey began as Redis 7.2 and says so where INFO may be read.
        Self::from_info(&match server.as_str() {
            "valkey" => format!("redis_version:7.2.4\nvalkey_version:{version}\n"),
            _ => format!("redis_version:{version}\n"),
        })
    }

    /// Whether it knows sharded pub/sub, which came with Redis 7.0.
    pub(crate) fn has_sharded_pubsub(&self) -> bool {
        self.compatible >= Version { major: 7, minor: 0 }
    }
}

fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some(Version {
        major: numbers.next()??,
        minor: numbers.next()??,
    })
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn redis_and_valkey_are_told_apart() {
        let redis = Server::from_info("redis_version:7.0.15\r\nmaxmemory:0\r\n").expect("valid");
        let valkey = Server::from_info(
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n",
        )
        .expect("valid");

        assert_eq!(
            (redis.kind, redis.version),
            (ServerKind::Redis, Version { major: 7, minor: 0 })
        );
        assert_eq!(
            (valkey.kind, valkey.version),
            (ServerKind::Valkey, Version { major: 9, minor: 1 })
        );
    }

    #[test]
    fn the_oldest_version_is_taken_and_the_one_before_refused() {
        assert!(Server::from_info("redis_version:6.2.0\r\n").is_ok());
        let error = Server::from_info("redis_version:6.0.16\r\n").expect_err("too old");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("6.0"), "{error}");
    }

    #[test]
    fn only_a_bounded_server_with_an_evicting_policy_evicts() {
        let evicts = |memory: &str, policy: &str| {
            let info = format!(
                "redis_version:7.0.0\r\nmaxmemory:{memory}\r\nmaxmemory_policy:{policy}\r\n"
            );
            Server::from_info(&info).expect("valid").evicts
        };

        assert_eq!(evicts("0", "allkeys-lru"), None);
        assert_eq!(evicts("1000000", "noeviction"), None);
        assert_eq!(
            evicts("1000000", "volatile-lru").as_deref(),
            Some("volatile-lru")
        );
    }
}

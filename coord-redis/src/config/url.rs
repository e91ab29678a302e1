//! Reading a Redis URL.

use coord_core::{Error, Result};

use super::address::{Address, Credentials, Topology};

/// The port of a Redis server when the URL names none.
pub(super) const REDIS_PORT: u16 = 6379;
/// The port of a sentinel when the URL names none.
const SENTINEL_PORT: u16 = 26_379;

/// What a URL says.
pub(super) struct Url {
    pub(super) tls: bool,
    pub(super) credentials: Credentials,
    pub(super) topology: Topology,
    pub(super) database: u32,
}

/// An error that never shows the URL, which may hold a password.
pub(super) fn wrong(what: &str) -> Error {
    Error::invalid(format!(
        "the Redis URL {what}; it reads redis://[user:password@]host[:port][/database]"
    ))
}

impl Url {
    pub(super) fn parse(url: &str) -> Result<Self> {
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
        if rest.contains(['?', '#']) {
            return Err(wrong("has a query or fragment, which has no meaning here"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo), hosts),
            None => (None, authority),
        };
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let topology = topology(kind, hosts, &mut segments)?;
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
        Ok(Self {
            tls,
            credentials: userinfo.map(credentials).transpose()?.unwrap_or_default(),
            topology,
            database,
        })
    }
}

fn topology<'a>(
    kind: &str,
    hosts: &str,
    segments: &mut impl Iterator<Item = &'a str>,
) -> Result<Topology> {
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
    match kind {
        "" => match <[Address; 1]>::try_from(addresses) {
            Ok([address]) => Ok(Topology::Standalone(address)),
            Err(_) => Err(wrong("names several hosts without +sentinel or +cluster")),
        },
        "sentinel" => {
            let master = segments
                .next()
                .ok_or_else(|| wrong("names no master for the sentinels"))?;
            Ok(Topology::Sentinel {
                sentinels: addresses,
                master: master.to_owned(),
            })
        }
        "cluster" => Ok(Topology::Cluster(addresses)),
        _ => Err(wrong("has a scheme that is neither +sentinel nor +cluster")),
    }
}

fn credentials(userinfo: &str) -> Result<Credentials> {
    let (username, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let decoded = |text: &str| {
        percent_decoded(text).ok_or_else(|| wrong("has a user or password with a broken %"))
    };
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(Credentials {
        username: some(decoded(username)?),
        password: some(decoded(password)?),
    })
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
    use crate::Config;

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
}

//! Which servers, and as whom.

use std::fmt;

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
            port: port.parse().unwrap_or(super::url::REDIS_PORT),
        }
    }

    pub(super) fn parse(text: &str, default_port: u16) -> Option<Self> {
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

impl fmt::Display for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |addresses: &[Address]| {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            addresses.join(", ")
        };
        match self {
            Self::Standalone(address) => write!(formatter, "{address}"),
            Self::Sentinel { sentinels, master } => {
                write!(formatter, "{master} by the sentinels {}", list(sentinels))
            }
            Self::Cluster(nodes) => write!(formatter, "the cluster of {}", list(nodes)),
        }
    }
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

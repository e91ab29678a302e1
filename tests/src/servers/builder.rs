//! How an own server is to be.

use std::time::Duration;

use super::{RedisServer, admin::Admin, cluster, launch};
use crate::need::Missing;

/// Describes a [`RedisServer`]; by default it has no password, no TLS and no persistence.
#[derive(Clone, Default)]
#[must_use = "nothing runs before `start`"]
pub struct RedisBuilder {
    pub(super) args: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) password: Option<String>,
    pub(super) tls_names: Vec<String>,
    pub(super) loads_for: Option<Duration>,
    pub(super) master: Option<Admin>,
    /// Whether the cluster bus port above its port has to be free.
    pub(super) bus: bool,
    /// The configuration of a sentinel, which is no data server.
    pub(super) sentinel: Option<String>,
}

impl RedisBuilder {
    /// Adds a word to the command line, such as `--timeout` and then `1`.
    pub fn arg(mut self, word: impl Into<String>) -> Self {
        self.args.push(word.into());
        self
    }

    /// Adds words to the command line.
    pub fn args<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.args.extend(words.into_iter().map(Into::into));
        self
    }

    /// Takes this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the password of the default user; [`RedisServer::url`] carries it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds an ACL user by its rules, such as `["on", ">secret", "~app:*", "+@read"]`; see
    /// [`RedisServer::url_as`].
    pub fn user(self, name: &str, rules: &[&str]) -> Self {
        self.args(["--user", name]).args(rules.iter().copied())
    }

    /// Also listens with TLS, with a certificate for `localhost` and 127.0.0.1; see
    /// [`RedisServer::tls_url`] and [`RedisServer::ca_path`].
    pub fn tls(self) -> Self {
        self.tls_for(&["localhost", "127.0.0.1"])
    }

    /// Like [`tls`](Self::tls), with a certificate for these names only.
    pub fn tls_for(mut self, names: &[&str]) -> Self {
        self.tls_names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Limits the memory, with a policy such as `noeviction`.
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.args([
            "--maxmemory",
            &bytes.to_string(),
            "--maxmemory-policy",
            policy,
        ])
    }

    /// Keeps every write on disk, so that it outlives [`RedisServer::kill`].
    pub fn durable(self) -> Self {
        self.args(["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Replicates `master`; the link is up when [`start`](Self::start) returns.
    pub fn replica_of(mut self, master: &RedisServer) -> Self {
        self.master = Some(master.admin().clone());
        self
    }

    /// Starts as a server that still loads its data, and answers `-LOADING` for at least this
    /// long, or until [`RedisServer::finish_loading`]. A restart loads anew.
    pub fn loading_for(mut self, time: Duration) -> Self {
        self.loads_for = Some(time);
        self
    }

    pub(super) fn cluster_node(mut self) -> Self {
        self.bus = true;
        self.args(cluster::node_args())
    }

    pub(super) fn sentinel(mut self, config: String) -> Self {
        self.sentinel = Some(config);
        self
    }

    /// Starts the server; it answers when this returns.
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server, or none that can do this.
    ///
    /// # Panics
    /// When there is one and it does not come up, with its log.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start(self) -> Result<RedisServer, Missing> {
        launch::start(self).await
    }
}

//! One own memcached.

use std::net::SocketAddr;

use super::daemon::{Daemon, Kind};
use crate::{env, need::Missing};

static KIND: Kind = Kind {
    program: "memcached",
    variable: env::MEMCACHED_BIN,
    missing: "memcached 1.6 or newer",
    arguments: |port| {
        // As root it refuses to run unless it is told as whom.
        let arguments = [
            "-l",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            "0",
            "-u",
            "root",
        ];
        arguments.map(str::to_owned).into()
    },
    hello: ("version\r\n", "VERSION"),
};

/// An own memcached; dropping it kills it.
pub struct MemcachedServer(Daemon);

impl MemcachedServer {
    /// Starts one; it answers when this returns.
    ///
    /// # Errors
    /// [`Missing`] when the machine has none.
    ///
    /// # Panics
    /// When there is one and it does not come up.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start() -> Result<Self, Missing> {
        Ok(Self(Daemon::start(&KIND).await?))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    /// Sends a line of its text protocol, and returns what it first says to it.
    ///
    /// # Panics
    /// When it does not answer.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn command(&self, line: &str) -> String {
        self.0.say(format!("{line}\r\n").as_bytes()).await
    }

    /// Puts `text` under `key`, whatever is there.
    ///
    /// # Panics
    /// When it does not take it.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn set(&self, key: &str, text: &str) {
        let said = self
            .command(&format!("set {key} 0 0 {}\r\n{text}", text.len()))
            .await;
        assert_eq!(said, "STORED\r\n");
    }

    /// SIGKILL. What it had is gone.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn kill(&self) {
        self.0.kill().await;
    }

    /// Starts it again on its port, empty.
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// Unsafe: it may be there. Another call finds its port taken.
    pub async fn restart(&self) {
        self.0.restart().await;
    }

    /// SIGSTOP: it takes connections, and answers nothing.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn pause(&self) {
        self.0.pause().await;
    }

    /// SIGCONT.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn resume(&self) {
        self.0.resume().await;
    }
}

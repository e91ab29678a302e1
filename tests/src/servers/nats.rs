//! One own NATS.

use std::net::SocketAddr;

use super::daemon::{Daemon, Kind};
use crate::{env, need::Missing};

/// The user and the password that it lets in.
pub const LOGIN: (&str, &str) = ("app", "s3cret");

const ADDRESS: [&str; 2] = ["-a", "127.0.0.1"];

const OPEN: Kind = Kind {
    program: "nats-server",
    variable: env::NATS_BIN,
    missing: "nats-server 2",
    arguments: |port| {
        let port = port.to_string();
        let arguments = [ADDRESS[0], ADDRESS[1], "-p", &port];
        arguments.map(str::to_owned).into()
    },
    hello: ("PING\r\n", "INFO"),
};

const CLOSED: Kind = Kind {
    arguments: |port| {
        let port = port.to_string();
        let login = ["--user", LOGIN.0, "--pass", LOGIN.1];
        let arguments = ADDRESS.into_iter().chain(["-p", &port]).chain(login);
        arguments.map(str::to_owned).collect()
    },
    ..OPEN
};

const WITH_TOKEN: Kind = Kind {
    arguments: |port| {
        let port = port.to_string();
        let token = ["-p", &port, "--auth", LOGIN.1];
        let arguments = ADDRESS.into_iter().chain(token);
        arguments.map(str::to_owned).collect()
    },
    ..OPEN
};

/// An own NATS; dropping it kills it.
pub struct NatsServer(Daemon);

impl NatsServer {
    /// Starts one that lets everybody in; it answers when this returns.
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
        Ok(Self(Daemon::start(&OPEN).await?))
    }

    /// Starts one that lets in who has the [`LOGIN`].
    ///
    /// # Errors
    /// [`Missing`] when the machine has none.
    ///
    /// # Panics
    /// When there is one and it does not come up.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start_closed() -> Result<Self, Missing> {
        Ok(Self(Daemon::start(&CLOSED).await?))
    }

    /// Starts one that lets in who has the password of the [`LOGIN`] as a token.
    ///
    /// # Errors
    /// [`Missing`] when the machine has none.
    ///
    /// # Panics
    /// When there is one and it does not come up.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start_with_token() -> Result<Self, Missing> {
        Ok(Self(Daemon::start(&WITH_TOKEN).await?))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    /// `nats://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("nats://{}", self.addr())
    }

    /// Publishes `payload` to `subject`; the server has it when this returns.
    ///
    /// # Panics
    /// When it does not answer.
    ///
    /// # Cancel safety
    /// It may have been published.
    pub async fn publish(&self, subject: &str, payload: &[u8]) {
        let mut bytes = b"CONNECT {\"verbose\":false}\r\n".to_vec();
        bytes.extend(format!("PUB {subject} {}\r\n", payload.len()).into_bytes());
        bytes.extend(payload);
        bytes.extend(b"\r\nPING\r\n");
        self.0.say_until(&bytes, "PONG").await;
    }

    /// SIGKILL.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn kill(&self) {
        self.0.kill().await;
    }

    /// Starts it again on its port.
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

//! One own server.

use std::{net::SocketAddr, path::Path, time::Duration};

use super::{RedisBuilder, admin::Admin, monitor::Monitor, process::Failure, run::Run, tls::Tls};
use crate::{
    need::Missing,
    resp::{Connection, Resp, Result},
    wait::{self, eventually},
};

/// What a test keeps in a server is loaded and replicated at once.
const USABLE_WITHIN: Duration = Duration::from_secs(20);

/// An own Redis or Valkey server; dropping it kills it.
pub struct RedisServer {
    run: Run,
    admin: Admin,
    tls: Option<Tls>,
    ready: Ready,
}

/// What is waited for after a start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// It answers, if only with its `INFO`.
    Answering,
    /// It has its data.
    Loaded,
    /// It has its data from its master.
    Replicating,
}

impl RedisServer {
    /// Starts a server with the defaults of [`RedisBuilder`].
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start() -> std::result::Result<Self, Missing> {
        Self::builder().start().await
    }

    /// Describes a server that is not like the default one.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(super) async fn new(run: Run, admin: Admin, tls: Option<Tls>, ready: Ready) -> Self {
        let server = Self {
            run,
            admin,
            tls,
            ready,
        };
        server.becomes_ready().await;
        server
    }

    /// Where the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.admin.addr
    }

    /// The port of [`addr`](Self::addr).
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// `redis://127.0.0.1:port`, with the password of the default user if it has one.
    pub fn url(&self) -> String {
        match &self.admin.password {
            Some(password) => self.url_as("", password),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// The URL for a user of [`RedisBuilder::user`]. Nothing in it is escaped.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    /// `rediss://localhost:port` of a server with [`RedisBuilder::tls`].
    pub fn tls_url(&self) -> String {
        let user = self
            .admin()
            .password
            .as_ref()
            .map(|password| format!(":{password}@"));
        format!(
            "rediss://{}localhost:{}",
            user.unwrap_or_default(),
            self.tls_port()
        )
    }

    /// The port that speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.with_tls().port
    }

    /// The certificate (PEM) of the authority that vouches for [`tls_url`](Self::tls_url).
    pub fn ca_path(&self) -> &Path {
        &self.with_tls().ca
    }

    fn with_tls(&self) -> &Tls {
        self.tls.as_ref().expect("the server was built with `tls`")
    }

    /// What the server wrote to its log since it was last started.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn log(&self) -> String {
        self.run.log().await
    }

    /// A connection of the default user for commands that belong together.
    ///
    /// # Errors
    /// When nobody answers.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn connect(&self) -> Result<Connection> {
        self.admin.connect().await
    }

    /// Sends one command as the default user, on a connection of its own.
    ///
    /// # Errors
    /// When the server refuses it, or does not answer within ten seconds.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn command(&self, words: &[&str]) -> Result<Resp> {
        self.admin.command(words).await
    }

    /// One field of `INFO all`.
    ///
    /// # Errors
    /// When the server does not answer, or has no such field.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn info(&self, field: &str) -> Result<String> {
        self.admin.info(field).await
    }

    /// Starts to collect what the server is asked.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn monitor(&self) -> Result<Monitor> {
        Monitor::start(&self.admin).await
    }

    /// SIGKILL. The process has ended, and its port refuses, when this returns.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn kill(&self) {
        self.run.kill().await;
    }

    /// SIGTERM, on which a server says farewell to its clients and replicas.
    ///
    /// # Panics
    /// When the server is not running, or paused.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn stop(&self) {
        self.run.stop().await;
    }

    /// Starts the server on the same port in the same way, after killing the one that runs.
    ///
    /// Its data is gone unless it is [`RedisBuilder::durable`].
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// The server may be down or up; another call brings it up.
    pub async fn restart(&self) {
        self.run.kill().await;
        let up = wait::poll(USABLE_WITHIN, || async {
            match self.run.launch().await {
                Ok(()) => Some(()),
                Err(Failure::PortTaken) => None,
                Err(Failure::Missing(missing)) => panic!("{missing}"),
                Err(Failure::Refused(log)) => panic!("the server does not come up again:\n{log}"),
            }
        });
        up.await.expect("the server's own port becomes free");
        self.becomes_ready().await;
    }

    /// SIGSTOP: the kernel goes on accepting connections and bytes, nobody answers.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn pause(&self) {
        self.run.pause().await;
    }

    /// SIGCONT.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn resume(&self) {
        self.run.resume().await;
    }

    /// Has a server of [`RedisBuilder::loading_for`] load the rest without delay, and waits for it.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn finish_loading(&self) -> Result<()> {
        self.command(&["CONFIG", "SET", "key-load-delay", "0"])
            .await?;
        self.info_becomes("loading", "0").await;
        Ok(())
    }

    /// Has a save fail for want of a folder: the server then refuses writes with `-MISCONF`.
    ///
    /// # Errors
    /// [`Missing`] where the folder is out of reach.
    ///
    /// # Panics
    /// When the server does not answer, or saves all the same.
    ///
    /// # Cancel safety
    /// Unsafe: the folder may be gone, and the server not know.
    pub async fn lose_disk(&self) -> std::result::Result<(), Missing> {
        self.run.lose_folder()?;
        for words in [&["CONFIG", "SET", "save", "3600 1000000"][..], &["BGSAVE"]] {
            self.command(words).await.expect("permitted");
        }
        self.info_becomes("rdb_last_bgsave_status", "err").await;
        Ok(())
    }

    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    async fn becomes_ready(&self) {
        match self.ready {
            Ready::Answering => {}
            Ready::Loaded => self.info_becomes("loading", "0").await,
            Ready::Replicating => self.info_becomes("master_link_status", "up").await,
        }
    }

    async fn info_becomes(&self, field: &str, value: &str) {
        eventually(USABLE_WITHIN, &format!("{field} is {value}"), || async {
            self.info(field).await.is_ok_and(|now| now == value)
        })
        .await;
    }
}

#[cfg(test)]
mod tests;

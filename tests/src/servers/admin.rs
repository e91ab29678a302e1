//! The harness's own access to a server.

use std::net::SocketAddr;

use crate::resp::{CommandError, Connection, Resp, Result};

/// Where a server is, and its password.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) addr: SocketAddr,
    pub(super) password: Option<String>,
}

impl Admin {
    pub(super) async fn connect(&self) -> Result<Connection> {
        let mut connection = Connection::open(self.addr).await?;
        if let Some(password) = &self.password {
            connection.command(&["AUTH", password]).await?;
        }
        Ok(connection)
    }

    /// Takes a fresh connection: one that is kept would belong to the runtime of one test, and
    /// would be what `CLIENT KILL` and a restart break.
    pub(super) async fn command(&self, words: &[&str]) -> Result<Resp> {
        self.connect().await?.command(words).await
    }

    pub(super) async fn info(&self, field: &str) -> Result<String> {
        let text = self.command(&["INFO", "all"]).await?.text();
        let value = text
            .lines()
            .find_map(|line| line.split_once(':').filter(|at| at.0 == field));
        let (_, value) =
            value.ok_or_else(|| CommandError::Server(format!("INFO has no field {field}")))?;
        Ok(value.to_owned())
    }
}

//! A client of Socket.IO: the one from npm, unmodified, as a process that tells what it hears.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    need::Missing,
    npm,
    process::{NodeProcess, Program},
};

const SCRIPT: &str = include_str!("../npm/socket.mjs");
/// Far above what anything that it says takes.
const SOON: Duration = Duration::from_mins(1);

/// Runs the script `text`, called `name`, with these arguments; it may import the client.
///
/// # Errors
/// [`Missing`] when this machine has no Node or no npm, or cannot get the client.
///
/// # Panics
/// When it cannot be written.
///
/// # Cancel safety
/// Safe.
pub async fn script(
    name: &'static str,
    text: impl Into<String>,
    arguments: &[&str],
) -> Result<NodeProcess, Missing> {
    let text = text.into();
    let installed = tokio::task::spawn_blocking(move || npm::script(name, &text)).await;
    let script = installed.expect("installing does not panic")?;
    let program = Program::at("node").arg(script).args(arguments);
    Ok(program.start().expect("node told its version"))
}

/// A client; dropping it ends it.
pub struct SocketClient {
    process: NodeProcess,
}

impl SocketClient {
    /// One that connects to the first of `urls` with `token`, or with none if that is empty, and to
    /// the next one whenever a connection fails or ends.
    ///
    /// # Errors
    /// [`Missing`] when this machine has no Node or no npm, or cannot get the client.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn start(token: &str, urls: &[&str]) -> Result<Self, Missing> {
        Self::with(token, "", urls).await
    }

    /// One without a token in a page of `origin`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn of_page(origin: &str, url: &str) -> Result<Self, Missing> {
        Self::with("", origin, &[url]).await
    }

    async fn with(token: &str, origin: &str, urls: &[&str]) -> Result<Self, Missing> {
        let words: Vec<_> = [token, origin].iter().chain(urls).copied().collect();
        let process = script("socket.mjs", SCRIPT, &words).await?;
        Ok(Self { process })
    }

    /// What it next says of `what`, skipping all else: the rest of its line.
    ///
    /// # Panics
    /// When it says nothing of it for long.
    ///
    /// # Cancel safety
    /// What was skipped is.
    pub async fn says(&mut self, what: &str) -> String {
        let start = format!("{what} ");
        let line = self.process.line_starting(&start, SOON).await;
        line[start.len()..].to_owned()
    }

    /// As [`says`](Self::says), read as JSON.
    ///
    /// # Panics
    /// Likewise, and when it is none.
    ///
    /// # Cancel safety
    /// Likewise.
    pub async fn hears(&mut self, what: &str) -> Value {
        let said = self.says(what).await;
        serde_json::from_str(&said).expect("JSON")
    }

    /// Sends a request, whatever becomes of it.
    ///
    /// # Panics
    /// When the client has ended.
    ///
    /// # Cancel safety
    /// Unsafe: it may have been sent.
    pub async fn sends(&mut self, event: &str, argument: Value) {
        let line = json!([event, argument]).to_string();
        self.process.send(&line).await.expect("it reads");
    }

    /// Sends a request, and gives its answer.
    ///
    /// # Panics
    /// When there is none for long.
    ///
    /// # Cancel safety
    /// Unsafe: it may have been sent.
    pub async fn asks(&mut self, event: &str, argument: Value) -> Value {
        self.sends(event, argument).await;
        self.hears("answer").await
    }
}

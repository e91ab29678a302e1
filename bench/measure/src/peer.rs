//! A peer as a process of its own: what it is told, and what it answers, each a line of JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::Result;
use crate::round::Driven;

/// One round of work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Which.
    pub work: String,
    /// By how many at a time.
    pub in_flight: usize,
    /// For how long.
    pub ms: u64,
    /// How much of it waits, where that is worked off.
    #[serde(default)]
    pub jobs: u64,
}

impl Task {
    /// For how long.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

/// What a peer answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It did it.
    Driven(Driven),
    /// It did not.
    Error(String),
}

/// Answers tasks, one after the other, until there are no more.
pub async fn serve(mut work: impl AsyncFnMut(Task) -> Result<Driven>) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    while let Some(line) = lines.next_line().await? {
        let answer = match work(serde_json::from_str(&line)?).await {
            Ok(driven) => Answer::Driven(driven),
            Err(error) => Answer::Error(error.to_string()),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

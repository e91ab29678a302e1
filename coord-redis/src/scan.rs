//! Finding and removing keys by a pattern, in steps that the server does not feel.

use std::collections::HashMap;

use coord_core::{Pattern, Result};
use tokio::time::Instant;

use crate::client::Redis;
use crate::command::{Command, Reply, scanned_slot};
use crate::link::Link;

/// Keys asked for in one step of a scan: a few hundred microseconds of the server's time.
const SCAN_COUNT: u32 = 1000;

impl Redis {
    /// All keys that match `pattern`, in no order; a key that comes or goes meanwhile may be
    /// missing or there. The server is never blocked for longer than one step.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn scan(&self, pattern: &Pattern) -> Result<Vec<String>> {
        let scan = Command::new("SCAN").idempotent();
        let mut keys = Vec::new();
        let deadline = Instant::now() + self.0.config.deadline;
        for link in self.0.command.links(&scan, deadline).await? {
            let mut cursor = "0".to_owned();
            loop {
                let (next, found) = self.scan_step(&link, pattern, &cursor).await?;
                keys.extend(found);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Removes all keys that match `pattern`, and says how many; a key that comes meanwhile may
    /// stay. It goes in steps of some thousand keys, one call for the keys of a step (of a slot of
    /// a cluster), so that the server is never blocked for longer.
    ///
    /// # Errors
    /// As [`run`](Self::run); what was removed before the error is gone.
    ///
    /// # Cancel safety
    /// Safe: some keys may be left, and another call removes them.
    pub async fn remove(&self, pattern: &Pattern) -> Result<u64> {
        let scan = Command::new("SCAN").idempotent();
        let mut removed = 0;
        let deadline = Instant::now() + self.0.config.deadline;
        for link in self.0.command.links(&scan, deadline).await? {
            let mut cursor = "0".to_owned();
            loop {
                let (next, found) = self.scan_step(&link, pattern, &cursor).await?;
                for unlink in self.unlinking(found) {
                    removed += u64::try_from(self.run(&unlink).await?.int()?).unwrap_or(0);
                }
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// One step of a scan of one master: the next cursor, and what was found.
    async fn scan_step(
        &self,
        link: &Link,
        pattern: &Pattern,
        cursor: &str,
    ) -> Result<(String, Vec<String>)> {
        let step = Command::new("SCAN").idempotent().arg(cursor);
        let step = step.arg("MATCH").pattern(pattern);
        let step = step.arg("COUNT").arg(SCAN_COUNT);
        let deadline = Instant::now() + self.0.config.deadline;
        let reply = self.0.command.run_on(link, &step, deadline).await?;
        let [next, found] = reply.array()?;
        let found = found.list()?.into_iter().map(Reply::text);
        Ok((next.text()?, found.collect::<Result<_>>()?))
    }

    /// The calls that remove `found`: one, or on a cluster one a slot.
    fn unlinking(&self, found: Vec<String>) -> Vec<Command> {
        let mut calls = HashMap::new();
        for key in found {
            let slot = self.is_cluster().then(|| scanned_slot(&key));
            let call = calls
                .remove(&slot)
                .unwrap_or_else(|| Command::new("UNLINK").idempotent());
            calls.insert(slot, call.scanned(&key));
        }
        calls.into_values().collect()
    }
}

//! What became of a command without an answer, and how its effect is undone.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::time::Instant;

use super::Redis;
use crate::command::{Command, Receipt, Reply};
use crate::signals::Signal;

/// Between two attempts to settle what became of a command.
const SETTLE: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

impl Redis {
    /// Repeats a compare-and-delete until it is certain that the claim it undoes cannot hold.
    ///
    /// `receipt` belongs to the claim. A reply on the one connection that carried it settles at
    /// once, since the claim was executed before it. Elsewhere a reply that `undid` something
    /// settles; one that found nothing proves nothing while the claim may still be on its way. So
    /// it is asked again, until `until`, or until a server that answers has had the time in which
    /// a connection that died could still deliver: the deadline and two ping intervals.
    ///
    /// # Errors
    /// The last error when there was no reply by `until`.
    ///
    /// # Cancel safety
    /// Safe: it is idempotent. Give it to [`spawn`](Self::spawn) to have it finish.
    pub async fn settle(
        &self,
        undo: &Command,
        receipt: &Receipt,
        undid: fn(&Reply) -> bool,
        mut until: Instant,
    ) -> Result<Reply> {
        let mut last = self.undo_behind(undo, receipt, until).await;
        if let Ok((reply, true)) = last {
            return Ok(reply);
        }
        let late = self.0.config.deadline + 2 * self.0.config.ping_interval;
        let (mut answered, mut attempt) = (None, 0);
        while !matches!(&last, Ok((reply, _)) if undid(reply)) && Instant::now() < until {
            if last.is_ok() {
                let since = *answered.get_or_insert_with(Instant::now);
                until = until.min(since + late);
            }
            tokio::time::sleep(SETTLE.jittered(attempt)).await;
            attempt += 1;
            let deadline = until.min(Instant::now() + self.0.config.deadline);
            match self.0.apart.run(undo, deadline).await {
                Ok(reply) => last = Ok((reply, false)),
                // What an earlier reply said is worth more than a later error.
                Err(error) => last = last.or(Err(error)),
            }
        }
        if last.is_err() {
            Signal::ReleaseAbandoned {
                command: Detail::new(undo.name),
            }
            .emit();
        }
        last.map(|(reply, _)| reply)
    }

    async fn undo_behind(
        &self,
        undo: &Command,
        receipt: &Receipt,
        until: Instant,
    ) -> Result<(Reply, bool)> {
        let deadline = until.min(Instant::now() + self.0.config.deadline);
        self.0
            .command
            .run_behind(undo.clone(), receipt, deadline)
            .await
    }
}

//! The loop that hands messages to a handler.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Backoff, Result};

use crate::queue::{Delivery, Queue};

mod held;
mod report;
mod work;

use work::Work;

/// Receives messages of one queue and runs a handler on each, several at once.
///
/// - A handler that returns `Ok` completes its message. One that returns an error or panics costs
///   an attempt: the message is handed out again after a delay, or goes to the dead letters.
/// - While a handler is at work its delivery is extended, three times a visibility and not held up
///   by a busy runtime. Should it be lost all the same (Redis was away for longer than the
///   visibility), the handler is dropped at its next `await`, since somebody else has the message.
/// - What was handled is reported in batches, of whatever has come together during the last
///   report.
///
/// # Guarantees
/// Those of [`Queue`]: at least once. A handler runs twice when its completion did not arrive in
/// time, or when it was dropped; so it is idempotent, or checks.
///
/// # Example
/// Shut down by SIGTERM, as a service is that is deployed anew:
/// ```no_run
/// use coord_fanout::{Consumer, Failure, Queue};
/// use tokio::signal::unix::{SignalKind, signal};
///
/// # async fn example(queue: impl Queue + Clone) -> Result<(), Box<dyn std::error::Error>> {
/// let mut terminate = signal(SignalKind::terminate())?;
/// let consumer = Consumer::new(queue).concurrency(32.try_into()?);
/// consumer
///     .run(
///         async |delivery| {
///             let text = std::str::from_utf8(&delivery.message.body)
///                 .map_err(|error| Failure::permanent(error))?;
///             tokio::fs::write("last", text).await?;
///             Ok(())
///         },
///         async move { _ = terminate.recv().await },
///     )
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Consumer<Q> {
    queue: Q,
    concurrency: NonZeroUsize,
    retry: Backoff,
    drain: Duration,
    report_every: Duration,
}

impl<Q: Queue + Clone> Consumer<Q> {
    /// A consumer of `queue` with the defaults.
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            concurrency: NonZeroUsize::new(16).expect("sixteen is not zero"),
            retry: Backoff::new(Duration::from_secs(1), Duration::from_mins(5)),
            drain: Duration::from_secs(20),
            report_every: Duration::from_secs(10),
        }
    }

    /// How many handlers run at once, and how many messages are held at most; 16 by default.
    #[must_use]
    pub fn concurrency(mut self, concurrency: NonZeroUsize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long a failed message waits before its next attempt, if the handler does not say; up to
    /// a second at first and up to five minutes later by default.
    #[must_use]
    pub fn retry(mut self, retry: Backoff) -> Self {
        self.retry = retry;
        self
    }

    /// How long handlers at work may take to end after the shutdown; 20 s by default, less than
    /// the 30 s that Kubernetes gives a process.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// How often depth and lag of the queue are reported; 10 s by default.
    #[must_use]
    pub fn report_every(mut self, every: Duration) -> Self {
        self.report_every = every;
        self
    }

    /// Consumes until `shutdown` resolves and the handlers at work have ended.
    ///
    /// From the shutdown on nothing is received, and what was received and not started is handed
    /// back at once, without an attempt counted. So is the message of a handler that is still at
    /// work at the end of the drain time; the handler is dropped. An outage of the queue ends
    /// nothing: the consumer goes on when it is back.
    ///
    /// # Errors
    /// `Invalid` and `Corrupt` when receiving can never succeed, after the same drain. `Timeout`
    /// when the queue could not be told of some deliveries by the end of the drain time; they are
    /// handed out again.
    ///
    /// # Cancel safety
    /// Safe to drop: the handlers are dropped, and their messages are handed out again when their
    /// visibility ends.
    pub async fn run<H, F>(
        self,
        handler: H,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()>
    where
        H: Fn(Arc<Delivery>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Work::new(self, handler).run(shutdown).await
    }
}

/// Why a handler failed, and whether another attempt makes sense.
///
/// Every error becomes one with `?`, and is retried.
pub struct Failure {
    reason: String,
    next: Next,
}

/// What is to follow a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another attempt, when the consumer's backoff says.
    Backoff,
    /// Another attempt after this time.
    After(Duration),
    /// None.
    Never,
}

impl Failure {
    /// A failure that another attempt may not have.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            next: Next::Backoff,
        }
    }

    /// A failure that every attempt will have: the message goes to the dead letters at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            next: Next::Never,
        }
    }

    /// The same failure, to be retried after `delay`; at most [`MAX_DELAY`](crate::MAX_DELAY).
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.next = Next::After(delay);
        self
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    /// The error and its causes, each after a colon.
    fn from(error: E) -> Self {
        Self::new(coord_core::signals::Detail::error(&error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Failure({:?}, {:?})", self.reason, self.next)
    }
}

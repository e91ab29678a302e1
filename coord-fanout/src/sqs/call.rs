//! One request until it gets through, and many at once.
//!
//! The client's own retries are off: it keeps to itself whether an earlier attempt was sent, and
//! that is what decides between "nothing happened" and "it may have happened". Every request here
//! may be repeated: sends by their deduplication ids, receives by their attempt id, deletions and
//! visibilities by their receipt handles.

use std::error::Error as StdError;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{Config, StalledStreamProtectionConfig};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::sorted;

/// Between two attempts: what is throttled must not come back at once.
pub(super) const AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Most requests at once for one call: at some 20 ms each about the 300 a second that SQS takes
/// for a FIFO queue without high throughput.
pub(super) const LANES: usize = 8;

/// How long one request may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// One attempt at it.
    pub(super) attempt: Duration,
    /// All attempts together.
    pub(super) total: Duration,
}

impl Limit {
    /// Two attempts at an endpoint that swallows them.
    pub(super) fn within(total: Duration) -> Self {
        Self {
            attempt: total / 2,
            total,
        }
    }

    /// The same for a request that SQS keeps for `wait` on purpose.
    pub(super) fn after(self, wait: Duration) -> Self {
        Self {
            attempt: self.attempt + wait,
            total: self.total + wait,
        }
    }
}

/// An answer.
pub(super) struct Answer<T> {
    pub(super) said: T,
    /// An earlier attempt was sent and not answered: it may have been executed.
    pub(super) again: bool,
}

/// A client like `config`, with what this module does itself turned off. Each has connections of
/// its own.
pub(super) fn client(config: &Config, deadline: Duration) -> Client {
    let timeouts = TimeoutConfig::builder().connect_timeout(deadline / 4);
    let config = config
        .to_builder()
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

/// Sends what `request` makes until it is answered, or the time is up.
///
/// # Errors
/// `Unavailable` when no attempt was executed, `Timeout` when one may have been. `Invalid` at once.
pub(super) async fn call<T, E, F>(
    doing: &str,
    limit: Limit,
    mut request: impl FnMut() -> F,
) -> Result<Answer<T>>
where
    F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let until = Instant::now() + limit.total;
    let (mut attempt, mut again) = (0, false);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // Large, and kept on the heap by every caller otherwise.
        let answer = Box::pin(request());
        let error = match tokio::time::timeout(limit.attempt.min(left), answer).await {
            Ok(Ok(said)) => return Ok(Answer { said, again }),
            Ok(Err(error)) => sorted(doing, error),
            Err(_) => Error::timeout(format!("{doing}: sent, and not answered in time")),
        };
        again |= error.kind() == ErrorKind::Timeout;
        let passes = matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable);
        let delay = AGAIN.jittered(attempt);
        attempt += 1;
        if !passes || Instant::now() + delay >= until {
            return Err(if passes && again && error.kind() != ErrorKind::Timeout {
                Error::timeout(format!(
                    "{doing}: an earlier attempt may have been executed"
                ))
                .with_source(error)
            } else {
                error
            });
        }
        tokio::time::sleep(delay).await;
    }
}

/// Runs all `work`, a few at once; the results in its order. Dropped, it ends them.
pub(super) async fn together<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut waiting = work.into_iter().enumerate();
    let (mut running, mut done) = (JoinSet::new(), Vec::new());
    loop {
        while running.len() < LANES
            && let Some((position, work)) = waiting.next()
        {
            running.spawn(async move { (position, work.await) });
        }
        match running.join_next().await {
            None => break,
            Some(Ok(one)) => done.push(one),
            // Nothing is cancelled before this is dropped.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    done.sort_unstable_by_key(|(position, _)| *position);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_done_together_keeps_its_order_and_its_bound() {
        let running = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let work = (0..LANES * 3).map(|number| {
            let running = std::sync::Arc::clone(&running);
            async move {
                let now = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                for _ in 0..number % 5 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                (number, now)
            }
        });

        let done = together(work).await;

        assert!(done.iter().map(|(number, _)| *number).eq(0..LANES * 3));
        assert!(done.iter().all(|(_, running)| *running <= LANES));
    }
}

//! The memory of an outage: while Redis is away, only one call a second waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coord_core::{ErrorKind, Result};
use tokio::time::Instant;

/// How long after a failure nobody asks.
const REST: Duration = Duration::from_secs(1);

pub(crate) struct Breaker {
    start: Instant,
    /// Ms since the start until which nobody asks; 0 while Redis answers.
    until_ms: AtomicU64,
    /// How long the one that asks may take.
    probe: Duration,
}

impl Breaker {
    pub(crate) fn new(start: Instant, probe: Duration) -> Self {
        Self {
            start,
            until_ms: AtomicU64::new(0),
            probe,
        }
    }

    /// Whether to ask Redis at `now`. During an outage one caller is let through at a time.
    pub(crate) fn lets_through(&self, now: Instant) -> bool {
        let until_ms = self.until_ms.load(Ordering::Acquire);
        if until_ms == 0 {
            return true;
        }
        until_ms <= self.at(now)
            && self
                .until_ms
                .compare_exchange(
                    until_ms,
                    self.at(now + self.probe),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_ok()
    }

    /// Awaits what Redis is asked, and remembers whether it was there.
    pub(crate) async fn watch<R>(&self, asking: impl Future<Output = Result<R>>) -> Result<R> {
        let sent_at = Instant::now();
        let answer = asking.await;
        match &answer {
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
                // Whoever is refused at once need not be spared the wait.
                if sent_at.elapsed() >= self.probe / 2 {
                    self.failed(Instant::now());
                }
            }
            _ => self.answered(),
        }
        answer
    }

    fn answered(&self) {
        if self.until_ms.load(Ordering::Acquire) != 0 {
            self.until_ms.store(0, Ordering::Release);
        }
    }

    fn failed(&self, now: Instant) {
        self.until_ms.store(self.at(now + REST), Ordering::Release);
    }

    /// Never 0, which says that all is well.
    fn at(&self, now: Instant) -> u64 {
        1 + now.duration_since(self.start).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_one_caller_a_second_is_let_through_until_one_is_answered() {
        let start = Instant::now();
        let breaker = Breaker::new(start, Duration::from_secs(2));
        let lets_through = |ms| breaker.lets_through(start + Duration::from_millis(ms));
        assert!(lets_through(0) && lets_through(0));

        breaker.failed(start);
        assert!(!lets_through(999));
        assert!(lets_through(1000), "the one that asks");
        assert!(!lets_through(1001), "while it asks");
        // It was dropped and told nothing: after its deadline the next one asks.
        assert!(lets_through(3000));

        breaker.failed(start + Duration::from_secs(3));
        assert!(!lets_through(3500));
        breaker.answered();
        assert!(lets_through(3500) && lets_through(3500));
    }
}

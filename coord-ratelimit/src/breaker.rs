//! Not asking a Redis that does not answer.
//!
//! A call that Redis does not take within its whole deadline opens the breaker: it has seen an
//! outage as long as the deadline, and the next call would wait as long. A call that is sent and not
//! answered may be alone in that, as when its connection breaks: the policy decides that one, and a
//! second one without any answer in between, within [`DEADLINES`], opens. While the breaker is open,
//! calls are decided by policy at once, and no caller is sent ahead to see whether Redis is back: a
//! task on the client's own thread writes a key beside the one that failed, at most
//! [`PROBE`]'s cap apart, and closes the breaker when that succeeds. A write, since a replica, a
//! full server and one that cannot persist answer reads.
//!
//! On a cluster there is one breaker a slot, so that a node that is away takes only its own
//! subjects along.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Key};
use coord_redis::{Command, Redis};
use tokio::time::Instant;

use crate::signals::Signal;

/// Between two looks at a Redis that is away: the first soon, since most outages are hiccups; never
/// more than a second apart, since every second longer is one without the limit.
const PROBE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

/// The life of the key that a look writes: it is of no use afterwards.
const PROBE_TTL_MS: u32 = 1000;

/// How many deadlines lie between two calls without an answer that are one outage: calls that are
/// made one after the other are two apart, and those of an hour ago say nothing.
const DEADLINES: u32 = 4;

/// The breakers of one client.
pub(crate) struct Breakers {
    redis: Redis,
    /// How many slots are in doubt, to be read without the lock.
    count: AtomicUsize,
    /// By slot, where not all is well; without a cluster there is one slot.
    doubts: Mutex<HashMap<Option<u16>, Doubt>>,
}

/// What is wrong with a slot, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// One call was not answered, and none has been since.
    Unanswered(Instant),
    /// Redis is not asked.
    Open(Instant),
}

impl Doubt {
    /// After a call that ended in an outage of this `kind`.
    fn after(before: Option<Self>, kind: ErrorKind, now: Instant, window: Duration) -> Self {
        match before {
            Some(open @ Self::Open(_)) => open,
            Some(Self::Unanswered(since)) if now.duration_since(since) <= window => Self::Open(now),
            _ if kind == ErrorKind::Unavailable => Self::Open(now),
            _ => Self::Unanswered(now),
        }
    }
}

impl Breakers {
    /// The breakers that all limiters of `redis` share.
    pub(crate) fn of(redis: &Redis) -> Arc<Self> {
        redis.shared(|| Self {
            redis: redis.clone(),
            count: AtomicUsize::new(0),
            doubts: Mutex::default(),
        })
    }

    /// Whether Redis is not to be asked about `key`.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.count.load(Ordering::Acquire) > 0
            && matches!(
                self.doubts().get(&self.redis.slot(key)),
                Some(Doubt::Open(_))
            )
    }

    /// Takes note that Redis answered a call on `key`.
    pub(crate) fn answered(&self, key: &Key) {
        if self.count.load(Ordering::Acquire) > 0 {
            let slot = self.redis.slot(key);
            let mut doubts = self.doubts();
            if let Some(Doubt::Unanswered(_)) = doubts.get(&slot) {
                doubts.remove(&slot);
                self.count.store(doubts.len(), Ordering::Release);
            }
        }
    }

    /// Takes note that a call on `key` ended in `error`. Where that opens the breaker, looks after
    /// Redis from then on.
    pub(crate) fn failed(self: &Arc<Self>, key: &Key, error: &Error) {
        let (slot, window) = (self.redis.slot(key), self.redis.deadline() * DEADLINES);
        {
            let mut doubts = self.doubts();
            let before = doubts.get(&slot).copied();
            let doubt = Doubt::after(before, error.kind(), Instant::now(), window);
            doubts.insert(slot, doubt);
            self.count.store(doubts.len(), Ordering::Release);
            if before == Some(doubt) || matches!(doubt, Doubt::Unanswered(_)) {
                return;
            }
        }
        let (limit, error) = (key.clone(), Detail::error(error));
        Signal::Degraded { limit, error }.emit();
        self.redis
            .tend(look(Arc::downgrade(self), key.part("probe")));
    }

    fn close(&self, key: &Key) {
        let mut doubts = self.doubts();
        let doubt = doubts.remove(&self.redis.slot(key));
        self.count.store(doubts.len(), Ordering::Release);
        drop(doubts);
        if let Some(Doubt::Open(since)) = doubt {
            let outage_ms = since.elapsed();
            Signal::Restored { outage_ms }.emit();
        }
    }

    fn doubts(&self) -> MutexGuard<'_, HashMap<Option<u16>, Doubt>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `error` says that Redis could not be asked, rather than what is wrong with the call.
pub(crate) fn is_outage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Looks after Redis until it takes a write at `key`, or until nobody needs to know any more.
async fn look(breakers: Weak<Breakers>, key: Key) {
    let mut attempt = 0;
    loop {
        tokio::time::sleep(PROBE.jittered(attempt)).await;
        attempt += 1;
        let Some(breakers) = breakers.upgrade() else {
            return;
        };
        let write = Command::new("SET").key(&key).arg(1);
        let write = write.arg("PX").arg(PROBE_TTL_MS).idempotent();
        match breakers.redis.run(&write).await {
            Err(error) if is_outage(&error) => {}
            // Also an error that the callers should see.
            _ => return breakers.close(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(8);

    fn after(before: Option<Doubt>, kind: ErrorKind, now: Instant) -> Doubt {
        Doubt::after(before, kind, now, WINDOW)
    }

    #[test]
    fn a_call_that_was_not_taken_opens_at_once() {
        let now = Instant::now();

        let open = after(None, ErrorKind::Unavailable, now);

        assert_eq!(open, Doubt::Open(now));
        assert_eq!(after(Some(open), ErrorKind::Timeout, now + WINDOW), open);
    }

    #[test]
    fn the_second_call_without_an_answer_opens_within_the_window_and_not_a_moment_later() {
        let first = Instant::now();
        let doubt = after(None, ErrorKind::Timeout, first);
        assert_eq!(doubt, Doubt::Unanswered(first));

        let (last, late) = (first + WINDOW, first + WINDOW + Duration::from_nanos(1));
        let second = |now| after(Some(doubt), ErrorKind::Timeout, now);

        assert_eq!(second(last), Doubt::Open(last));
        assert_eq!(second(late), Doubt::Unanswered(late));
    }
}

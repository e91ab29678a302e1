//! Not asking a Redis that does not answer.
//!
//! The first call that Redis does not take within its whole deadline opens the breaker: it has
//! seen an outage as long as the deadline, and the next call would wait as long. While it is open,
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

/// The breakers of one client.
pub(crate) struct Breakers {
    redis: Redis,
    /// How many are open, to be read without the lock.
    count: AtomicUsize,
    /// Since when, by slot; without a cluster there is one slot.
    open: Mutex<HashMap<Option<u16>, Instant>>,
}

impl Breakers {
    /// The breakers that all limiters of `redis` share.
    pub(crate) fn of(redis: &Redis) -> Arc<Self> {
        redis.shared(|| Self {
            redis: redis.clone(),
            count: AtomicUsize::new(0),
            open: Mutex::default(),
        })
    }

    /// Whether Redis is not to be asked about `key`.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.open().contains_key(&self.redis.slot(key))
    }

    /// Opens after a call on `key` ended in `error`, and looks after Redis from then on.
    pub(crate) fn trip(self: &Arc<Self>, key: &Key, error: &Error) {
        let slot = self.redis.slot(key);
        {
            let mut open = self.open();
            if open.contains_key(&slot) {
                return;
            }
            open.insert(slot, Instant::now());
            self.count.store(open.len(), Ordering::Release);
        }
        let (limit, error) = (key.clone(), Detail::error(error));
        Signal::Degraded { limit, error }.emit();
        self.redis
            .tend(look(Arc::downgrade(self), key.part("probe")));
    }

    fn close(&self, key: &Key) {
        let mut open = self.open();
        let since = open.remove(&self.redis.slot(key));
        self.count.store(open.len(), Ordering::Release);
        drop(open);
        if let Some(since) = since {
            let outage_ms = since.elapsed();
            Signal::Restored { outage_ms }.emit();
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Option<u16>, Instant>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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

//! Decoded values in the process, kept true by the news of changed keys.
//!
//! A reply may be on its way while the news that it is outdated come in on another connection. So
//! whoever reads takes a ticket before the request is sent, and what was read is kept only if no
//! news of its key have come since. Keys share their counters by hash: news of a neighbour cost a
//! round trip, never truth.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coord_core::Name;
use coord_redis::{Change, Redis, Tracking};
use quick_cache::sync::Cache as Map;

use crate::options;
use crate::scripts::KIND;
use crate::signals::{Flush, Signal, Source};

/// Enough that keys rarely share one, few enough that emptying them all is quick.
const COUNTERS: usize = 256;

/// Hits are told in batches: telling one would cost more than the hit.
const BATCH: u64 = 1024;

pub(crate) struct Near<T> {
    kept: Arc<Kept<T>>,
    pub(crate) life: Duration,
    /// Ends with the near cache.
    _tracking: Tracking,
}

struct Kept<T> {
    cache: Name,
    values: Map<Name, Held<T>>,
    /// How often each share of the keys was told to have changed.
    news: Vec<Mutex<u64>>,
    hasher: RandomState,
    /// Whether every change is told.
    live: AtomicBool,
    untold: AtomicU64,
}

/// What is kept; without a value, that there is none.
pub(crate) struct Held<T> {
    pub(crate) value: Option<Arc<T>>,
    until: Instant,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            until: self.until,
        }
    }
}

/// What was known of a key before it was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    share: usize,
    news: u64,
    /// The life of what is read counts from here, since the answer may have been long on its way.
    taken_at: Instant,
}

impl<T: Send + Sync + 'static> Near<T> {
    pub(crate) fn start(redis: &Redis, cache: &Name, near: options::Near) -> Self {
        let kept = Arc::new(Kept {
            cache: cache.clone(),
            values: Map::new(near.entries),
            news: (0..COUNTERS).map(|_| Mutex::new(0)).collect(),
            hasher: RandomState::new(),
            live: AtomicBool::new(false),
            untold: AtomicU64::new(0),
        });
        let pattern = redis.keys().pattern_within(KIND, &[cache], "");
        let (told, keys) = (Arc::clone(&kept), redis.keys().clone());
        let tracking = redis.track(&pattern, move |change| match change {
            Change::Begun => {
                told.empty();
                told.live.store(true, Ordering::SeqCst);
            }
            Change::Ended => {
                told.live.store(false, Ordering::SeqCst);
                told.flush(Flush::Interrupted);
            }
            Change::Everything => told.flush(Flush::Everything),
            // What lies beside an entry has no name.
            Change::Key(key) => {
                if let Some([_, name]) = keys.names(KIND, key).as_deref() {
                    told.drop_one(name);
                }
            }
        });
        Self {
            kept,
            life: near.life,
            _tracking: tracking,
        }
    }

    /// The value, or that there is none, if that is kept and still true.
    pub(crate) fn get(&self, name: &Name) -> Option<Held<T>> {
        let held = self.kept.values.get(name)?;
        if !self.kept.live.load(Ordering::Acquire) || held.until <= Instant::now() {
            return None;
        }
        if self.kept.untold.fetch_add(1, Ordering::Relaxed) + 1 >= BATCH {
            self.tell_hits();
        }
        Some(held)
    }

    /// To be taken before the entry is asked for.
    pub(crate) fn ticket(&self, name: &Name) -> Option<Ticket> {
        let share = self.kept.share(name);
        let news = *self.kept.news(share);
        let live = self.kept.live.load(Ordering::SeqCst);
        live.then(|| Ticket {
            share,
            news,
            taken_at: Instant::now(),
        })
    }

    /// Keeps what was read, unless it may have changed since the ticket was taken.
    pub(crate) fn keep(&self, ticket: Ticket, name: &Name, value: Option<Arc<T>>, life: Duration) {
        let news = self.kept.news(ticket.share);
        if *news == ticket.news && self.kept.live.load(Ordering::SeqCst) && !life.is_zero() {
            let until = ticket.taken_at + life;
            self.kept.values.insert(name.clone(), Held { value, until });
        }
    }

    /// Forgets a key that this process changes, without waiting for the news.
    pub(crate) fn forget(&self, name: &Name) {
        self.kept.drop_one(name);
    }

    /// Forgets all keys, for a change of many.
    pub(crate) fn forget_all(&self) {
        self.kept.empty();
    }

    /// Tells of the hits that were not told yet.
    pub(crate) fn tell_hits(&self) {
        let hits = self.kept.untold.swap(0, Ordering::Relaxed);
        if hits > 0 {
            Signal::Hit {
                source: Source::Near,
                hits,
                cache: self.kept.cache.clone(),
            }
            .emit();
        }
    }
}

impl<T> Drop for Near<T> {
    fn drop(&mut self) {
        self.kept.live.store(false, Ordering::SeqCst);
    }
}

impl<T> Kept<T> {
    fn share(&self, name: &Name) -> usize {
        self.hasher.hash_one(name) as usize % COUNTERS
    }

    fn news(&self, share: usize) -> MutexGuard<'_, u64> {
        // A number is whole whatever panicked.
        self.news[share]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_one(&self, name: &Name) {
        let mut news = self.news(self.share(name));
        *news += 1;
        self.values.remove(name);
    }

    fn empty(&self) {
        for share in 0..COUNTERS {
            *self.news(share) += 1;
        }
        self.values.clear();
    }

    fn flush(&self, cause: Flush) {
        self.empty();
        let cache = self.cache.clone();
        Signal::NearFlushed { cause, cache }.emit();
    }
}

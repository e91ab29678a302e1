//! Denials that still hold, so that Redis need not be asked again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coord_core::Key;
use tokio::time::Instant;

use crate::decision::{By, Decision, Standing};

/// The longest time for which a denial is believed: a reset or a refund in another process is
/// seen after that, and a subject that hammers costs one call a second.
const BELIEVED: Duration = Duration::from_secs(1);

/// Denials kept: a subject more is asked about every time.
const MAX_KEPT: usize = 10_000;

/// The denials of one limiter.
#[derive(Default)]
pub(crate) struct Denials {
    /// How many are kept, to be read without the lock.
    count: AtomicUsize,
    kept: Mutex<HashMap<Key, Denial>>,
}

struct Denial {
    /// What was asked for: as much or more is denied too, less may fit.
    permits: u32,
    /// When it fits, at the earliest: counted from before the call was sent.
    fits_at: Instant,
    believed_until: Instant,
    standing: Standing,
}

impl Denials {
    /// The denial that a call of `permits` on `keys` would get.
    pub(crate) fn recall(&self, keys: &[Key], permits: u32) -> Option<Decision> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let now = Instant::now();
        let kept = self.kept();
        let denials = keys.iter().filter_map(|key| kept.get(key));
        let holds = |denial: &&Denial| denial.permits <= permits && now < denial.believed_until;
        let denial = denials.filter(holds).max_by_key(|denial| denial.fits_at)?;
        let since = BELIEVED.saturating_sub(denial.believed_until - now);
        Some(Decision::Denied {
            retry_after: denial.fits_at - now,
            standing: Standing {
                by: By::Memory,
                reset_after: denial.standing.reset_after.saturating_sub(since),
                ..denial.standing.clone()
            },
        })
    }

    /// Keeps that `permits` on `key`, asked for at `sent_at`, fit only after `retry_after`.
    pub(crate) fn keep(&self, key: &Key, permits: u32, sent_at: Instant, denied: &Decision) {
        let Decision::Denied {
            retry_after,
            standing,
        } = denied
        else {
            return;
        };
        let fits_at = sent_at + *retry_after;
        let denial = Denial {
            permits,
            fits_at,
            believed_until: fits_at.min(sent_at + BELIEVED),
            standing: standing.clone(),
        };
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            let now = Instant::now();
            kept.retain(|_, denial| now < denial.believed_until);
        }
        if kept.len() < MAX_KEPT {
            kept.insert(key.clone(), denial);
        }
        self.count.store(kept.len(), Ordering::Release);
    }

    /// Forgets what is known of `keys`: permits came back.
    pub(crate) fn forget(&self, keys: &[Key]) {
        let mut kept = self.kept();
        for key in keys {
            kept.remove(key);
        }
        self.count.store(kept.len(), Ordering::Release);
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Key, Denial>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

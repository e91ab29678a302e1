//! A sliding window by two counters, exactly: no I/O, no clock, no floating point.
//!
//! Of the window before the current one, the part counts that the sliding window still covers:
//! `previous * (window - elapsed) / window + current`. It is the estimate that Cloudflare
//! described ("How we built rate limiting capable of scaling to millions of domains", 2017): exact
//! for permits that were spread evenly over the previous window. For those taken at its very end it
//! counts too little from then on: in a span of one window up to `quota * (1 + elapsed / window)`
//! pass. Right after the edge nothing passes, which is what a fixed window gets wrong.

/// A quota in any span of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    pub(crate) quota: u32,
    pub(crate) window_us: u64,
}

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// When the current window began, in microseconds since the epoch.
    pub start_us: u64,
    /// Permits taken in the window before it.
    pub previous: u64,
    /// Permits taken in it.
    pub current: u64,
}

/// What was taken of the two windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Microseconds since the current window began.
    pub elapsed_us: u64,
    /// Permits taken in the window before it.
    pub previous: u64,
    /// Permits taken in it.
    pub current: u64,
}

impl Sliding {
    pub(crate) fn counts(&self, state: Option<Windows>, now: u64) -> Counts {
        let counts = |elapsed_us, previous, current| Counts {
            elapsed_us,
            previous,
            current,
        };
        let Some(windows) = state else {
            return counts(0, 0, 0);
        };
        // A clock that went back begins the window anew, so that it ends within its length.
        let elapsed = now.saturating_sub(windows.start_us);
        if elapsed < self.window_us {
            return counts(elapsed, windows.previous, windows.current);
        }
        if elapsed < 2 * self.window_us && windows.current > 0 {
            return counts(elapsed - self.window_us, windows.current, 0);
        }
        counts(0, 0, 0)
    }

    pub(crate) fn plus(counts: Counts, permits: i64) -> Counts {
        let current = counts.current.cast_signed() + permits;
        Counts {
            previous: counts.previous.saturating_add_signed(current.min(0)),
            current: current.max(0).unsigned_abs(),
            ..counts
        }
    }

    pub(crate) fn fits(&self, counts: Counts, permits: i64) -> bool {
        permits < 0 || Self::weighted(self.window_us, counts) <= self.room(counts, permits)
    }

    pub(crate) fn state(counts: Counts, now: u64) -> Option<Windows> {
        (counts.previous + counts.current > 0).then(|| Windows {
            start_us: now - counts.elapsed_us,
            previous: counts.previous,
            current: counts.current,
        })
    }

    /// Microseconds, rounded up, after which `permits` fit.
    pub(crate) fn retry_after_us(&self, counts: Counts, permits: u32) -> u64 {
        if self.fits(counts, permits.into()) {
            return 0;
        }
        let (window, elapsed) = (self.window_us, counts.elapsed_us);
        // The first instant of a window in which `previous` leaves room for so much: it weighs
        // little enough once `window - room * window / previous` of the window is over.
        let since_start = |room: i128, previous: u64| {
            let covered = (room / i128::from(previous)) as u64;
            window - covered.min(window)
        };
        let room = self.room(counts, permits.into());
        if room >= 0 {
            // It does not fit, so the previous window holds something.
            return since_start(room, counts.previous) - elapsed;
        }
        let next = Counts {
            elapsed_us: 0,
            previous: counts.current,
            current: 0,
        };
        let room = self.room(next, permits.into());
        window - elapsed + since_start(room, next.previous)
    }

    /// Permits that fit now.
    pub(crate) fn remaining(&self, counts: Counts) -> u32 {
        let weighted = Self::weighted(self.window_us, counts);
        let room = self.room(counts, 0) - weighted;
        // At most the quota, which is a u32.
        room.max(0).div_euclid(i128::from(self.window_us)) as u32
    }

    /// Microseconds until the state is as new.
    pub(crate) fn reset_after_us(&self, counts: Counts) -> u64 {
        let windows = match (counts.previous, counts.current) {
            (0, 0) => return 0,
            (_, 0) => 1,
            _ => 2,
        };
        windows * self.window_us - counts.elapsed_us
    }

    /// What of the previous window counts, times the window.
    fn weighted(window_us: u64, counts: Counts) -> i128 {
        i128::from(counts.previous) * i128::from(window_us - counts.elapsed_us)
    }

    /// What the current window leaves, times the window.
    fn room(&self, counts: Counts, permits: i64) -> i128 {
        let left = i128::from(self.quota) - i128::from(counts.current) - i128::from(permits);
        left * i128::from(self.window_us)
    }
}

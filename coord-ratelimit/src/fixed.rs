//! A fixed window, exactly: no I/O, no clock.
//!
//! The first permit opens a window; `quota` permits fit in it; it ends `window_us` later. Around
//! the end of one window and the start of the next, up to twice the quota pass in the length of
//! one.

/// A quota in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    pub(crate) quota: u32,
    pub(crate) window_us: u64,
}

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When the window was opened, in microseconds since the epoch.
    pub start_us: u64,
    /// Permits taken in it.
    pub used: u64,
}

/// What was taken of the window that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Microseconds since it was opened.
    pub elapsed_us: u64,
    /// Permits taken in it.
    pub used: u64,
}

impl Fixed {
    pub(crate) fn used(&self, state: Option<Window>, now: u64) -> Used {
        // A clock that went back begins the window anew, so that it ends within its length.
        let (elapsed_us, used) = state.map_or((0, 0), |window| {
            (now.saturating_sub(window.start_us), window.used)
        });
        if elapsed_us >= self.window_us {
            return Used {
                elapsed_us: 0,
                used: 0,
            };
        }
        Used { elapsed_us, used }
    }

    pub(crate) fn plus(used: Used, permits: i64) -> Used {
        Used {
            used: used.used.saturating_add_signed(permits),
            ..used
        }
    }

    pub(crate) fn fits(&self, used: Used, permits: i64) -> bool {
        permits < 0 || Self::plus(used, permits).used <= u64::from(self.quota)
    }

    pub(crate) fn state(used: Used, now: u64) -> Option<Window> {
        (used.used > 0).then(|| Window {
            start_us: now - used.elapsed_us,
            used: used.used,
        })
    }

    /// Microseconds after which `permits` fit.
    pub(crate) fn retry_after_us(&self, used: Used, permits: u32) -> u64 {
        if self.fits(used, permits.into()) {
            return 0;
        }
        self.window_us - used.elapsed_us
    }

    /// Permits that fit now.
    pub(crate) fn remaining(&self, used: Used) -> u32 {
        // The difference is at most the quota, which is a u32.
        u64::from(self.quota).saturating_sub(used.used) as u32
    }

    /// Microseconds until the state is as new.
    pub(crate) fn reset_after_us(&self, used: Used) -> u64 {
        if used.used == 0 {
            return 0;
        }
        self.window_us - used.elapsed_us
    }
}

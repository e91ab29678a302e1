//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential backoff with a cap and full jitter.
///
/// The wait before attempt `n` is uniform in `0..=min(cap, base * 2^n)`, the "full jitter" of
/// Marc Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): of the variants
/// compared there it costs the fewest calls until all of many clients are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Waits of up to `base` at first and never more than `cap`.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// The longest wait that [`delay`](Self::delay) can return.
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// The wait before attempt `attempt` (from 0), for `random` uniform in `0.0..1.0`.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.base
            .saturating_mul(factor)
            .min(self.cap)
            .mul_f64(random.clamp(0.0, 1.0))
    }

    /// The wait before attempt `attempt`, with the jitter drawn here.
    pub fn jittered(&self, attempt: u32) -> Duration {
        self.delay(attempt, rand::random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

    #[test]
    fn the_bound_doubles_and_stops_at_the_cap() {
        let bounds: Vec<_> = (0..8).map(|n| BACKOFF.delay(n, 1.0).as_millis()).collect();

        assert_eq!(bounds, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn the_jitter_is_full() {
        assert_eq!(BACKOFF.delay(3, 0.0), Duration::ZERO);
        assert_eq!(BACKOFF.delay(3, 0.5), Duration::from_millis(200));
    }

    #[test]
    fn a_long_outage_overflows_nothing() {
        assert_eq!(BACKOFF.delay(u32::MAX, 1.0), Duration::from_secs(2));
        let wide = Backoff::new(Duration::MAX, Duration::MAX);
        assert!(wide.delay(40, 0.5) <= Duration::MAX);
    }
}

//! When an entry is due to be loaded anew: plain numbers, no clock and no dice.

use std::time::Duration;

/// The largest part of a TTL that the jitter takes away.
const JITTER: f64 = 0.1;

/// How eager the early refresh is; 1 is the optimum for loads whose time is exponential.
const BETA: f64 = 1.0;

/// What there is to do about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// Fresh, but it is time to load it anew.
    Due,
    /// Its TTL is over; it is served until a newer one is there.
    Stale,
}

/// The entry's own life in ms, for `random` uniform in `0.0..1.0`.
pub(crate) fn jittered_ms(ttl_ms: u64, random: f64) -> u64 {
    let cut = (ttl_ms as f64 * JITTER * random.clamp(0.0, 1.0)) as u64;
    (ttl_ms - cut).max(1)
}

/// How long before the end of an entry a load that takes `load_ms` should begin.
///
/// The gap of A. Vattani, F. Chierichetti and K. Lowenstein, "Optimal Probabilistic Cache Stampede
/// Prevention" (VLDB 2015): delta * beta * -ln(random), so that every reader draws anew, few come
/// early, and hardly ever all too late.
pub(crate) fn gap_ms(load_ms: u32, random: f64) -> f64 {
    f64::from(load_ms) * BETA * -random.clamp(f64::MIN_POSITIVE, 1.0).ln()
}

/// What is known of an entry's time.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "numbers name their unit")]
pub(crate) struct Time {
    /// How long the server keeps it; negative without an end.
    pub(crate) pttl_ms: i64,
    /// How much of that is its stale window.
    pub(crate) stale_ms: u64,
    /// How long its load took.
    pub(crate) load_ms: u32,
}

impl Time {
    /// What there is to do about the entry; `gap_by` draws the early refresh, if there is one.
    pub(crate) fn judge(self, gap_by: Option<f64>) -> Freshness {
        let Some(left_ms) = self.left_ms() else {
            return Freshness::Fresh;
        };
        if left_ms <= 0.0 {
            return Freshness::Stale;
        }
        match gap_by {
            Some(random) if gap_ms(self.load_ms, random) >= left_ms => Freshness::Due,
            _ => Freshness::Fresh,
        }
    }

    /// For how long the entry may stay in the process: at most `life`, no longer than it is fresh,
    /// and until one of its readers should load it anew.
    pub(crate) fn near_for(self, life: Duration, gap_by: Option<f64>) -> Duration {
        let Some(left_ms) = self.left_ms() else {
            return life;
        };
        let gap_ms = gap_by.map_or(0.0, |random| gap_ms(self.load_ms, random));
        Duration::from_millis((left_ms - gap_ms).max(0.0) as u64).min(life)
    }

    /// How long it is fresh; nothing where somebody took its TTL away, who wants it kept.
    fn left_ms(self) -> Option<f64> {
        (self.pttl_ms >= 0).then_some(self.pttl_ms as f64 - self.stale_ms as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(pttl_ms: i64, stale_ms: u64, load_ms: u32, gap_by: Option<f64>) -> Freshness {
        let time = Time {
            pttl_ms,
            stale_ms,
            load_ms,
        };
        time.judge(gap_by)
    }

    #[test]
    fn an_entry_is_fresh_until_its_stale_window_begins() {
        assert_eq!(judge(1001, 1000, 0, None), Freshness::Fresh);
        assert_eq!(judge(1000, 1000, 0, None), Freshness::Stale);
        assert_eq!(judge(1, 0, 0, None), Freshness::Fresh);
        assert_eq!(judge(-1, 1000, 0, None), Freshness::Fresh);
    }

    #[test]
    fn the_early_refresh_comes_at_the_rate_of_the_paper() {
        // The gap is exponential with the load's time as its mean: so P(gap >= left) = e^(-left/load).
        const DRAWS: u32 = 100_000;
        for (left_ms, load_ms) in [(50, 100), (100, 100), (300, 100)] {
            let due = (0..DRAWS)
                .map(|draw| (f64::from(draw) + 0.5) / f64::from(DRAWS))
                .filter(|random| judge(left_ms, 0, load_ms, Some(*random)) == Freshness::Due)
                .count();
            let expected = (-(left_ms as f64) / f64::from(load_ms)).exp();
            let share = due as f64 / f64::from(DRAWS);
            assert!(
                (share - expected).abs() < 0.001,
                "{left_ms}: {share} for {expected}"
            );
        }
    }

    #[test]
    fn a_long_way_before_its_end_nothing_is_due() {
        assert_eq!(judge(60_000, 0, 100, Some(1e-9)), Freshness::Fresh);
        assert_eq!(judge(60_000, 0, 0, Some(0.0)), Freshness::Fresh);
    }

    proptest! {
        #[test]
        fn a_jittered_life_is_never_longer_and_at_most_a_tenth_shorter(
            ttl in 10_u64..1_000_000_000, random in 0.0..1.0_f64,
        ) {
            let life = jittered_ms(ttl, random);

            prop_assert!(life <= ttl && life as f64 >= ttl as f64 * 0.9 - 1.0);
        }

        #[test]
        fn an_entry_stays_in_the_process_no_longer_than_it_is_fresh(
            pttl in 0_i64..100_000, stale in 0_u64..100_000, load in 0_u32..1000,
            early in any::<bool>(), random in 0.0..1.0_f64,
        ) {
            let life = Duration::from_mins(1);
            let time = Time { pttl_ms: pttl, stale_ms: stale, load_ms: load };
            let near = time.near_for(life, early.then_some(random));

            prop_assert!(near <= life);
            prop_assert!(near.as_millis() as u64 <= (pttl as u64).saturating_sub(stale));
        }
    }
}

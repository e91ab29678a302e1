//! Which traces are recorded.

/// Which traces are recorded: decided by the id of the trace, so that all who take part agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    /// Of 2^63 ids so many are recorded.
    threshold: u64,
    follows_parent: bool,
}

const ALL: u64 = 1 << 63;

impl Sampler {
    /// Every trace.
    pub const fn always() -> Self {
        Self::of(ALL)
    }

    /// None.
    pub const fn never() -> Self {
        Self::of(0)
    }

    /// This part of all traces, from 0 to 1; what is beyond counts as the nearest of them.
    pub fn ratio(part: f64) -> Self {
        Self::of((part.clamp(0.0, 1.0) * ALL as f64) as u64)
    }

    const fn of(threshold: u64) -> Self {
        Self {
            threshold,
            follows_parent: false,
        }
    }

    /// The same for traces that begin here; of others it is as whoever began them has decided.
    #[must_use]
    pub const fn parent_based(mut self) -> Self {
        self.follows_parent = true;
        self
    }

    /// Whether a span of `trace` is recorded, under a parent that is or is not.
    pub(super) fn samples(self, trace: u128, parent: Option<bool>) -> bool {
        match parent {
            Some(is_sampled) if self.follows_parent => is_sampled,
            // The half that others who go by the id look at, too.
            _ => (trace as u64) >> 1 < self.threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_decides_and_both_sides_of_the_ratio_hold() {
        let half = Sampler::ratio(0.5);
        let largest = u128::from(u64::MAX);

        assert!(half.samples(largest / 2, None));
        assert!(!half.samples(largest / 2 + 1, None));
        assert!(Sampler::always().samples(largest, None));
        assert!(Sampler::ratio(7.0).samples(largest, None));
        assert!(!Sampler::never().samples(0, None));
        assert!(!Sampler::ratio(f64::NAN).samples(0, None));
    }

    #[test]
    fn a_parent_decides_only_when_it_is_asked() {
        assert!(Sampler::never().parent_based().samples(1, Some(true)));
        assert!(!Sampler::always().parent_based().samples(1, Some(false)));
        assert!(Sampler::always().samples(1, Some(false)));
        assert!(!Sampler::never().samples(1, Some(true)));
    }
}

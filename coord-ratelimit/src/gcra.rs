//! GCRA, exactly: no I/O, no clock, no rounding.
//!
//! The generic cell rate algorithm (ITU-T I.371, Annex A, in its virtual scheduling form) keeps one
//! instant, the theoretical arrival time: how far ahead of now a subject has drawn. A permit costs
//! the emission interval, period / permits, which is kept as a fraction in lowest terms. So every
//! span here is whole microseconds and a rest in `parts`ths of one, and adding them loses nothing.
//!
//! Bounds: a cost is computed in 128 bits. A span is at most [`MAX_AHEAD_US`], and an instant is
//! below 2^51 until the year 2041 and below 2^53 until 2255, so their sum is below 2^53, where
//! Lua's numbers end to be exact; `parts` is at most 10^9, and two rests add up to less than 2^31.

/// How far ahead of now a burst may draw: ten years, so that instants stay below 2^53.
pub(crate) const MAX_AHEAD_US: u64 = 10 * 366 * 24 * 60 * 60 * 1_000_000;

/// A quota with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gcra {
    /// The emission interval is `interval / parts` microseconds, in lowest terms.
    interval: u64,
    parts: u64,
    burst: u32,
    /// How far ahead the whole burst draws.
    capacity: Ahead,
}

/// What is stored: until when a subject has drawn, in the units of the quota that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// Whole microseconds since the epoch.
    pub until_us: u64,
    /// And so many `parts`ths of one.
    pub part: u64,
    /// The unit of `part`.
    pub parts: u64,
}

/// How far ahead of now a subject has drawn, in microseconds and `parts`ths of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ahead {
    /// Whole microseconds.
    pub us: u64,
    /// And so many `parts`ths of one.
    pub part: u64,
}

const NOTHING: Ahead = Ahead { us: 0, part: 0 };

impl Gcra {
    pub(crate) fn new(permits: u32, period_us: u64, burst: u32) -> Self {
        let common = gcd(u64::from(permits), period_us);
        let mut gcra = Self {
            interval: period_us / common,
            parts: u64::from(permits) / common,
            burst,
            capacity: NOTHING,
        };
        let (us, part) = gcra.cost(i64::from(burst));
        gcra.capacity = Ahead {
            us: us.unsigned_abs(),
            part,
        };
        gcra
    }

    /// How far ahead the whole burst draws.
    pub(crate) fn capacity(&self) -> Ahead {
        self.capacity
    }

    pub(crate) fn burst(&self) -> u32 {
        self.burst
    }

    pub(crate) fn parts(&self) -> u64 {
        self.parts
    }

    /// What `permits` cost: whole microseconds, rounded down, and the rest, never negative. To give
    /// back more than a burst is to give back a burst.
    pub(crate) fn cost(&self, permits: i64) -> (i64, u64) {
        let permits = permits.max(-i64::from(self.burst));
        let all = i128::from(permits) * i128::from(self.interval);
        let parts = i128::from(self.parts);
        (
            all.div_euclid(parts) as i64,
            all.rem_euclid(parts).unsigned_abs() as u64,
        )
    }

    /// How far ahead of `now` the state is: at most a burst, also when the clock went back.
    pub(crate) fn ahead(&self, state: Option<Drawn>, now: u64) -> Ahead {
        let Some(drawn) = state else { return NOTHING };
        let (until, part) = if drawn.parts == self.parts {
            (drawn.until_us, drawn.part)
        } else {
            // Written under another quota: rounded up, at most a microsecond to the subject's cost.
            (drawn.until_us + 1, 0)
        };
        let ahead = until
            .checked_sub(now)
            .map_or(NOTHING, |us| Ahead { us, part });
        ahead.min(self.capacity())
    }

    /// How far ahead it is with `permits` more, or with less when they are negative.
    pub(crate) fn plus(&self, ahead: Ahead, permits: i64) -> Ahead {
        let (cost_us, cost_part) = self.cost(permits);
        let part = ahead.part + cost_part;
        let carried = i64::from(part >= self.parts);
        let us = ahead.us.cast_signed() + cost_us + carried;
        if us < 0 {
            return NOTHING;
        }
        Ahead {
            us: us.unsigned_abs(),
            part: part % self.parts,
        }
    }

    pub(crate) fn fits(&self, ahead: Ahead, permits: i64) -> bool {
        self.plus(ahead, permits) <= self.capacity()
    }

    pub(crate) fn state(&self, ahead: Ahead, now: u64) -> Option<Drawn> {
        (ahead > NOTHING).then_some(Drawn {
            until_us: now + ahead.us,
            part: ahead.part,
            parts: self.parts,
        })
    }

    /// Microseconds, rounded up, after which `permits` fit.
    pub(crate) fn retry_after_us(&self, ahead: Ahead, permits: u32) -> u64 {
        let (capacity, wanted) = (self.capacity(), self.plus(ahead, permits.into()));
        if wanted <= capacity {
            return 0;
        }
        let up = u64::from(wanted.part > capacity.part);
        wanted.us - capacity.us + up
    }

    /// Permits that fit now.
    pub(crate) fn remaining(&self, ahead: Ahead) -> u32 {
        let parts = u128::from(self.parts);
        let of = |span: Ahead| u128::from(span.us) * parts + u128::from(span.part);
        let left = of(self.capacity()).saturating_sub(of(ahead));
        // At most the burst, which is a u32.
        (left / u128::from(self.interval)) as u32
    }
}

impl Ahead {
    /// Microseconds, rounded up, until the state is as new.
    pub(crate) fn reset_after_us(self) -> u64 {
        self.us + u64::from(self.part > 0)
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        gcd(other, one % other)
    }
}

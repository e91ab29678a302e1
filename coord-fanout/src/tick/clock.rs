//! What time it is on the server, by this process's monotonic clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::schedule::TickTime;

/// A lower bound of the server's time, never more than one reply's delay behind it.
///
/// Every reply tells the time at which the server executed its command: after it was sent and
/// before its reply came. Counted from the arrival that time is never ahead of the server, so
/// whoever sleeps by it never wakes early. Of several replies the tightest bound holds, until one
/// shows that the server's clock was set back, or that the two clocks drift apart.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// The server's time, at the least, at an instant.
    bound: Option<(TickTime, Instant)>,
    /// When the last reply came.
    heard: Option<Instant>,
}

impl Clock {
    /// Learns that the server's time was `told` between `sent` and `received`.
    pub(crate) fn observe(&mut self, told: TickTime, sent: Instant, received: Instant) {
        self.heard = self.heard.max(Some(received));
        let most = told.plus(received.saturating_duration_since(sent));
        // A millisecond more, since both are cut to whole ones.
        let is_tighter = self
            .now(received)
            .is_some_and(|bound| told < bound && bound <= most.plus(Duration::from_millis(1)));
        if !is_tighter {
            self.bound = Some((told, received));
        }
    }

    /// The server's time at `instant`, at the least; nothing before the first reply.
    pub(crate) fn now(&self, instant: Instant) -> Option<TickTime> {
        let (time, at) = self.bound?;
        Some(time.plus(instant.saturating_duration_since(at)))
    }

    /// Whether a reply came within `limit` before `now`.
    pub(crate) fn is_fresh(&self, now: Instant, limit: Duration) -> bool {
        let fresh = |heard| now.saturating_duration_since(heard) < limit;
        self.heard.is_some_and(fresh)
    }

    /// When the server's time will be `time`, as seen from `now`.
    pub(crate) fn instant_of(&self, time: TickTime, now: Instant) -> Option<Instant> {
        Some(now + time.since(self.now(now)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: i64) -> TickTime {
        TickTime::from_millis(millis)
    }

    #[test]
    fn nothing_is_known_before_the_first_reply() {
        assert_eq!(Clock::default().now(Instant::now()), None);
    }

    #[test]
    fn a_clock_that_heard_nothing_for_the_limit_is_no_longer_fresh() {
        let (mut clock, start) = (Clock::default(), Instant::now());
        assert!(!clock.is_fresh(start, 10 * MS));

        clock.observe(at(1_000), start, start + MS);

        assert!(clock.is_fresh(start + 10 * MS, 10 * MS));
        assert!(!clock.is_fresh(start + 11 * MS, 10 * MS));
    }

    #[test]
    fn a_slow_reply_does_not_loosen_what_a_fast_one_told() {
        let (mut clock, start) = (Clock::default(), Instant::now());

        clock.observe(at(1_000), start, start + MS);
        clock.observe(at(1_500), start + 500 * MS, start + 900 * MS);

        assert_eq!(clock.now(start + 1_001 * MS), Some(at(2_000)));
    }

    #[test]
    fn a_faster_reply_tightens_what_a_slow_one_told() {
        let (mut clock, start) = (Clock::default(), Instant::now());

        clock.observe(at(1_000), start, start + 400 * MS);
        clock.observe(at(2_000), start + 1_000 * MS, start + 1_001 * MS);

        assert_eq!(clock.now(start + 1_001 * MS), Some(at(2_000)));
    }

    #[test]
    fn a_server_whose_clock_was_set_is_followed() {
        for told in [500, 9_000] {
            let (mut clock, start) = (Clock::default(), Instant::now());
            clock.observe(at(1_000), start, start + MS);

            clock.observe(at(told), start + 100 * MS, start + 101 * MS);

            assert_eq!(clock.now(start + 101 * MS), Some(at(told)));
        }
    }

    proptest! {
        #[test]
        fn the_bound_is_never_ahead_and_as_tight_as_the_best_reply(
            replies in prop::collection::vec((0_u32..50, 0_u32..300, 0_u32..300), 1..20),
        ) {
            // The server's time is the milliseconds since the start.
            let (mut clock, start) = (Clock::default(), Instant::now());
            let mut now = 0;
            let mut best = u32::MAX;

            for (pause, there, back) in replies {
                let sent = now + pause;
                let executed = sent + there;
                now = executed + back;
                best = best.min(back);
                clock.observe(at(executed.into()), start + MS * sent, start + MS * now);

                let bound = clock.now(start + MS * now).expect("there was a reply");
                prop_assert_eq!(bound.as_millis(), i64::from(now - best));
            }
        }
    }
}

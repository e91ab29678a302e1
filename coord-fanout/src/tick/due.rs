//! What is due, what a claim covers and what it passes over: decisions on plain values.

use std::time::Duration;

use coord_core::Name;

use crate::job::{CatchUp, Timing};
use crate::schedule::TickTime;

/// The cooldown ends this long before the next tick, or a tenth of the period where that is less:
/// it must never hold up the tick that follows.
const MARGIN: Duration = Duration::from_secs(1);

/// Passed-over instants are counted up to here: nobody needs to know how many seconds a year had.
const COUNTED: u64 = 1000;

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    /// The instants to run, in order, if they are later than the last tick that was finished.
    pub(crate) cover: Vec<TickTime>,
    /// The newest due instant: with it all that is older is done with.
    pub(crate) upto: TickTime,
}

/// Due instants that are not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PassedOver {
    /// Too late, or too many.
    pub(crate) missed: u64,
    /// The run of a later instant stands for them, as the policy says.
    pub(crate) coalesced: u64,
}

/// The part of `window` by which the ticks of one tenant are shifted: always the same, and
/// uniform over many tenants.
///
/// FNV-1a over both names, which nodes of any version and architecture compute alike, with the
/// finalizer of `MurmurHash3` for the low bits.
pub(crate) fn jitter(job: &Name, org: &Name, window: Duration) -> Duration {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    if window == 0 {
        return Duration::ZERO;
    }
    // No UTF-8 text has this byte, so that no two pairs of names run together.
    let bytes = job
        .as_str()
        .bytes()
        .chain([0xff])
        .chain(org.as_str().bytes());
    let mut hash = bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    Duration::from_millis(hash % window)
}

/// What a claim asks for at `now`, of instants later than `last`; nothing when none is due.
pub(crate) fn due(timing: &Timing, last: Option<TickTime>, now: TickTime) -> Option<Due> {
    let is_new = |instant: &TickTime| last.is_none_or(|last| *instant > last);
    let upto = timing.schedule.latest(now).filter(is_new)?;
    let cover = match timing.catch_up {
        // A tenant's very first tick is due since before anybody knew of it.
        _ if last.is_none() => vec![upto],
        CatchUp::Last => vec![upto],
        CatchUp::Skip if now.since(upto) <= timing.grace => vec![upto],
        CatchUp::Skip => Vec::new(),
        CatchUp::All(most) => {
            let earlier = |instant: &TickTime| {
                let before = TickTime::from_millis(instant.as_millis() - 1);
                timing.schedule.latest(before).filter(is_new)
            };
            let newest_first = std::iter::successors(Some(upto), earlier);
            let mut cover: Vec<_> = newest_first.take(most.get().into()).collect();
            cover.reverse();
            cover
        }
    };
    Some(Due { cover, upto })
}

/// What became of the instants later than `last` and up to `upto` that are not in `covered`, when
/// this was decided at `now`.
pub(crate) fn passed_over(
    timing: &Timing,
    last: TickTime,
    covered: &[TickTime],
    (upto, now): (TickTime, TickTime),
) -> PassedOver {
    let next = |instant: &TickTime| timing.schedule.next(*instant).filter(|next| *next <= upto);
    let instants = std::iter::successors(next(&last), next);
    let mut over = PassedOver::default();
    for instant in instants.filter(|instant| !covered.contains(instant)) {
        let is_missed = match timing.catch_up {
            CatchUp::Skip => now.since(instant) > timing.grace,
            CatchUp::Last => false,
            CatchUp::All(_) => true,
        };
        if is_missed {
            over.missed += 1;
        } else {
            over.coalesced += 1;
        }
        if over.missed + over.coalesced == COUNTED {
            break;
        }
    }
    over
}

/// Until when the cooldown of the tick `upto` lasts; the next one is due at `next`.
pub(crate) fn cooldown_end(upto: TickTime, next: TickTime, shift: Duration) -> TickTime {
    let margin = MARGIN
        .min(next.since(upto) / 10)
        .max(Duration::from_millis(1));
    next.plus(shift).minus(margin)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use proptest::prelude::*;

    use super::*;
    use crate::schedule::Schedule;

    const SECOND: Duration = Duration::from_secs(1);

    fn timing(catch_up: CatchUp) -> Timing {
        Timing {
            catch_up,
            grace: 4 * SECOND,
            ..Timing::new(Schedule::every(10 * SECOND).expect("in range"))
        }
    }

    fn all(most: u8) -> CatchUp {
        CatchUp::All(NonZeroU8::new(most).expect("not zero"))
    }

    fn at(seconds: i64) -> TickTime {
        TickTime::from_millis(seconds * 1000)
    }

    fn covered(catch_up: CatchUp, last: i64, now: i64) -> Option<Vec<i64>> {
        let due = due(&timing(catch_up), Some(at(last)), at(now))?;
        Some(
            due.cover
                .iter()
                .map(|tick| tick.as_millis() / 1000)
                .collect(),
        )
    }

    fn over(catch_up: CatchUp, last: i64, now: i64) -> PassedOver {
        let timing = timing(catch_up);
        let due = due(&timing, Some(at(last)), at(now)).expect("something is due");
        passed_over(&timing, at(last), &due.cover, (due.upto, at(now)))
    }

    #[test]
    fn an_instant_is_due_from_its_millisecond_on_and_once() {
        let timing = timing(CatchUp::Last);

        assert_eq!(
            due(&timing, Some(at(0)), TickTime::from_millis(9_999)),
            None
        );
        assert!(due(&timing, Some(at(0)), at(10)).is_some());
        assert_eq!(due(&timing, Some(at(10)), at(19)), None);
    }

    #[test]
    fn skip_runs_an_instant_until_its_grace_is_over() {
        assert_eq!(covered(CatchUp::Skip, 0, 14), Some(vec![10]));

        let just_late = TickTime::from_millis(14_001);
        let due = due(&timing(CatchUp::Skip), Some(at(0)), just_late).expect("due, and too late");
        assert_eq!((due.cover, due.upto), (vec![], at(10)));
    }

    #[test]
    fn last_runs_the_newest_instant_however_late() {
        assert_eq!(covered(CatchUp::Last, 0, 19), Some(vec![10]));
        assert_eq!(covered(CatchUp::Last, 0, 39), Some(vec![30]));
    }

    #[test]
    fn all_runs_the_newest_instants_in_order_up_to_its_bound() {
        assert_eq!(covered(all(3), 0, 25), Some(vec![10, 20]));
        assert_eq!(covered(all(3), 0, 39), Some(vec![10, 20, 30]));
        assert_eq!(covered(all(3), 0, 40), Some(vec![20, 30, 40]));
    }

    #[test]
    fn the_very_first_run_is_for_the_newest_instant_under_every_policy() {
        for policy in [CatchUp::Skip, CatchUp::Last, all(5)] {
            let due = due(&timing(policy), None, at(29)).expect("always something");
            assert_eq!(due.cover, [at(20)]);
        }
    }

    #[test]
    fn what_is_not_run_is_missed_or_coalesced_as_the_policy_says() {
        let count = |missed, coalesced| PassedOver { missed, coalesced };

        assert_eq!(over(CatchUp::Skip, 0, 32), count(2, 0));
        assert_eq!(over(CatchUp::Skip, 0, 39), count(3, 0));
        assert_eq!(over(CatchUp::Last, 0, 39), count(0, 2));
        assert_eq!(over(all(2), 0, 39), count(1, 0));
        assert_eq!(over(all(3), 0, 39), count(0, 0));
    }

    #[test]
    fn instants_within_the_grace_are_coalesced_by_skip() {
        let mut timing = timing(CatchUp::Skip);
        timing.grace = 15 * SECOND;

        let due = due(&timing, Some(at(0)), at(32)).expect("due");
        let over = passed_over(&timing, at(0), &due.cover, (due.upto, at(32)));

        assert_eq!(due.cover, [at(30)]);
        assert_eq!((over.missed, over.coalesced), (1, 1));
    }

    #[test]
    fn a_long_outage_is_counted_up_to_a_bound() {
        assert_eq!(over(CatchUp::Skip, 0, 1_000_009).missed, COUNTED);
    }

    #[test]
    fn a_cooldown_ends_a_margin_before_the_next_tick() {
        let end = |next| cooldown_end(at(0), at(next), SECOND).as_millis();

        assert_eq!(end(3600), 3_600_000);
        assert_eq!(end(10), 10_000);
        assert_eq!(end(5), 5_500);
        let soon = cooldown_end(at(0), TickTime::from_millis(5), Duration::ZERO);
        assert_eq!(soon.as_millis(), 4);
    }

    #[test]
    fn jitter_is_the_same_on_every_node() {
        let jitter = |job, org| {
            let name = |text| Name::new(text).expect("a valid name");
            jitter(&name(job), &name(org), Duration::from_mins(1)).as_millis()
        };

        // Another value would move every tenant's ticks at a deployment.
        assert_eq!(jitter("reminders", "acme"), 21_874);
        assert_ne!(jitter("ab", "c"), jitter("a", "bc"));
    }

    #[test]
    fn jitter_spreads_tenants_over_its_window() {
        let job = Name::new("reminders").expect("a valid name");
        let mut quarters = [0; 4];

        for org in 0..4000 {
            let org = Name::new(format!("org-{org}")).expect("a valid name");
            let jitter = jitter(&job, &org, Duration::from_millis(400));
            quarters[jitter.as_millis() as usize / 100] += 1;
        }

        assert!(
            quarters.iter().all(|count| (900..1100).contains(count)),
            "{quarters:?}"
        );
    }

    fn policies() -> impl Strategy<Value = CatchUp> {
        prop_oneof![
            Just(CatchUp::Skip),
            Just(CatchUp::Last),
            (1..20_u8).prop_map(all)
        ]
    }

    proptest! {
        #[test]
        fn every_due_instant_is_run_missed_or_coalesced(
            policy in policies(), last in 0_i64..500_000, outage in 0_i64..500_000,
        ) {
            let timing = timing(policy);
            let (last, now) = (TickTime::from_millis(last), TickTime::from_millis(last + outage));
            let all = now.as_millis() / 10_000 - last.as_millis() / 10_000;

            let Some(due) = due(&timing, Some(last), now) else {
                prop_assert_eq!(all, 0);
                return Ok(());
            };
            let over = passed_over(&timing, last, &due.cover, (due.upto, now));

            prop_assert_eq!(due.cover.len() as u64 + over.missed + over.coalesced, all as u64);
            prop_assert!(due.cover.is_sorted());
            prop_assert!(due.cover.iter().all(|tick| last < *tick && *tick <= due.upto));
            prop_assert!(due.upto <= now);
        }

        #[test]
        fn two_claims_in_a_row_never_cover_the_same_instant(
            policy in policies(), last in 0_i64..500_000, first in 0_i64..500_000, second in 0_i64..500_000,
        ) {
            let timing = timing(policy);
            let now = TickTime::from_millis(last + first);
            let Some(one) = due(&timing, Some(TickTime::from_millis(last)), now) else {
                return Ok(());
            };

            let later = TickTime::from_millis(last + first + second);
            let other = due(&timing, Some(one.upto), later);

            let other = other.map(|due| due.cover).unwrap_or_default();
            prop_assert!(other.iter().all(|tick| !one.cover.contains(tick)));
        }

        #[test]
        fn a_cooldown_ends_before_the_next_tick_and_after_this_one(
            upto in 0_i64..1_000_000, period in 10_i64..100_000_000, shift in 0_u64..100_000,
        ) {
            let (upto, next) = (TickTime::from_millis(upto), TickTime::from_millis(upto + period));
            let shift = Duration::from_millis(shift);

            let end = cooldown_end(upto, next, shift);

            prop_assert!(upto.plus(shift) < end && end < next.plus(shift));
        }

        #[test]
        fn jitter_stays_below_its_window(job in ".{1,9}", org in ".{1,9}", window in 0_u64..5_000) {
            let name = |text: &str| Name::new(text).expect("a valid name");
            let jitter = jitter(&name(&job), &name(&org), Duration::from_millis(window));

            prop_assert!(jitter < Duration::from_millis(window.max(1)));
        }
    }
}

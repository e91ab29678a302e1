use std::time::Duration;

use coord_core::Name;
use proptest::prelude::*;

use super::*;
use crate::limit::{Limit, Quota};
use crate::wire;

const NOW: u64 = 1_790_000_000_000_000;

fn name() -> Name {
    Name::new("limit").expect("a valid name")
}

fn quota(permits: u32, period_us: u64) -> Quota {
    Quota::new(permits, Duration::from_micros(period_us)).expect("in range")
}

fn gcra(permits: u32, period_us: u64, burst: u32) -> Rule {
    let limit = Limit::gcra(name(), quota(permits, period_us), burst);
    *limit.expect("in range").rule()
}

fn sliding(permits: u32, period_us: u64) -> Rule {
    *Limit::sliding_window(name(), quota(permits, period_us)).rule()
}

fn fixed(permits: u32, period_us: u64) -> Rule {
    *Limit::fixed_window(name(), quota(permits, period_us)).rule()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("in range")
}

/// Any limit that can be made.
fn any_rule() -> impl Strategy<Value = Rule> {
    let permits = prop_oneof![1_u32..20, 1_u32..=1_000_000_000];
    let period = prop_oneof![
        1_000_u64..100_000,
        Just(1_000_000),
        1_000_u64..=366 * 86_400_000_000
    ];
    (0..3, permits.clone(), period, permits).prop_filter_map(
        "a burst of ten years",
        |(algorithm, permits, period_us, burst)| {
            let quota = quota(permits, period_us);
            Some(match algorithm {
                0 => *Limit::gcra(name(), quota, burst).ok()?.rule(),
                1 => *Limit::sliding_window(name(), quota).rule(),
                _ => *Limit::fixed_window(name(), quota).rule(),
            })
        },
    )
}

/// What a subject does: after so much of a window it asks for so much of the capacity.
fn schedule() -> impl Strategy<Value = Vec<(f64, f64)>> {
    proptest::collection::vec((0.0..1.3_f64, 0.0..1.0_f64), 1..40)
}

fn window_us(rule: &Rule) -> u64 {
    match rule {
        Rule::Gcra(gcra) => gcra.capacity().us.max(1),
        Rule::Sliding(sliding) => sliding.window_us,
        Rule::Fixed(fixed) => fixed.window_us,
    }
}

#[test]
fn a_limit_of_one_allows_the_first_denies_the_second_and_allows_again_after_exactly_its_wait() {
    for rule in [
        gcra(1, 1_000_000, 1),
        sliding(1, 1_000_000),
        fixed(1, 1_000_000),
    ] {
        let first = rule.take(None, NOW, 1);
        let second = rule.take(first.state, NOW + 1, 1);
        let wait = micros(rule.retry_after(second.before, 1));

        assert!(first.fits && !second.fits);
        assert!(!rule.take(second.state, NOW + wait, 1).fits, "{rule:?}");
        assert!(rule.take(second.state, NOW + 1 + wait, 1).fits, "{rule:?}");
    }
}

#[test]
fn a_rate_that_is_no_whole_number_of_microseconds_loses_nothing_in_ten_seconds() {
    for permits in [3, 7, 999_983, 1_000_000, 3_000_000] {
        let rule = gcra(permits, 1_000_000, permits.div_ceil(10));
        let (mut state, mut taken) = (None, 0_u64);
        // Greedy: whatever is left, at uneven instants.
        for step in 0..=100_000_u64 {
            let now = NOW + step * 100;
            let left = rule.remaining(rule.take(state, now, 0).before);
            let take = rule.take(state, now, left.into());
            assert!(take.fits);
            (state, taken) = (take.state, taken + u64::from(left));
        }

        let burst = u64::from(rule.capacity());
        let exact = burst + u64::from(permits) * 10;
        assert!(
            exact - 1 <= taken && taken <= exact,
            "{permits}: {taken} of {exact}"
        );
    }
}

#[test]
fn nine_of_ten_used_leaves_no_room_for_five() {
    for rule in [
        gcra(10, 1_000_000, 10),
        sliding(10, 1_000_000),
        fixed(10, 1_000_000),
    ] {
        let nine = rule.take(None, NOW, 9);
        let five = rule.take(nine.state, NOW, 5);

        assert!(!five.fits);
        assert_eq!(five.state, nine.state, "a denial takes nothing");
        assert_eq!(rule.remaining(five.before), 1);
        assert!(rule.take(five.state, NOW, 1).fits);
    }
}

#[test]
fn a_window_that_was_full_at_its_end_lets_nothing_pass_right_after_the_edge_when_it_slides() {
    let end = NOW + 999_999;
    for (rule, passes) in [
        (sliding(10, 1_000_000), false),
        (fixed(10, 1_000_000), true),
    ] {
        // One opens the window, the others come at its end.
        let first = rule.take(None, NOW, 1);
        let full = rule.take(first.state, end, 9);
        assert!(full.fits);

        assert_eq!(rule.take(full.state, end + 1, 1).fits, passes);
    }
}

#[test]
fn both_edges_of_a_window_hold_to_the_microsecond() {
    let rule = fixed(10, 1_000_000);
    let full = rule.take(None, NOW, 10);

    assert!(!rule.take(full.state, NOW + 999_999, 1).fits);
    assert!(rule.take(full.state, NOW + 1_000_000, 10).fits);
}

#[test]
fn the_weight_of_the_previous_window_falls_evenly_and_rounds_against_the_caller() {
    let rule = sliding(10, 1_000_000);
    let full = rule.take(None, NOW, 10);
    let fits = |after_us, permits| {
        rule.take(full.state, NOW + 1_000_000 + after_us, permits)
            .fits
    };

    assert!(!fits(99_999, 1));
    assert!(fits(100_000, 1));
    assert!(!fits(199_999, 2));
    assert!(fits(200_000, 2));
    assert!(fits(999_999, 9) && !fits(999_999, 10));
    assert!(fits(1_000_000, 10));
}

#[test]
fn a_clock_that_went_back_denies_for_one_window_at_most() {
    let back = NOW - 3_600_000_000;
    for rule in [
        gcra(10, 1_000_000, 10),
        sliding(10, 1_000_000),
        fixed(10, 1_000_000),
    ] {
        let full = rule.take(None, NOW, 10);

        let denied = rule.take(full.state, back, 1);
        let wait = micros(rule.retry_after(denied.before, 1));

        assert!(!denied.fits);
        assert!(wait <= 1_100_000, "{rule:?}: {wait}");
        assert!(rule.take(denied.state, back + wait, 1).fits, "{rule:?}");
    }
}

#[test]
fn another_quota_judges_what_was_drawn_by_its_own_numbers() {
    let (before, after) = (gcra(3, 1_000_000, 3), gcra(7, 1_000_000, 7));
    let drawn = before.take(None, NOW, 1);
    let level = after.take(drawn.state, NOW, 0).before;

    // A third of a second, rounded up to a microsecond, in sevenths of a second.
    assert_eq!(after.remaining(level), 4);
    assert_eq!(micros(after.reset_after(level)), 333_334);
}

#[test]
fn a_share_is_a_part_of_the_limit_and_at_least_one_permit() {
    let instances = std::num::NonZeroU32::new(4).expect("not zero");
    let limit = |burst| Limit::gcra(name(), quota(100, 1_000_000), burst).expect("in range");

    assert_eq!(limit(100).share(instances), gcra(25, 1_000_000, 25));
    assert_eq!(limit(3).share(instances).capacity(), 1);
}

proptest! {
    #[test]
    fn one_retry_after_the_wait_succeeds_and_none_a_microsecond_sooner(
        rule in any_rule(), steps in schedule(),
    ) {
        let (mut state, mut now) = (None, NOW);
        for (pause, part) in steps {
            now += (window_us(&rule) as f64 * pause) as u64;
            let permits = 1 + (f64::from(rule.capacity() - 1) * part) as u32;
            let taken = rule.take(state, now, permits.into());
            let wait = micros(rule.retry_after(taken.before, permits));

            prop_assert_eq!(taken.fits, wait == 0);
            prop_assert_eq!(taken.fits, rule.remaining(taken.before) >= permits);
            if !taken.fits {
                prop_assert!(rule.take(taken.state, now + wait, permits.into()).fits);
                prop_assert!(!rule.take(taken.state, now + wait - 1, permits.into()).fits);
            }
            state = taken.state;
        }
    }

    #[test]
    fn a_state_is_as_new_after_its_reset_and_not_a_microsecond_sooner(
        rule in any_rule(), steps in schedule(),
    ) {
        let (mut state, mut now) = (None, NOW);
        for (pause, part) in steps {
            now += (window_us(&rule) as f64 * pause) as u64;
            let permits = 1 + (f64::from(rule.capacity() - 1) * part) as u32;
            state = rule.take(state, now, permits.into()).state;
            let reset = micros(rule.reset_after(rule.take(state, now, 0).before));

            prop_assert!(rule.take(state, now + reset, 0).state.is_none());
            prop_assert!(reset == 0 || rule.take(state, now + reset - 1, 0).state.is_some());
        }
    }

    #[test]
    fn what_was_given_back_can_be_taken_again_and_no_more(
        rule in any_rule(), steps in schedule(), back in 0.0..1.0_f64,
    ) {
        let (mut state, mut now) = (None, NOW);
        for (pause, part) in steps {
            now += (window_us(&rule) as f64 * pause) as u64;
            let permits = 1 + (f64::from(rule.capacity() - 1) * part) as u32;
            state = rule.take(state, now, permits.into()).state;
        }
        let permits = 1 + (f64::from(rule.capacity() - 1) * back) as u32;
        let before = rule.remaining(rule.take(state, now, 0).before);
        let given = rule.take(state, now, -i64::from(permits));
        let after = rule.remaining(rule.take(given.state, now, 0).before);

        prop_assert!(given.fits);
        prop_assert!(before <= after && after <= rule.capacity());
        prop_assert!(after <= before.saturating_add(permits) || matches!(rule, Rule::Sliding(_)));
    }

    #[test]
    fn whoever_gives_back_more_than_was_taken_is_as_new(
        rule in any_rule(), part in 0.0..1.0_f64, more in 0..=u32::MAX,
    ) {
        let permits = 1 + (f64::from(rule.capacity() - 1) * part) as u32;
        let taken = rule.take(None, NOW, permits.into());

        let given = rule.take(taken.state, NOW, -i64::from(permits.max(more)));

        prop_assert!(given.fits);
        prop_assert_eq!(given.state, None);
    }

    #[test]
    fn gcra_passes_no_more_than_its_burst_and_its_rate_in_any_span(
        permits in 1_u32..50, period_us in 1_000_u64..5_000_000, burst in 1_u32..50, steps in schedule(),
    ) {
        let rule = gcra(permits, period_us, burst);
        let (mut state, mut now) = (None, NOW);
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (pause, part) in steps {
            now += (period_us as f64 * pause) as u64;
            let want = 1 + (f64::from(burst - 1) * part) as u32;
            let taken = rule.take(state, now, want.into());
            state = taken.state;
            if taken.fits {
                passed.push((now, want.into()));
            }
        }

        for (first, (from, _)) in passed.iter().enumerate() {
            let mut sum = 0;
            for (until, count) in &passed[first..] {
                sum += count;
                let rate = u128::from(until - from) * u128::from(permits) / u128::from(period_us);
                prop_assert!(u128::from(sum) <= u128::from(burst) + rate);
            }
        }
    }

    #[test]
    fn windows_pass_less_than_twice_the_quota_in_any_span_of_one(
        quota in 1_u32..50, window_us in 1_000_u64..5_000_000, slides in any::<bool>(), steps in schedule(),
    ) {
        let rule = if slides { sliding(quota, window_us) } else { fixed(quota, window_us) };
        let (mut state, mut now) = (None, NOW);
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (pause, part) in steps {
            now += (window_us as f64 * pause / 3.0) as u64;
            let want = 1 + (f64::from(quota - 1) * part) as u32;
            let taken = rule.take(state, now, want.into());
            state = taken.state;
            if taken.fits {
                passed.push((now, want.into()));
            }
        }

        for (first, (from, _)) in passed.iter().enumerate() {
            let within = passed[first..].iter().take_while(|(at, _)| at - from < window_us);
            let sum: u64 = within.map(|(_, count)| count).sum();
            prop_assert!(sum < u64::from(quota) * 2);
        }
    }

    #[test]
    fn no_number_that_goes_to_a_script_or_into_a_key_reaches_the_end_of_luas_exactness(
        rule in any_rule(), part in 0.0..1.0_f64, back in 1..=u32::MAX,
    ) {
        const EXACT: u64 = 1 << 53;
        let permits = 1 + (f64::from(rule.capacity() - 1) * part) as u32;
        for permits in [i64::from(permits), -i64::from(back)] {
            for argument in wire::arguments(&rule, permits) {
                prop_assert!(argument.unsigned_abs() < EXACT);
            }
        }
        if let Some(State::Gcra(drawn)) = rule.take(None, NOW, rule.capacity().into()).state {
            // Two spans on top of now, as the script adds them, until the year 2041.
            prop_assert!((1_u64 << 51) + 2 * (drawn.until_us - NOW) + 1 < EXACT);
            prop_assert!(2 * drawn.parts < EXACT);
        }
    }
}

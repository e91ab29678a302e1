//! Which of several limits a decision tells of.

use std::time::Duration;

use crate::decision::{By, Standing};
use crate::limit::Limit;
use crate::rule::{Level, Rule};

/// Where the tightest limit stands once `permits` were taken: the one with the fewest left, and
/// of those the one that takes longest to recover.
pub(crate) fn after<'a>(
    limits: impl Iterator<Item = (&'a Limit, &'a Rule, Level)>,
    permits: u32,
    by: By,
) -> Standing {
    let all = limits
        .map(|(limit, rule, level)| standing(limit, rule, rule.plus(level, permits.into()), by));
    let tightest = all.min_by(|one, other| {
        let left = one.remaining.cmp(&other.remaining);
        left.then(other.reset_after.cmp(&one.reset_after))
    });
    tightest.expect("a limiter has a limit")
}

/// Where the limit stands that has the caller wait longest for `permits`, and for how long.
pub(crate) fn denied<'a>(
    limits: impl Iterator<Item = (&'a Limit, &'a Rule, Level)>,
    permits: u32,
    by: By,
) -> (Duration, Standing) {
    let all = limits.map(|(limit, rule, level)| {
        let capped = permits.min(rule.capacity());
        (
            rule.retry_after(level, capped),
            standing(limit, rule, level, by),
        )
    });
    let longest = all.max_by_key(|(retry_after, _)| *retry_after);
    longest.expect("a limiter has a limit")
}

fn standing(limit: &Limit, rule: &Rule, level: Level, by: By) -> Standing {
    Standing {
        limit: limit.name().clone(),
        remaining: rule.remaining(level),
        reset_after: rule.reset_after(level),
        by,
    }
}

//! What is decided while Redis cannot be asked.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coord_core::Key;
use tokio::time::Instant;

use crate::decision::{By, Decision, Standing};
use crate::limit::Limit;
use crate::limiter::SHORTEST;
use crate::rule::{Rule, State};
use crate::standing;

/// What a limiter decides while Redis cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WithoutRedis {
    /// Everything passes: for limits that keep the peace, where an outage of Redis must not be one
    /// of the service.
    Allow,
    /// Nothing passes: for limits that protect what would break, or cost.
    Deny,
    /// This process goes on by itself, with its share of each limit: for everything between.
    ///
    /// Its share is the limit's by the number of `instances` that serve, at least one permit: with
    /// more instances than permits, more than the limit passes in all. It starts full, so what
    /// passed just before the outage does not count. More at once than the share allows is denied
    /// until Redis is back.
    Share {
        /// How many instances serve.
        instances: NonZeroU32,
    },
}

/// What a caller that is denied for want of Redis is told to wait: as long as the longest pause
/// between two looks at it.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Subjects counted in this process; a state is about a hundred bytes, so these are 10 MB. Beyond
/// them those whose state is as new are forgotten, and if none is, new ones are denied.
const MAX_SUBJECTS: usize = 100_000;

/// The policy, with what it has to count.
pub(crate) enum Policy {
    Allow,
    Deny,
    Share(Share),
}

pub(crate) struct Share {
    rules: Box<[Rule]>,
    states: Mutex<HashMap<Key, State>>,
    /// The zero of its clock.
    start: Instant,
}

impl Policy {
    pub(crate) fn new(policy: WithoutRedis, limits: &[Limit]) -> Self {
        match policy {
            WithoutRedis::Allow => Self::Allow,
            WithoutRedis::Deny => Self::Deny,
            WithoutRedis::Share { instances } => Self::Share(Share {
                rules: limits.iter().map(|limit| limit.share(instances)).collect(),
                states: Mutex::default(),
                start: Instant::now(),
            }),
        }
    }

    pub(crate) fn decide(&self, limits: &[Limit], keys: &[Key], permits: u32) -> Decision {
        let uncounted = || Standing {
            limit: limits[0].name().clone(),
            remaining: 0,
            reset_after: Duration::ZERO,
            by: By::Policy,
        };
        match self {
            Self::Allow => Decision::Allowed(uncounted()),
            Self::Deny => Decision::Denied {
                retry_after: RETRY_AFTER,
                standing: uncounted(),
            },
            Self::Share(share) => share.decide(limits, keys, permits),
        }
    }
}

impl Share {
    fn decide(&self, limits: &[Limit], keys: &[Key], permits: u32) -> Decision {
        // Microseconds of one process fit for half a million years.
        let now_us = self.start.elapsed().as_micros() as u64;
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let takes = |(rule, key): (&Rule, &Key)| {
            rule.take(states.get(key).copied(), now_us, permits.into())
        };
        let taken: Vec<_> = self.rules.iter().zip(keys).map(takes).collect();
        let has_room = states.len() + keys.len() <= MAX_SUBJECTS || {
            let counts = |state: &State| self.rules.iter().any(|rule| rule.holds(*state, now_us));
            states.retain(|_, state| counts(state));
            states.len() + keys.len() <= MAX_SUBJECTS
        };
        let fits = taken.iter().all(|taken| taken.fits)
            && (has_room || keys.iter().all(|key| states.contains_key(key)));
        if fits {
            for (key, taken) in keys.iter().zip(&taken) {
                match taken.state {
                    Some(state) => states.insert(key.clone(), state),
                    None => states.remove(key),
                };
            }
        }
        let before: Vec<_> = taken.iter().map(|taken| taken.before).collect();
        let each = limits.iter().zip(&self.rules).zip(&before);
        let each = each.map(|((limit, rule), level)| (limit, rule, *level));
        if fits {
            return Decision::Allowed(standing::after(each, permits, By::Share));
        }
        let (retry_after, standing) = standing::denied(each, permits, By::Share);
        // What never fits here, or cannot be counted here, waits for Redis.
        let waits = !has_room || self.rules.iter().any(|rule| rule.capacity() < permits);
        let retry_after = if waits { RETRY_AFTER } else { retry_after };
        Decision::Denied {
            retry_after: retry_after.max(SHORTEST),
            standing,
        }
    }
}

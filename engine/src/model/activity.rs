//! Activities: how often, how long, and what became of an attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::time::span;
use super::{AttemptId, Failure, OwnerId, RunId, TaskId, Timestamp};

/// When a failed attempt is followed by another.
///
/// The wait after attempt `n` is `min(maximum, initial * coefficient^(n-1))`, without jitter: an
/// attempt's instant is an entry of a table, and the claims of many spread by themselves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Retry {
    /// The wait after the first attempt. Default 1 s: most faults of others last about that long.
    #[serde(with = "span")]
    pub initial: Duration,
    /// The factor from one wait to the next, at least 1. Default 2.
    pub coefficient: f64,
    /// The longest wait. Default 100 s, so that a service that comes back is found soon.
    #[serde(with = "span")]
    pub maximum: Duration,
    /// How many attempts there are at most; `None` for no limit. Default none: the timeouts bound
    /// an activity, and a workflow that gives up while a dependency is away helps nobody.
    pub attempts: Option<u32>,
    /// Sorts of [`Failure`] after which no attempt follows.
    pub non_retryable: Vec<String>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            coefficient: 2.0,
            maximum: Duration::from_secs(100),
            attempts: None,
            non_retryable: Vec::new(),
        }
    }
}

impl Retry {
    /// At most `attempts` attempts, with the waits of the default.
    pub fn exponential(attempts: u32) -> Self {
        Self {
            attempts: Some(attempts.max(1)),
            ..Self::default()
        }
    }

    /// One attempt only.
    pub fn never() -> Self {
        Self::exponential(1)
    }

    /// The wait after attempt `attempt` (from 1) that failed as `failure`; `None` if it was the
    /// last one.
    pub fn wait_after(&self, attempt: u32, failure: &Failure) -> Option<Duration> {
        let excluded = || self.non_retryable.contains(&failure.kind);
        let is_last = self.attempts.is_some_and(|attempts| attempt >= attempts);
        if failure.non_retryable || is_last || excluded() {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.coefficient.max(1.0).powi(exponent);
        let seconds = (self.initial.as_secs_f64() * factor).min(self.maximum.as_secs_f64());
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(self.maximum))
    }
}

/// How long an activity and its attempts may take. Each is unbounded when it is not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeouts {
    /// From scheduling until its first attempt begins. Not retried: the queue has no worker.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "span::option"
    )]
    pub schedule_to_start: Option<Duration>,
    /// One attempt, from its claim.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "span::option"
    )]
    pub start_to_close: Option<Duration>,
    /// The whole, with all attempts and the waits between. Not retried.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "span::option"
    )]
    pub schedule_to_close: Option<Duration>,
    /// Between two heartbeats of an attempt.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "span::option"
    )]
    pub heartbeat: Option<Duration>,
}

/// Which of its times an activity exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expired {
    /// No worker began it in time.
    ScheduleToStart,
    /// An attempt took too long.
    StartToClose,
    /// All attempts together took too long.
    ScheduleToClose,
    /// An attempt was silent for too long.
    Heartbeat,
}

impl Expired {
    /// Whether another attempt may follow.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::StartToClose | Self::Heartbeat)
    }

    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScheduleToStart => "schedule_to_start",
            Self::StartToClose => "start_to_close",
            Self::ScheduleToClose => "schedule_to_close",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// One try of an activity that did not succeed. What succeeded stands in the history.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// Its id, made at the claim.
    pub id: AttemptId,
    /// The execution it belongs to.
    pub task: TaskId,
    /// The run it belongs to.
    pub run: RunId,
    /// Its number, from 1.
    pub number: u32,
    /// Who had it.
    pub owner: Option<OwnerId>,
    /// How it ended.
    pub end: AttemptEnd,
    /// Why.
    pub failure: Failure,
    /// When that was recorded.
    pub ended_at: Timestamp,
}

/// How an attempt that did not succeed ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    /// It returned a failure, or panicked.
    Failed,
    /// It exceeded a time.
    TimedOut,
}

impl AttemptEnd {
    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_grow_by_the_factor_up_to_the_longest() {
        let policy = Retry {
            maximum: Duration::from_secs(5),
            ..Retry::default()
        };
        let failure = Failure::new("away");

        let waits: Vec<_> = (1..6).map(|n| policy.wait_after(n, &failure)).collect();

        let seconds = [1, 2, 4, 5, 5].map(|seconds| Some(Duration::from_secs(seconds)));
        assert_eq!(waits, seconds);
        assert_eq!(policy.wait_after(u32::MAX, &failure), Some(policy.maximum));
    }

    #[test]
    fn the_last_attempt_and_an_excluded_failure_are_followed_by_none() {
        let policy = Retry {
            attempts: Some(3),
            non_retryable: vec!["card_refused".to_owned()],
            ..Retry::default()
        };

        assert!(policy.wait_after(2, &Failure::new("away")).is_some());
        assert!(policy.wait_after(3, &Failure::new("away")).is_none());
        let refused = Failure::new("no").of_kind("card_refused");
        assert!(policy.wait_after(1, &refused).is_none());
        assert!(
            policy
                .wait_after(1, &Failure::new("no").non_retryable())
                .is_none()
        );
    }
}

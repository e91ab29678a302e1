//! What follows an attempt of an activity that did not succeed.

use std::time::Duration;

use crate::model::{Expired, Failure, Retry, Timeouts, Timestamp};

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Another attempt, after so long.
    Again(Duration),
    /// No attempt: the run is told.
    Final,
}

/// What follows attempt `attempt` that failed as `failure` at `now`, for an activity that was
/// scheduled at `scheduled_at`.
///
/// No attempt begins after the time for the whole is over: waiting for one would only delay the
/// news.
pub fn judge(
    (policy, timeouts): (&Retry, &Timeouts),
    attempt: u32,
    failure: &Failure,
    (scheduled_at, now): (Timestamp, Timestamp),
) -> Verdict {
    let Some(wait) = policy.wait_after(attempt, failure) else {
        return Verdict::Final;
    };
    let end = timeouts
        .schedule_to_close
        .map_or(Timestamp::NEVER, |span| scheduled_at.plus(span));
    if now.plus(wait) >= end {
        return Verdict::Final;
    }
    Verdict::Again(wait)
}

/// Which time an activity has exceeded at `now`, if any; the gravest first.
///
/// `started_at` and `heartbeat_at` are those of the attempt under way.
pub fn expired(
    timeouts: &Timeouts,
    scheduled_at: Timestamp,
    attempt: Option<(Timestamp, Timestamp)>,
    attempts_begun: u32,
    now: Timestamp,
) -> Option<Expired> {
    let over =
        |since: Timestamp, span: Option<Duration>| span.is_some_and(|span| since.plus(span) <= now);
    if over(scheduled_at, timeouts.schedule_to_close) {
        return Some(Expired::ScheduleToClose);
    }
    match attempt {
        Some((started_at, _)) if over(started_at, timeouts.start_to_close) => {
            Some(Expired::StartToClose)
        }
        Some((_, heartbeat_at)) if over(heartbeat_at, timeouts.heartbeat) => {
            Some(Expired::Heartbeat)
        }
        Some(_) => None,
        None => (attempts_begun == 0 && over(scheduled_at, timeouts.schedule_to_start))
            .then_some(Expired::ScheduleToStart),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn no_attempt_begins_after_the_time_for_the_whole() {
        let policy = Retry::default();
        let timeouts = Timeouts {
            schedule_to_close: Some(10 * SECOND),
            ..Timeouts::default()
        };
        let judged = |now| judge((&policy, &timeouts), 1, &Failure::new("away"), (at(0), now));

        assert_eq!(judged(at(8)), Verdict::Again(SECOND));
        assert_eq!(judged(at(9)), Verdict::Final);
    }

    #[test]
    fn both_sides_of_every_time_hold() {
        let timeouts = Timeouts {
            schedule_to_start: Some(2 * SECOND),
            start_to_close: Some(5 * SECOND),
            schedule_to_close: Some(20 * SECOND),
            heartbeat: Some(3 * SECOND),
        };
        let found = |attempt, begun, now| expired(&timeouts, at(0), attempt, begun, at(now));

        assert_eq!(found(None, 0, 1), None);
        assert_eq!(found(None, 0, 2), Some(Expired::ScheduleToStart));
        assert_eq!(found(None, 1, 2), None, "it has started once");
        assert_eq!(found(Some((at(4), at(6))), 1, 8), None);
        assert_eq!(
            found(Some((at(4), at(6))), 1, 9),
            Some(Expired::StartToClose)
        );
        assert_eq!(found(Some((at(8), at(8))), 1, 11), Some(Expired::Heartbeat));
        assert_eq!(
            found(Some((at(19), at(19))), 3, 20),
            Some(Expired::ScheduleToClose)
        );
    }
}

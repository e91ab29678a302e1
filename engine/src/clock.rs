//! The database's clock, as this process knows it between two answers.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::model::Timestamp;

/// What the database's clock shows by now, from its last answer and the time since its request
/// left.
///
/// It stamps events and fixes timers; what is due, and which lease has ended, the database decides.
/// It runs ahead by at most the time of a round trip, so that no timer is due too early. It falls
/// behind while a machine is suspended, until the next answer; what is decided in between is
/// committed only if the lease still holds, so the error is bounded by a lease.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<(Timestamp, Instant)>>);

impl Clock {
    /// Takes in an answer of the database to a request that left at `sent`.
    pub(crate) fn observe(&self, now: Timestamp, sent: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|(_, before)| before <= sent) {
            *known = Some((now, sent));
        }
    }

    /// What it shows by now; zero before the first answer.
    pub(crate) fn now(&self) -> Timestamp {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.map_or_else(Timestamp::default, |(now, sent)| now.plus(sent.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_from_the_last_answer() {
        let clock = Clock::default();
        clock.observe(Timestamp::from_micros(1_000), Instant::now());

        tokio::time::advance(Duration::from_millis(5)).await;

        assert_eq!(clock.now(), Timestamp::from_micros(6_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_to_an_older_request_changes_nothing() {
        let clock = Clock::default();
        let old = Instant::now();
        tokio::time::advance(Duration::from_millis(5)).await;
        clock.observe(Timestamp::from_micros(9_000), Instant::now());

        clock.observe(Timestamp::from_micros(1_000), old);

        assert_eq!(clock.now(), Timestamp::from_micros(9_000));
    }
}

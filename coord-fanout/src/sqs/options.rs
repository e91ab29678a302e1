//! How a queue on SQS is to behave.

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{Error, Result};

/// Both queues answer within a round trip of the same region when they are well.
const LEAST_DEADLINE: Duration = Duration::from_millis(100);

/// How a [`SqsQueue`](crate::SqsQueue) behaves. All processes of one queue use the same.
///
/// What SQS itself keeps is set there: the visibility is the queue's `VisibilityTimeout`, and
/// messages wait for as long as its `MessageRetentionPeriod`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqsOptions {
    pub(super) attempts: NonZeroU32,
    pub(super) deadline: Duration,
    pub(super) grouped: bool,
}

impl Default for SqsOptions {
    fn default() -> Self {
        Self {
            attempts: NonZeroU32::new(5).expect("five is not zero"),
            deadline: Duration::from_secs(10),
            grouped: true,
        }
    }
}

impl SqsOptions {
    /// How often a message is tried before it goes to the dead letters; 5 by default. SQS counts
    /// every delivery, also one that was released or whose consumer died.
    #[must_use]
    pub fn attempts(mut self, attempts: NonZeroU32) -> Self {
        self.attempts = attempts;
        self
    }

    /// How long a call tries to get through; 10 s by default, two attempts at an endpoint that
    /// swallows requests. A wait for messages comes on top, and a call of many batches may take
    /// this long after the last one that got through.
    ///
    /// # Errors
    /// `Invalid` below 100 ms.
    pub fn deadline(mut self, deadline: Duration) -> Result<Self> {
        if deadline < LEAST_DEADLINE {
            return Err(Error::invalid(format!(
                "a deadline of {deadline:?} is below {LEAST_DEADLINE:?}"
            )));
        }
        self.deadline = deadline;
        Ok(self)
    }

    /// Promises that no message of this queue has a group, so that ten are received at once; a
    /// message with a group is then refused.
    ///
    /// Asked for ten, SQS hands out ten of one group together and counts an attempt at each. So
    /// where there may be groups, messages are received one by one, several requests at a time,
    /// which costs up to ten times as many requests.
    #[must_use]
    pub fn without_groups(mut self) -> Self {
        self.grouped = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn a_deadline_that_no_request_can_meet_is_refused() {
        let refused = SqsOptions::default().deadline(Duration::from_millis(99));

        assert_eq!(refused.expect_err("too short").kind(), ErrorKind::Invalid);
        assert!(SqsOptions::default().deadline(LEAST_DEADLINE).is_ok());
    }
}

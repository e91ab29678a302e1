//! How a queue is to behave.

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{Error, Result, Ttl};

/// The longest window: beyond it, ids are rather kept in a database.
const LONGEST_WINDOW: Duration = Duration::from_hours(31 * 24);

/// How a [`StreamQueue`](crate::StreamQueue) behaves. It travels with every call, so all processes
/// of one queue use the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    pub(super) visibility: Ttl,
    pub(super) window: Duration,
    pub(super) attempts: NonZeroU32,
    pub(super) depth: u64,
    pub(super) dead_letters: NonZeroU32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            visibility: Ttl::DEFAULT,
            window: Duration::from_mins(5),
            attempts: NonZeroU32::new(5).expect("five is not zero"),
            depth: 1_000_000,
            dead_letters: NonZeroU32::new(100_000).expect("not zero"),
        }
    }
}

impl QueueOptions {
    /// How long a delivery belongs to its consumer; 30 s by default. It bounds how long the
    /// messages of a dead consumer stay away, not how long a handler may take: a
    /// [`Consumer`](crate::Consumer) extends it.
    #[must_use]
    pub fn visibility(mut self, visibility: Ttl) -> Self {
        self.visibility = visibility;
        self
    }

    /// For how long a second message of one id is suppressed, counted from the first; five minutes
    /// by default, as long as SQS does. It outlives the message: completed or given up, its id
    /// stays taken until the window ends.
    ///
    /// # Errors
    /// `Invalid` below 1 ms and above 31 days.
    pub fn window(mut self, window: Duration) -> Result<Self> {
        if window < Duration::from_millis(1) || window > LONGEST_WINDOW {
            return Err(Error::invalid(format!(
                "a deduplication window of {window:?} is not in 1 ms to 31 days"
            )));
        }
        self.window = window;
        Ok(self)
    }

    /// How often a message is tried before it goes to the dead letters; 5 by default.
    #[must_use]
    pub fn attempts(mut self, attempts: NonZeroU32) -> Self {
        self.attempts = attempts;
        self
    }

    /// How many messages may be open (ready, waiting, delayed or in flight) before `enqueue` is
    /// refused; a million by default, a few hundred megabytes of small messages.
    #[must_use]
    pub fn depth(mut self, depth: u64) -> Self {
        self.depth = depth;
        self
    }

    /// How many dead letters are kept; 100 000 by default. More make the oldest vanish, and all of
    /// them vanish 14 days after the last one came, as long as SQS keeps a message.
    #[must_use]
    pub fn dead_letters(mut self, dead_letters: NonZeroU32) -> Self {
        self.dead_letters = dead_letters;
        self
    }
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn both_limits_of_the_window_hold() {
        let refused = |window| {
            let options = QueueOptions::default().window(window);
            options.expect_err("out of range").kind()
        };

        assert!(
            QueueOptions::default()
                .window(Duration::from_millis(1))
                .is_ok()
        );
        assert!(QueueOptions::default().window(LONGEST_WINDOW).is_ok());
        assert_eq!(refused(Duration::from_micros(999)), ErrorKind::Invalid);
        assert_eq!(
            refused(LONGEST_WINDOW + Duration::from_millis(1)),
            ErrorKind::Invalid
        );
    }
}

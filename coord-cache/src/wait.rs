//! Waiting for the load of another process.

use std::time::Duration;

use coord_core::{Backoff, Key};
use coord_redis::{Redis, Subscription};
use tokio::time::Instant;

/// Between two looks while messages come: for the message that is lost, and the process that died.
const LISTENING: Duration = Duration::from_millis(500);

/// Between two looks while no messages come.
const LOOKING: Duration = Duration::from_millis(25);

/// Those who wait for the same end do not all look in the same instant.
const SPREAD: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(50));

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// It is worth while to ask again.
    News,
    Deadline,
}

/// The messages about one entry, from the first wait on.
#[derive(Default)]
pub(crate) struct News {
    was_waited_for: bool,
    subscription: Option<Subscription>,
}

impl News {
    pub(crate) fn was_waited_for(&self) -> bool {
        self.was_waited_for
    }

    /// Waits until it is worth while to ask again, at most until `deadline`.
    pub(crate) async fn wait(&mut self, redis: &Redis, key: &Key, deadline: Instant) -> Over {
        if !self.was_waited_for {
            self.was_waited_for = true;
            let channel = key.channel(redis.database());
            let subscribing = tokio::time::timeout_at(deadline, redis.subscribe(&channel));
            // Whoever may not subscribe looks more often. The load may have ended before the
            // subscription began, so that it is asked again at once.
            self.subscription = subscribing.await.ok().and_then(Result::ok);
            return over(deadline);
        }
        let pause = match self.subscription {
            Some(_) => LISTENING,
            None => LOOKING,
        };
        let look = deadline.min(Instant::now() + pause + SPREAD.jittered(0));
        let message = async {
            match &mut self.subscription {
                Some(subscription) => subscription.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            notice = message => {
                if notice.is_none() {
                    // The client is shut down: the next question says so.
                    self.subscription = None;
                }
            }
            () = tokio::time::sleep_until(look) => {}
        }
        over(deadline)
    }
}

fn over(deadline: Instant) -> Over {
    if Instant::now() >= deadline {
        Over::Deadline
    } else {
        Over::News
    }
}

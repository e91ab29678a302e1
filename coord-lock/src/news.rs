//! Where a client hears of locks: its subscriptions, which it keeps for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use coord_core::{Channel, ClaimToken, Name};
use coord_redis::{Redis, Subscription};
use tokio::time::Instant;

/// For how long a subscription outlives its last waiter. Whoever waits for a lock that is passed
/// around soon waits again, and is then told without asking the server to be.
const KEPT: Duration = Duration::from_secs(1);

/// The subscriptions of one client that somebody waited on not long ago.
pub(crate) struct News {
    /// By what the others tell this client from theirs.
    client: Name,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    subscriptions: HashMap<Channel, (Subscription, Instant)>,
    is_swept: bool,
}

impl News {
    pub(crate) fn new() -> Self {
        let client = ClaimToken::random();
        Self {
            client: Name::new(client.as_str()).expect("a token is short and not empty"),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn client(&self) -> &Name {
        &self.client
    }

    /// A subscription of `channel`, if there is one still.
    pub(crate) fn kept(&self, channel: &Channel) -> Option<Subscription> {
        let kept = self.lock();
        let (subscription, _) = kept.subscriptions.get(channel)?;
        Some(subscription.another())
    }

    /// Keeps `subscription`, which nobody waits on any more, for those who soon do.
    pub(crate) fn keep(self: &Arc<Self>, subscription: Subscription, redis: &Redis) {
        let (channel, until) = (subscription.channel().clone(), Instant::now() + KEPT);
        let mut kept = self.lock();
        kept.subscriptions.insert(channel, (subscription, until));
        if !std::mem::replace(&mut kept.is_swept, true) {
            redis.tend(sweep(Arc::downgrade(self)));
        }
    }

    /// Drops what was kept for long enough; nothing when there is no more to come.
    fn drop_old(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut kept = self.lock();
        kept.subscriptions.retain(|_, (_, until)| *until > now);
        let next = kept.subscriptions.values().map(|(_, until)| *until).min();
        kept.is_swept = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere cannot leave half a change.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops subscriptions in time, until none is left or the client is gone.
async fn sweep(news: Weak<News>) {
    let mut next = Instant::now() + KEPT;
    loop {
        tokio::time::sleep_until(next).await;
        match news.upgrade().and_then(|news| news.drop_old()) {
            Some(later) => next = later,
            None => return,
        }
    }
}

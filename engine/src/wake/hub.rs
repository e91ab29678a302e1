//! Hints within this process: who waits on which channel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::time::Instant;

use super::Channel;
use crate::committer::locked;

/// When there is news for a snapshot: now, later, or not that anybody knows.
type Bell = watch::Sender<Option<Instant>>;

/// Every snapshot under every channel that it is of. Channels that nobody waits on leave nothing.
#[derive(Default)]
pub(super) struct Hub(Mutex<HashMap<Channel, Vec<Arc<Bell>>>>);

/// What was known of some channels when it was taken. Dropped, it hears no more.
pub(crate) struct Snapshot {
    hub: Arc<Hub>,
    channels: Vec<Channel>,
    bell: Arc<Bell>,
}

impl Hub {
    pub(super) fn snapshot(self: &Arc<Self>, channels: &[Channel]) -> Snapshot {
        let bell = Arc::new(watch::Sender::new(None));
        let mut bells = locked(&self.0);
        for channel in channels {
            bells
                .entry(channel.clone())
                .or_default()
                .push(Arc::clone(&bell));
        }
        Snapshot {
            hub: Arc::clone(self),
            channels: channels.to_vec(),
            bell,
        }
    }

    /// There is news on `channel` at `at`. Whether anybody here waits for it.
    pub(super) fn ring(&self, channel: &Channel, at: Instant) -> bool {
        let bells = locked(&self.0);
        let waiting = bells.get(channel).map_or(&[][..], Vec::as_slice);
        for bell in waiting {
            ring(bell, at);
        }
        !waiting.is_empty()
    }

    fn forget(&self, channel: &Channel, bell: &Arc<Bell>) {
        let mut bells = locked(&self.0);
        if let Some(waiting) = bells.get_mut(channel) {
            waiting.retain(|known| !Arc::ptr_eq(known, bell));
            if waiting.is_empty() {
                bells.remove(channel);
            }
        }
    }

    /// There may be news on every channel.
    pub(super) fn ring_all(&self) {
        let now = Instant::now();
        for bell in locked(&self.0).values().flatten() {
            ring(bell, now);
        }
    }
}

#[cfg(test)]
impl Hub {
    pub(super) fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }
}

fn ring(bell: &Bell, at: Instant) {
    bell.send_if_modified(|known| {
        let is_sooner = known.is_none_or(|known| at < known);
        if is_sooner {
            *known = Some(at);
        }
        is_sooner
    });
}

impl Snapshot {
    /// Whether there has been news since it was taken.
    pub(crate) fn changed(&self) -> bool {
        self.bell.borrow().is_some_and(|at| at <= Instant::now())
    }

    /// Hears no more of `channel`.
    pub(crate) fn leave(&mut self, channel: &Channel) {
        self.channels.retain(|known| known != channel);
        self.hub.forget(channel, &self.bell);
    }

    /// Waits for news until `until`. Whether there is any.
    pub(crate) async fn wait(&self, until: Instant) -> bool {
        let mut news = self.bell.subscribe();
        loop {
            let at = *news.borrow_and_update();
            if self.changed() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            let next = at.map_or(until, |at| at.min(until));
            // Either way it is looked at again. The sender is this snapshot's own.
            _ = tokio::time::timeout_at(next, news.changed()).await;
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        for channel in &self.channels {
            self.hub.forget(channel, &self.bell);
        }
    }
}

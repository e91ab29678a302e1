//! The poller: claims as much as there are slots for, and waits for more.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Shop;
use crate::model::TaskKind;
use crate::signals::{Found, ProbedBy, Signal};
use crate::store::{Claim, Claimed};
use crate::wake::Channel;

/// The largest claim.
const LARGEST_CLAIM: usize = 100;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

impl Shop {
    /// Claims tasks of `kind` and begins them, as long as the worker takes any.
    pub(super) async fn poll(self: Arc<Self>, kind: TaskKind) {
        if self.registry.names(kind).is_empty() {
            return;
        }
        let mut closing = self.closing.subscribe();
        let channel = Channel::tasks(kind, &self.namespace, &self.queue);
        let (mut failures, mut waited_for) = (0, None);
        loop {
            let Some(slots) = self.free_slots(kind).await else {
                return;
            };
            // Before the look, so that a hint that comes during it is not missed.
            let snapshot = self.core.wake.snapshot(std::slice::from_ref(&channel));
            let sent = Instant::now();
            let wait = match self.claim(kind, slots.len()).await {
                Ok(claimed) => {
                    self.core.clock.observe(claimed.now, sent);
                    failures = 0;
                    if let Some(by) = waited_for.take() {
                        let found = match claimed.tasks.as_slice() {
                            [] => Found::Nothing,
                            _ => Found::Work,
                        };
                        Signal::Probe { by, found }.emit();
                    }
                    let wait = self.wait_after(&claimed);
                    self.begin(kind, claimed, slots, sent);
                    wait
                }
                Err(error) => {
                    Signal::StoreFailed {
                        error: Detail::error(&error),
                    }
                    .emit();
                    failures += 1;
                    drop(slots);
                    let wait = BACKOFF.jittered(failures).max(Duration::from_millis(10));
                    tokio::select! {
                        _ = closing.wait_for(|closing| *closing) => return,
                        () = tokio::time::sleep(wait) => continue,
                    }
                }
            };
            let Some((until, by)) = wait else { continue };
            waited_for = tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return,
                is_hint = snapshot.wait(until) => Some(if is_hint { ProbedBy::Hint } else { by }),
            };
        }
    }

    /// Until when to wait for a hint after a claim, and why; not at all while there may be more.
    fn wait_after(&self, claimed: &Claimed) -> Option<(Instant, ProbedBy)> {
        if !claimed.tasks.is_empty() {
            return None;
        }
        let (now, probe) = (Instant::now(), self.core.wake.probe());
        let due = claimed.next_due.map(|due| due.since(claimed.now));
        Some(match due.filter(|due| *due < probe) {
            Some(due) => (now + due.max(Duration::from_millis(1)), ProbedBy::Due),
            None => (now + probe, ProbedBy::Time),
        })
    }

    /// All free slots, at least one; `None` when the worker takes no more.
    async fn free_slots(&self, kind: TaskKind) -> Option<Vec<OwnedSemaphorePermit>> {
        let semaphore = match kind {
            TaskKind::Workflow => &self.turns,
            TaskKind::Activity => &self.activities,
        };
        let mut closing = self.closing.subscribe();
        let first = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return None,
            first = Arc::clone(semaphore).acquire_owned() => first.ok()?,
        };
        let mut slots = vec![first];
        while slots.len() < LARGEST_CLAIM {
            let Ok(slot) = Arc::clone(semaphore).try_acquire_owned() else {
                break;
            };
            slots.push(slot);
        }
        Some(slots)
    }

    async fn claim(&self, kind: TaskKind, limit: usize) -> Result<Claimed> {
        let attempts = match kind {
            TaskKind::Workflow => Vec::new(),
            TaskKind::Activity => (0..limit).map(|_| self.core.ids.attempt()).collect(),
        };
        let claim = Claim {
            namespace: self.namespace.clone(),
            queue: self.queue.clone(),
            kind,
            names: self.registry.names(kind),
            builds: None,
            owner: self.core.owner(),
            ttl: self.lease,
            limit: limit as u32,
            attempts,
        };
        self.core.store.claim(&claim).await
    }

    fn begin(
        self: &Arc<Self>,
        kind: TaskKind,
        claimed: Claimed,
        slots: Vec<OwnedSemaphorePermit>,
        sent: Instant,
    ) {
        for (task, slot) in claimed.tasks.into_iter().zip(slots) {
            let shop = Arc::clone(self);
            self.spawn(async move {
                match kind {
                    TaskKind::Workflow => {
                        shop.turn(task, sent).await;
                        drop(slot);
                    }
                    TaskKind::Activity => shop.attempt(task, sent, slot).await,
                }
            });
        }
    }
}

//! Runs that begin in the process that starts them: no claim, and nothing to read.

use std::sync::Arc;

use coord_core::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::Shop;
use super::live::{Live, Trouble, started, turn_of};
use crate::model::{Due, Event, TaskId, TaskKind};
use crate::store::{Lease, Outcome, Start, Write};
use crate::transition::Identity;

/// A run that is leased to this worker as it is started, and the slot that it takes.
pub(crate) struct Eager {
    shop: Arc<Shop>,
    slot: OwnedSemaphorePermit,
    start: Start,
}

impl Shop {
    /// Leases the run of `start` to this worker, if it knows it and has a slot: one that is free
    /// shows that nobody waits in the queue for it.
    pub(crate) fn lease_start(self: &Arc<Self>, start: &mut Start) -> Option<Eager> {
        let is_ours = start.queue == self.queue
            && start.due == Due::Now
            && self.knows(&start.namespace, &start.name)
            && self.supports(start.build.as_ref())
            && !self.is_bounded(&start.queue, TaskKind::Workflow);
        if !is_ours || self.is_closing() {
            return None;
        }
        let slot = Arc::clone(&self.turns).try_acquire_owned().ok()?;
        start.lease = Some(Lease {
            owner: self.core.owner(),
            ttl: self.turn_lease(),
        });
        Some(Eager {
            shop: Arc::clone(self),
            slot,
            start: start.clone(),
        })
    }
}

impl Eager {
    /// Commits the start, and goes on with the run when this has created it.
    ///
    /// # Errors
    /// As [`commit_known`](crate::engine::Core::commit_known).
    ///
    /// # Cancel safety
    /// Safe to drop: the worker goes on with it.
    pub(crate) async fn commit(self) -> Result<Outcome> {
        let (reply, outcome) = oneshot::channel();
        let shop = Arc::clone(&self.shop);
        shop.spawn(async move {
            let Self { shop, slot, start } = self;
            let sent = Instant::now();
            let write = Write::Start(Box::new(start.clone()));
            let committed = shop.core.commit_known(write).await;
            let created = Outcome::Started {
                run: start.run.clone(),
                created: true,
            };
            let is_ours = committed.as_ref().is_ok_and(|outcome| *outcome == created);
            // Who no longer waits for it has no use for it.
            _ = reply.send(committed);
            if is_ours {
                let task = (TaskId::of(&start.run, 0), 1, 1);
                let live = async { shop.begun(&start) };
                shop.turn_of(&start.run, task, sent, live).await;
            }
            drop(slot);
        });
        let ended = |_| Error::timeout("starting a workflow: the worker ended meanwhile");
        outcome.await.map_err(ended)?
    }
}

impl Shop {
    /// A run with nothing behind it but its start.
    fn begun(&self, start: &Start) -> Result<Box<Live>, Trouble> {
        let events = start.records.iter().cloned().map(Event::from_record);
        let events: Vec<_> = events.collect::<Result<_>>()?;
        let identity = Identity {
            namespace: start.namespace.clone(),
            workflow: start.workflow.clone(),
            run: start.run.clone(),
        };
        let turn = turn_of(&start.run, started(&events));
        self.follow(identity, &start.name, &events, (0, turn))
    }
}

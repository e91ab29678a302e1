//! The deliveries that a consumer holds, and extending them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coord_core::Name;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::queue::{Delivery, Queue, Receipt};
use crate::signals::Signal;

/// Two extensions may fail in a row before a handler must stop.
const EXTENSIONS_PER_VISIBILITY: u32 = 3;

/// What one consumer holds; shared by its loop and the task that extends.
#[derive(Debug)]
pub(super) struct Held {
    queue: Name,
    deliveries: Mutex<HashMap<Receipt, Holding>>,
}

#[derive(Debug)]
struct Holding {
    id: Name,
    valid_until: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Its handler runs.
    AtWork(AbortHandle),
    /// Its handler has ended, or never ran; the queue is being told.
    Ended,
    /// Its visibility ended while its handler ran.
    Lost,
}

impl Held {
    pub(super) fn new(queue: Name) -> Self {
        Self {
            queue,
            deliveries: Mutex::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Holds a delivery whose handler runs as the task `handler`, or never will.
    pub(super) fn insert(&self, delivery: &Delivery, handler: Option<AbortHandle>) {
        let holding = Holding {
            id: delivery.message.id.clone(),
            valid_until: delivery.valid_until,
            stage: handler.map_or(Stage::Ended, Stage::AtWork),
        };
        self.lock().insert(delivery.receipt.clone(), holding);
    }

    /// Notes that the handler has ended; says whether its delivery is still ours.
    pub(super) fn ended(&self, receipt: &Receipt) -> bool {
        match self.lock().get_mut(receipt) {
            Some(holding) if !matches!(holding.stage, Stage::Lost) => {
                holding.stage = Stage::Ended;
                true
            }
            _ => false,
        }
    }

    /// Lets go of a delivery; `lost` says that the queue knows it no more.
    pub(super) fn remove(&self, receipt: &Receipt, lost: bool) {
        let Some(holding) = self.lock().remove(receipt) else {
            return;
        };
        if lost && !matches!(holding.stage, Stage::Lost) {
            self.report(holding.id);
        }
    }

    /// Until when the last of these is valid.
    pub(super) fn valid_until<'a>(&self, receipts: impl Iterator<Item = &'a Receipt>) -> Instant {
        let deliveries = self.lock();
        let ends = receipts.filter_map(|receipt| Some(deliveries.get(receipt)?.valid_until));
        ends.max().unwrap_or_else(Instant::now)
    }

    /// When the first handler's delivery ends if nobody extends it.
    fn first_end(&self) -> Option<Instant> {
        let deliveries = self.lock();
        let at_work = deliveries
            .values()
            .filter(|holding| matches!(holding.stage, Stage::AtWork(_)));
        at_work.map(|holding| holding.valid_until).min()
    }

    fn receipts(&self) -> Vec<Receipt> {
        let deliveries = self.lock();
        let ours = deliveries
            .iter()
            .filter(|(_, holding)| !matches!(holding.stage, Stage::Lost));
        ours.map(|(receipt, _)| receipt.clone()).collect()
    }

    fn extended(&self, receipts: &[Receipt], ends: Vec<Option<Instant>>) {
        let mut deliveries = self.lock();
        for (receipt, end) in receipts.iter().zip(ends) {
            let Some(holding) = deliveries.get_mut(receipt) else {
                continue;
            };
            match end {
                Some(end) => holding.valid_until = end,
                None => self.lose(holding),
            }
        }
    }

    fn expire(&self, now: Instant) {
        let mut deliveries = self.lock();
        let expired = deliveries
            .values_mut()
            .filter(|holding| holding.valid_until <= now);
        expired.for_each(|holding| self.lose(holding));
    }

    /// Stops the handler. What is being settled is left to the queue's answer: it may be gone for
    /// the very reason that it was settled.
    fn lose(&self, holding: &mut Holding) {
        if let Stage::AtWork(handler) = &holding.stage {
            handler.abort();
            holding.stage = Stage::Lost;
            self.report(holding.id.clone());
        }
    }

    fn report(&self, id: Name) {
        let queue = self.queue.clone();
        Signal::QueueLost { queue, id }.emit();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Receipt, Holding>> {
        self.deliveries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extends what is `held` until the sender of `stopped` is dropped.
pub(super) async fn extend<Q: Queue>(queue: Q, held: Arc<Held>, mut stopped: watch::Receiver<()>) {
    let every = queue.visibility().as_duration() / EXTENSIONS_PER_VISIBILITY;
    let mut next = Instant::now() + every;
    loop {
        let wake = held.first_end().map_or(next, |end| end.min(next));
        tokio::select! {
            _ = stopped.changed() => return,
            () = tokio::time::sleep_until(wake) => {}
        }
        let now = Instant::now();
        held.expire(now);
        if now < next {
            continue;
        }
        next = now + every;
        let receipts = held.receipts();
        if receipts.is_empty() {
            continue;
        }
        match queue.extend(&receipts).await {
            Ok(ends) => held.extended(&receipts, ends),
            Err(_) => next = Instant::now() + every / EXTENSIONS_PER_VISIBILITY,
        }
    }
}

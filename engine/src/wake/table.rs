//! Hints through a table of the engine's own database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coord_core::Result;
use tokio::time::Instant;

use super::backend::{Backend, Ears, Kind};
use crate::store::{Reply, Store};

/// How often it is read while there is something to read.
const BUSY: Duration = Duration::from_millis(100);
/// How often it is read while there is not: once, for all that wait in this process. With that, an
/// idle node stays within two calls a second.
const IDLE: Duration = Duration::from_secs(3);
/// For how long after a message it counts as busy.
const BUSY_FOR: Duration = Duration::from_secs(3);
/// How far behind the last number a message may become visible: numbers are given before commits,
/// and commits come in any order.
const OVERLAP: i64 = 200;

/// Hints that lie in the table `workflow_wakes` of the engine's database, the last few thousand.
///
/// It needs nothing beside the database, and asks it no more than a look by each worker and caller
/// would. Behind Redis it is slower by as much as it waits between two reads: a tenth of a second
/// while there is traffic, three seconds before.
pub struct Table {
    store: Arc<dyn Store>,
}

impl Table {
    /// Through the database of `store`.
    pub fn new(store: impl Store) -> Self {
        Self::on(Arc::new(store))
    }

    pub(crate) fn on(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        let first = self.store.hints(None).await?;
        let (mut last, mut seen) = (first.last, BTreeSet::new());
        seen.extend(first.messages.into_iter().map(|(number, _)| number));
        ears.begun();
        let mut busy_until = Instant::now() + BUSY_FOR;
        loop {
            let wait = if Instant::now() < busy_until {
                BUSY
            } else {
                IDLE
            };
            tokio::time::sleep(wait).await;
            let from = last - OVERLAP;
            let hints = self.store.hints(Some(from)).await?;
            for (number, message) in hints.messages {
                if seen.insert(number) && ears.heard(&message) {
                    busy_until = Instant::now() + BUSY_FOR;
                }
            }
            last = last.max(hints.last);
            let oldest = last - OVERLAP;
            seen = seen.split_off(&oldest);
        }
    }
}

impl Backend for Table {
    fn kind(&self) -> Kind {
        Kind::Table
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        self.store.hint(message)
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(self.hear(ears))
    }
}

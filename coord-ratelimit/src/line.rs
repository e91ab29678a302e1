//! Those who wait in this process for permits of one subject, in the order of their arrival.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coord_core::Key;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// One line a subject. A line is there while somebody stands in it.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<Key, Arc<Turn<()>>>>);

/// A place in the line of `key`. Dropping it gives it up, wherever it stands.
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    key: &'a Key,
    /// Given to whoever has waited longest.
    turn: Option<Arc<Turn<()>>>,
}

impl Lines {
    pub(crate) fn join<'a>(&'a self, key: &'a Key) -> Place<'a> {
        let turn = Arc::clone(self.lines().entry(key.clone()).or_default());
        Place {
            lines: self,
            key,
            turn: Some(turn),
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, Arc<Turn<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until all who came before are done.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        let turn = self.turn.as_ref().expect("it is taken by drop alone");
        Arc::clone(turn).lock_owned().await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lines();
        drop(self.turn.take());
        // Under the lock nobody joins, so the last one to leave is the only one with a copy.
        if lines
            .get(self.key)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            lines.remove(self.key);
        }
    }
}

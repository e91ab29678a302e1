//! Who waits in this process for the end of a run.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::committer::locked;
use crate::model::{Closed, RunId};

#[derive(Default)]
pub(super) struct Ends(Mutex<HashMap<RunId, Vec<oneshot::Sender<Closed>>>>);

impl Ends {
    pub(super) fn end_of(&self, run: &RunId) -> oneshot::Receiver<Closed> {
        let (tell, end) = oneshot::channel();
        let mut ends = locked(&self.0);
        let waiting = ends.entry(run.clone()).or_default();
        waiting.retain(|waiting: &oneshot::Sender<_>| !waiting.is_closed());
        waiting.push(tell);
        end
    }

    pub(super) fn awaited(&self) -> Vec<RunId> {
        let mut ends = locked(&self.0);
        ends.retain(|_, waiting| waiting.iter().any(|waiting| !waiting.is_closed()));
        ends.keys().cloned().collect()
    }

    pub(super) fn ended(&self, run: &RunId, closed: &Closed) {
        let waiting = locked(&self.0).remove(run).unwrap_or_default();
        for waiting in waiting {
            // Who no longer waits has no use for it.
            _ = waiting.send(closed.clone());
        }
    }
}

//! Who waits in this process for the end of a run.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::committer::locked;
use crate::model::{Closed, RunId};

#[derive(Default)]
pub(super) struct Ends(Mutex<HashMap<RunId, Awaited>>);

/// Who waits for the end of one run.
#[derive(Default)]
struct Awaited {
    waiting: Vec<oneshot::Sender<Closed>>,
    /// Whether the database is to be asked for it now and then.
    is_looked_for: bool,
}

impl Ends {
    /// The end of `run`, if it comes in this process: nobody looks for it yet.
    pub(super) fn expect(&self, run: &RunId) -> oneshot::Receiver<Closed> {
        let (tell, end) = oneshot::channel();
        let mut ends = locked(&self.0);
        let awaited = ends.entry(run.clone()).or_default();
        awaited.waiting.retain(|waiting| !waiting.is_closed());
        awaited.waiting.push(tell);
        end
    }

    /// Has the end of `run` looked for, as long as it is awaited.
    pub(super) fn look_for(&self, run: &RunId) {
        if let Some(awaited) = locked(&self.0).get_mut(run) {
            awaited.is_looked_for = true;
        }
    }

    /// The runs whose end is to be looked for.
    pub(super) fn awaited(&self) -> Vec<RunId> {
        let mut ends = locked(&self.0);
        ends.retain(|_, awaited| awaited.waiting.iter().any(|waiting| !waiting.is_closed()));
        let looked_for = ends.iter().filter(|(_, awaited)| awaited.is_looked_for);
        looked_for.map(|(run, _)| run.clone()).collect()
    }

    pub(super) fn ended(&self, run: &RunId, closed: &Closed) {
        let awaited = locked(&self.0).remove(run).unwrap_or_default();
        for waiting in awaited.waiting {
            // Who no longer waits has no use for it.
            _ = waiting.send(closed.clone());
        }
    }
}

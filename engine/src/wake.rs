//! Hints within this process that there is something to do: they may be lost, and cost time then.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::{oneshot, watch};

use crate::committer::locked;
use crate::model::{Closed, RunId, TaskKind};

/// Who waits for tasks, and who waits for the end of a run.
#[derive(Default)]
pub(crate) struct Wake {
    workflow: watch::Sender<()>,
    activity: watch::Sender<()>,
    ends: Mutex<HashMap<RunId, Vec<oneshot::Sender<Closed>>>>,
    answers: watch::Sender<()>,
}

impl Wake {
    /// There may be a task of `kind` to claim.
    pub(crate) fn tasks(&self, kind: TaskKind) {
        self.channel(kind).send_replace(());
    }

    /// Sees every hint from here on: to be taken before the probe.
    pub(crate) fn watch(&self, kind: TaskKind) -> watch::Receiver<()> {
        self.channel(kind).subscribe()
    }

    fn channel(&self, kind: TaskKind) -> &watch::Sender<()> {
        match kind {
            TaskKind::Workflow => &self.workflow,
            TaskKind::Activity => &self.activity,
        }
    }

    /// An update was answered here.
    pub(crate) fn answered(&self) {
        self.answers.send_replace(());
    }

    /// Sees every answer from here on: to be taken before the look.
    pub(crate) fn watch_answers(&self) -> watch::Receiver<()> {
        self.answers.subscribe()
    }

    /// The end of `run`, if it comes in this process.
    pub(crate) fn end_of(&self, run: &RunId) -> oneshot::Receiver<Closed> {
        let (tell, end) = oneshot::channel();
        let mut ends = locked(&self.ends);
        let waiting = ends.entry(run.clone()).or_default();
        waiting.retain(|waiting: &oneshot::Sender<_>| !waiting.is_closed());
        waiting.push(tell);
        end
    }

    /// The runs whose end somebody waits for.
    pub(crate) fn awaited(&self) -> Vec<RunId> {
        let mut ends = locked(&self.ends);
        ends.retain(|_, waiting| waiting.iter().any(|waiting| !waiting.is_closed()));
        ends.keys().cloned().collect()
    }

    /// `run` ended here.
    pub(crate) fn ended(&self, run: &RunId, closed: &Closed) {
        let waiting = locked(&self.ends).remove(run).unwrap_or_default();
        for waiting in waiting {
            // Who no longer waits has no use for it.
            _ = waiting.send(closed.clone());
        }
    }
}

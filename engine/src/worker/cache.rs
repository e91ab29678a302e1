//! Runs that stay in memory between their turns.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use super::live::Live;
use crate::committer::locked;
use crate::model::RunId;

/// Runs by id; the one that was put in first goes first when there are too many.
pub(super) struct Cache {
    most: usize,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    by_id: HashMap<RunId, (u64, Box<Live>)>,
    by_age: BTreeMap<u64, RunId>,
    next: u64,
}

impl Cache {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            runs: Mutex::default(),
        }
    }

    /// Takes a run out, to go on with it: nobody else can meanwhile.
    pub(super) fn take(&self, run: &RunId) -> Option<Box<Live>> {
        let mut runs = locked(&self.runs);
        let (age, live) = runs.by_id.remove(run)?;
        runs.by_age.remove(&age);
        Some(live)
    }

    /// Keeps a run until its next turn.
    pub(super) fn put(&self, live: Box<Live>) {
        let mut dropped = Vec::new();
        {
            let mut runs = locked(&self.runs);
            let (run, age) = (live.draft.identity().run.clone(), runs.next);
            runs.next += 1;
            runs.by_age.insert(age, run.clone());
            if let Some((age, old)) = runs.by_id.insert(run, (age, live)) {
                runs.by_age.remove(&age);
                dropped.push(old);
            }
            while runs.by_id.len() > self.most {
                let Some((_, run)) = runs.by_age.pop_first() else {
                    break;
                };
                dropped.extend(runs.by_id.remove(&run).map(|(_, live)| live));
            }
        }
        // Code of the user runs when these go: not under the lock.
        drop(dropped);
    }
}

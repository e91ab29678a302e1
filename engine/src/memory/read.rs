//! Reads.

use super::tables::Tables;
use crate::store::{Description, Listing, Load, LoadedRun, OpenTask, Page, Target};

/// As many attempts as a description shows.
const ATTEMPTS: usize = 100;

impl Tables {
    pub(super) fn load(&self, wanted: &Load) -> Option<LoadedRun> {
        let row = self.runs.get(&wanted.run)?;
        let events = row
            .history
            .iter()
            .filter(|record| record.seq > wanted.after);
        Some(LoadedRun {
            run: row.run.clone(),
            events: events.take(wanted.limit as usize).cloned().collect(),
            inbox: row.inbox.clone(),
        })
    }

    pub(super) fn describe(&self, of: &Target) -> Option<Description> {
        let run = self.runs.get(&self.find(of)?)?.run.clone();
        let tasks = self.tasks.values().filter(|task| task.run == run.run);
        let tasks = tasks.map(|task| OpenTask {
            task: task.id.clone(),
            kind: task.kind,
            name: task.name.clone(),
            status: task.status.as_str().to_owned(),
            available_at: task.available_at,
            owner: task.owner.as_ref().map(ToString::to_string),
            attempt: task.attempt,
            recoveries: task.recoveries,
            blocked: task.blocked.map(ToOwned::to_owned),
            last_error: task.last_error.clone(),
        });
        let attempts = self
            .attempts
            .iter()
            .rev()
            .filter(|attempt| attempt.run == run.run);
        Some(Description {
            now: self.now,
            tasks: tasks.collect(),
            attempts: attempts.take(ATTEMPTS).cloned().collect(),
            run,
        })
    }

    pub(super) fn list(&self, listing: &Listing) -> Page {
        let mut runs: Vec<_> = self
            .runs
            .values()
            .map(|row| &row.run)
            .filter(|run| run.namespace == listing.namespace)
            .filter(|run| listing.status.is_none_or(|status| run.status == status))
            .filter(|run| listing.name.as_ref().is_none_or(|name| run.name == *name))
            .filter(|run| {
                let place = (run.started_at, run.run.clone());
                listing.after.as_ref().is_none_or(|after| place < *after)
            })
            .cloned()
            .collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.run.clone())));
        let has_more = runs.len() > listing.limit as usize;
        runs.truncate(listing.limit as usize);
        let last = runs.last().filter(|_| has_more);
        let next = last.map(|run| (run.started_at, run.run.clone()));
        Page { runs, next }
    }
}

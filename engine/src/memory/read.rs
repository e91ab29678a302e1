//! Reads.

use std::cmp::Ordering;

use super::tables::{RunRow, Tables};
use crate::model::{Attribute, OwnerId, Run};
use crate::store::{
    Description, Filter, Listing, Load, LoadedRun, OpenTask, OwnerRecord, Page, Target, Test,
};

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

    pub(super) fn run(&self, of: &Target) -> Option<&Run> {
        self.runs.get(&self.find(of)?).map(|row| &row.run)
    }

    pub(super) fn describe(&self, of: &Target) -> Option<Description> {
        let row = self.runs.get(&self.find(of)?)?;
        let run = row.run.clone();
        let tasks = self.tasks.values().filter(|task| task.run == run.run);
        let tasks = tasks.map(|task| OpenTask {
            task: task.id.clone(),
            kind: task.kind,
            queue: task.queue.clone(),
            name: task.name.clone(),
            status: task.status.as_str().to_owned(),
            available_at: task.available_at,
            leased_at: task.owner.as_ref().and(task.started_at),
            lease_expires_at: task.owner.as_ref().map(|_| task.lease_expires_at),
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
        let tasks: Vec<_> = tasks.collect();
        Some(Description {
            now: self.now,
            owners: self.owners(&tasks),
            tasks,
            attempts: attempts.take(ATTEMPTS).cloned().collect(),
            attributes: row.attributes.clone(),
            memo: row.memo.clone(),
            archived: self.archives.get(&run.run).cloned(),
            run,
        })
    }

    fn owners(&self, tasks: &[OpenTask]) -> Vec<OwnerRecord> {
        let has_some = |id: &OwnerId| {
            let mut owners = tasks.iter().filter_map(|task| task.owner.as_deref());
            owners.any(|owner| owner == id.as_str())
        };
        let owners = self.fleet.iter().filter(|(id, _)| has_some(id));
        let owners = owners.map(|(id, member)| OwnerRecord {
            incarnation: member.incarnation(id),
            is_gone: !member.is_live,
            heartbeat_at: member.beat_at,
            expires_at: member.expires_at,
        });
        owners.collect()
    }

    pub(super) fn list(&self, listing: &Listing) -> Page {
        let mut runs: Vec<_> = self
            .meant(&listing.filter)
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
    pub(super) fn count(&self, filter: &Filter) -> u64 {
        self.meant(filter).count() as u64
    }

    fn meant<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Run> {
        let is_meant = |row: &&RunRow| {
            let run = &row.run;
            run.namespace == filter.namespace
                && filter.name.as_ref().is_none_or(|name| run.name == *name)
                && (filter.statuses.is_empty() || filter.statuses.contains(&run.status))
                && filter
                    .workflow
                    .as_ref()
                    .is_none_or(|workflow| run.workflow == *workflow)
                && filter
                    .id_prefix
                    .as_ref()
                    .is_none_or(|prefix| run.workflow.as_str().starts_with(prefix.as_str()))
                && filter.started.holds(Some(run.started_at))
                && filter.closed.holds(run.closed_at)
                && filter.attributes.iter().all(|condition| {
                    let value = row.attributes.get(&condition.name);
                    value.is_some_and(|value| passes(value, &condition.test))
                })
        };
        self.runs.values().filter(is_meant).map(|row| &row.run)
    }
}

fn passes(value: &Attribute, test: &Test) -> bool {
    match (value, test) {
        (Attribute::Keywords(has), Test::Is(Attribute::Keywords(wanted))) => {
            wanted.iter().all(|wanted| has.contains(wanted))
        }
        (_, Test::Is(Attribute::Keywords(wanted))) => {
            let is = |wanted: &String| *value == Attribute::Keyword(wanted.clone());
            wanted.iter().all(is)
        }
        (Attribute::Keywords(has), _) => {
            let mut each = has.iter().map(|one| Attribute::Keyword(one.clone()));
            each.any(|one| passes(&one, test))
        }
        (_, Test::Is(wanted)) => value == wanted,
        (_, Test::Within { from, until }) => {
            let order = |bound: &Attribute| compare(value, bound);
            let from = from.as_ref().map(order);
            let until = until.as_ref().map(order);
            from.is_none_or(|order| matches!(order, Some(Ordering::Greater | Ordering::Equal)))
                && until.is_none_or(|order| order == Some(Ordering::Less))
        }
    }
}

/// How two of one kind are ordered; `None` for two kinds.
fn compare(one: &Attribute, other: &Attribute) -> Option<Ordering> {
    match (one, other) {
        (Attribute::Keyword(one), Attribute::Keyword(other)) => Some(one.cmp(other)),
        (Attribute::Integer(one), Attribute::Integer(other)) => Some(one.cmp(other)),
        (Attribute::Bool(one), Attribute::Bool(other)) => Some(one.cmp(other)),
        (Attribute::Time(one), Attribute::Time(other)) => Some(one.cmp(other)),
        (Attribute::Float(one), Attribute::Float(other)) => one.partial_cmp(other),
        _ => None,
    }
}

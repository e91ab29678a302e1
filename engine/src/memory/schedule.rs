//! Schedules.

use super::census::one;
use super::claim::is_within;
use super::tables::Tables;
use crate::model::{Fired, Namespace, ScheduleRecord, Timestamp};
use crate::store::{
    DuePage, DueSchedules, Outcome, ScheduleCensus, ScheduleDescription, ScheduleKey,
    ScheduleListing, SchedulePage, ScheduleWrite,
};

/// How many fires of a schedule are kept.
const KEPT_FIRES: usize = 100;

pub(super) struct ScheduleRow {
    record: ScheduleRecord,
    /// The last one first.
    fires: Vec<Fired>,
}

impl ScheduleRow {
    /// When a scheduler has something to do for it.
    pub(super) const fn look_at(&self) -> Timestamp {
        self.record.look_at
    }
}

impl Tables {
    /// Whether there are any that are to fire.
    pub(super) fn has_schedules(&self, scope: Option<&Namespace>) -> bool {
        self.schedules
            .values()
            .any(|row| is_within(&row.record.namespace, scope) && row.record.look_at.comes())
    }

    pub(super) fn schedule_census(&self, scope: Option<&Namespace>) -> ScheduleCensus {
        let mut census = ScheduleCensus::default();
        let rows = self.schedules.values().map(|row| &row.record);
        for record in rows.filter(|record| is_within(&record.namespace, scope)) {
            census.fires += record.state.fires;
            census.missed += record.state.missed;
            if record.state.paused {
                census.paused += 1;
                continue;
            }
            census.active += 1;
            if record.next_fire_at <= self.now {
                census.overdue = census.overdue.and(one(record.next_fire_at));
            }
        }
        census
    }

    pub(super) fn schedule(&mut self, write: &ScheduleWrite) -> Outcome {
        let key = ScheduleKey {
            namespace: write.record.namespace.clone(),
            id: write.record.id.clone(),
        };
        let stored = self.schedules.get(&key).map(|row| row.record.revision);
        match stored {
            None if write.record.revision != 0 => return Outcome::NotFound,
            Some(stored) if write.record.revision != stored => return Outcome::Stale,
            _ => {}
        }
        for cancel in &write.cancels {
            self.deliver(cancel);
        }
        for terminate in &write.terminates {
            self.terminate(terminate);
        }
        let mut row = self.schedules.remove(&key).unwrap_or(ScheduleRow {
            record: write.record.clone(),
            fires: Vec::new(),
        });
        let created_at = stored.map_or(self.now, |_| row.record.created_at);
        row.record = ScheduleRecord {
            revision: write.record.revision + 1,
            created_at,
            updated_at: self.now,
            ..write.record.clone()
        };
        for fire in &write.fires {
            let Outcome::Started { run, .. } = self.start(&fire.start) else {
                continue;
            };
            if row.fires.iter().all(|before| before.at != fire.at) {
                let fired = Fired {
                    at: fire.at,
                    cause: fire.cause,
                    workflow: fire.start.workflow.clone(),
                    run,
                    fired_at: self.now,
                };
                row.fires.insert(0, fired);
            }
        }
        row.fires.truncate(KEPT_FIRES);
        let revision = row.record.revision;
        self.schedules.insert(key, row);
        Outcome::Scheduled { revision }
    }

    pub(super) fn unschedule(&mut self, key: &ScheduleKey) -> Outcome {
        let revision = |row: ScheduleRow| row.record.revision;
        match self.schedules.remove(key).map(revision) {
            Some(revision) => Outcome::Scheduled { revision },
            None => Outcome::NotFound,
        }
    }

    /// The schedule as it reads: with those workflows only that are open.
    fn read(&self, row: &ScheduleRow) -> ScheduleRecord {
        let mut record = row.record.clone();
        let is_open = |at: &Timestamp| {
            let workflow = row.record.workflow(*at).ok()?;
            let run = self.current.get(&(record.namespace.clone(), workflow))?;
            Some(self.runs.get(run)?.run.status.is_open())
        };
        let running = row.record.state.running.iter();
        record.state.running = running
            .filter(|at| is_open(at) == Some(true))
            .copied()
            .collect();
        record
    }

    pub(super) fn due_schedules(&self, asked: &DueSchedules, scope: Option<&Namespace>) -> DuePage {
        let place = |(key, row): (&ScheduleKey, &ScheduleRow)| (row.record.look_at, key.clone());
        let within = self.schedules.iter();
        let within = within.filter(|(key, _)| is_within(&key.namespace, scope));
        let mut due: Vec<_> = within.map(place).collect();
        due.sort();
        let next_due = due.iter().map(|(at, _)| *at).find(|at| *at > self.now);
        due.retain(|place| {
            place.0 <= self.now && asked.after.as_ref().is_none_or(|after| place > after)
        });
        let has_more = due.len() > asked.limit as usize;
        due.truncate(asked.limit as usize);
        let next = due.last().filter(|_| has_more).cloned();
        let record = |(_, key): (Timestamp, ScheduleKey)| {
            let record = self.read(&self.schedules[&key]);
            (key, Ok(record))
        };
        DuePage {
            now: self.now,
            next,
            next_due: next_due.filter(|due| due.comes()),
            schedules: due.into_iter().map(record).collect(),
        }
    }

    pub(super) fn describe_schedule(&self, of: &ScheduleKey) -> Option<ScheduleDescription> {
        let row = self.schedules.get(of)?;
        Some(ScheduleDescription {
            now: self.now,
            record: self.read(row),
            fires: row.fires.clone(),
        })
    }

    pub(super) fn list_schedules(&self, listing: &ScheduleListing) -> SchedulePage {
        let is_wanted = |record: &&ScheduleRecord| {
            let after = listing.after.as_ref();
            record.namespace == listing.namespace && after.is_none_or(|after| record.id > *after)
        };
        let records = self.schedules.values().map(|row| &row.record);
        let mut schedules: Vec<_> = records.filter(is_wanted).cloned().collect();
        let has_more = schedules.len() > listing.limit as usize;
        schedules.truncate(listing.limit as usize);
        let last = schedules.last().filter(|_| has_more);
        SchedulePage {
            next: last.map(|record| record.id.clone()),
            schedules,
        }
    }
}

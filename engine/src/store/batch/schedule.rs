//! What a write does to schedules.

use coord_core::Result;

use super::super::rows::{FireRow, ScheduleRow, signed};
use super::super::{Outcome, ScheduleKey, ScheduleWrite};
use super::state::State;

/// How many fires of a schedule are kept.
pub(in super::super) const KEPT_FIRES: i64 = 100;

impl State {
    pub(super) fn schedule(&mut self, write: &ScheduleWrite) -> Result<Outcome> {
        let record = &write.record;
        let key = (record.namespace.to_string(), record.id.to_string());
        let (read, stored) = (signed(record.revision), self.revisions.get(&key).copied());
        match stored {
            None if read != 0 => return Ok(Outcome::NotFound),
            Some(stored) if read != stored => return Ok(Outcome::Stale),
            _ => {}
        }
        for cancel in &write.cancels {
            self.deliver(cancel)?;
        }
        for terminate in &write.terminates {
            self.terminate(terminate)?;
        }
        let row = ScheduleRow::new(record, self.now)?;
        // The last of them has the number of the total.
        let before = row.fires_total - signed(write.fires.len() as u64);
        for (number, fire) in (before + 1..).zip(&write.fires) {
            if let Outcome::Started { run, .. } = self.start(&fire.start)? {
                let fire = FireRow::new(record, fire, (number, &run), self.now);
                self.changes.fires.push(fire);
            }
        }
        if !write.fires.is_empty() {
            let old = row.fires_total - KEPT_FIRES;
            let (namespace, schedule) = key.clone();
            self.changes.old_fires.push((namespace, schedule, old));
        }
        let revision = row.revision;
        self.revisions.insert(key, revision);
        match stored {
            None => self.changes.new_schedules.push(row),
            Some(_) => self.changes.schedules.push(row),
        }
        Ok(Outcome::Scheduled {
            revision: u64::try_from(revision).unwrap_or(0),
        })
    }

    pub(super) fn unschedule(&mut self, key: &ScheduleKey) -> Outcome {
        let key = (key.namespace.to_string(), key.id.to_string());
        let Some(revision) = self.revisions.remove(&key) else {
            return Outcome::NotFound;
        };
        let is_it = |row: &ScheduleRow| (&row.namespace, &row.schedule_id) == (&key.0, &key.1);
        self.changes.new_schedules.retain(|row| !is_it(row));
        let is_it = |row: &FireRow| (&row.namespace, &row.schedule_id) == (&key.0, &key.1);
        self.changes.fires.retain(|row| !is_it(row));
        self.changes.unscheduled.push(key);
        Outcome::Scheduled {
            revision: u64::try_from(revision).unwrap_or(0),
        }
    }
}

//! Schedules.

use coord_core::{Error, Result};

use super::super::{
    DuePage, DueSchedules, Fire, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage,
};
use super::{NEVER, hex, payload, read, signed, unsigned};
use crate::model::{
    Cause, Fired, Namespace, RunId, Schedule, ScheduleId, ScheduleRecord, ScheduleState, Timestamp,
    WorkflowId,
};

/// The columns of [`ScheduleRow`].
macro_rules! schedule_columns {
    () => {
        "namespace, schedule_id, revision, status, workflow_type, next_fire_at, look_at, \
         buffered_actions, fires_total, missed_total, skipped_total, definition, state, codec, \
         payload, created_at, updated_at"
    };
}
pub(in super::super) use schedule_columns;

/// A row of `workflow_schedules`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(in super::super) struct ScheduleRow {
    pub(in super::super) namespace: String,
    pub(in super::super) schedule_id: String,
    pub(in super::super) revision: i64,
    pub(in super::super) status: String,
    pub(in super::super) workflow_type: String,
    pub(in super::super) next_fire_at: i64,
    pub(in super::super) look_at: i64,
    pub(in super::super) buffered_actions: i64,
    pub(in super::super) fires_total: i64,
    pub(in super::super) missed_total: i64,
    pub(in super::super) skipped_total: i64,
    pub(in super::super) definition: String,
    pub(in super::super) state: String,
    pub(in super::super) codec: Option<String>,
    #[serde(serialize_with = "hex")]
    pub(in super::super) payload: Option<Vec<u8>>,
    pub(in super::super) created_at: i64,
    pub(in super::super) updated_at: i64,
}

/// The revision of a schedule.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(in super::super) struct RevisionRow {
    pub(in super::super) namespace: String,
    pub(in super::super) schedule_id: String,
    pub(in super::super) revision: i64,
}

/// A row of `workflow_schedule_fires`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(in super::super) struct FireRow {
    pub(in super::super) namespace: String,
    pub(in super::super) schedule_id: String,
    pub(in super::super) occurrence_at: i64,
    pub(in super::super) fire_number: i64,
    pub(in super::super) cause: String,
    pub(in super::super) workflow_id: String,
    pub(in super::super) run_id: String,
    pub(in super::super) fired_at: i64,
}

/// A workflow whose current run is open.
pub(in super::super) type OpenRow = (String, String);

fn encode(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::invalid("encoding a schedule").with_source(error))
}

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::corrupt("reading a schedule").with_source(error))
}

impl ScheduleRow {
    /// The next revision of a schedule, as written at `now`.
    pub(in super::super) fn new(record: &ScheduleRecord, now: i64) -> Result<Self> {
        let (schedule, state) = (&record.schedule, &record.state);
        let input = &schedule.action.input;
        let is_new = record.revision == 0;
        Ok(Self {
            namespace: record.namespace.to_string(),
            schedule_id: record.id.to_string(),
            revision: signed(record.revision) + 1,
            status: if state.paused { "paused" } else { "active" }.to_owned(),
            workflow_type: schedule.action.name.to_string(),
            next_fire_at: record.next_fire_at.as_micros(),
            look_at: record.look_at.as_micros(),
            buffered_actions: signed(state.buffered.len() as u64),
            fires_total: signed(state.fires),
            missed_total: signed(state.missed),
            skipped_total: signed(state.skipped),
            definition: encode(schedule)?,
            state: encode(state)?,
            codec: Some(input.codec.to_string()),
            payload: Some(input.bytes.to_vec()),
            created_at: if is_new {
                now
            } else {
                record.created_at.as_micros()
            },
            updated_at: now,
        })
    }

    fn key(&self) -> Result<ScheduleKey> {
        Ok(ScheduleKey {
            namespace: read::<Namespace>(self.namespace.clone(), "namespace")?,
            id: read::<ScheduleId>(self.schedule_id.clone(), "schedule id")?,
        })
    }

    fn record(self) -> Result<ScheduleRecord> {
        let mut schedule: Schedule = decode(&self.definition)?;
        if let Some(input) = payload(self.codec, self.payload) {
            schedule.action.input = input;
        }
        Ok(ScheduleRecord {
            namespace: read(self.namespace, "namespace")?,
            id: read(self.schedule_id, "schedule id")?,
            revision: unsigned(self.revision)?,
            schedule,
            state: decode::<ScheduleState>(&self.state)?,
            next_fire_at: Timestamp::from_micros(self.next_fire_at),
            look_at: Timestamp::from_micros(self.look_at),
            created_at: Timestamp::from_micros(self.created_at),
            updated_at: Timestamp::from_micros(self.updated_at),
        })
    }
}

impl FireRow {
    /// A fire with its number and the run that it reached.
    pub(in super::super) fn new(
        of: &ScheduleRecord,
        fire: &Fire,
        (number, run): (i64, &RunId),
        now: i64,
    ) -> Self {
        Self {
            namespace: of.namespace.to_string(),
            schedule_id: of.id.to_string(),
            occurrence_at: fire.at.as_micros(),
            fire_number: number,
            cause: fire.cause.as_str().to_owned(),
            workflow_id: fire.start.workflow.to_string(),
            run_id: run.to_string(),
            fired_at: now,
        }
    }

    fn fired(self) -> Result<Fired> {
        let cause = Cause::from_word(&self.cause);
        Ok(Fired {
            at: Timestamp::from_micros(self.occurrence_at),
            cause: cause
                .ok_or_else(|| Error::corrupt("reading a fire: its cause is none of ours"))?,
            workflow: read::<WorkflowId>(self.workflow_id, "workflow id")?,
            run: read::<RunId>(self.run_id, "run id")?,
            fired_at: Timestamp::from_micros(self.fired_at),
        })
    }
}

/// Schedules that were read, and the workflows of theirs that may be open.
pub(in super::super) struct Seen {
    look_ats: Vec<i64>,
    schedules: Vec<(ScheduleKey, Result<ScheduleRecord>)>,
}

impl Seen {
    /// What rows say of schedules.
    pub(in super::super) fn new(rows: Vec<ScheduleRow>) -> Result<Self> {
        let look_ats = rows.iter().map(|row| row.look_at).collect();
        let schedules = rows.into_iter().map(|row| Ok((row.key()?, row.record())));
        Ok(Self {
            look_ats,
            schedules: schedules.collect::<Result<_>>()?,
        })
    }

    /// The workflows of which it must be known whether they are open.
    pub(in super::super) fn running(&self) -> Result<Vec<OpenRow>> {
        let mut running = Vec::new();
        for (_, record) in &self.schedules {
            let Ok(record) = record else { continue };
            for at in &record.state.running {
                let workflow = record.workflow(*at)?.to_string();
                running.push((record.namespace.to_string(), workflow));
            }
        }
        Ok(running)
    }

    /// Leaves of each schedule's running workflows those that are open.
    pub(in super::super) fn keep(&mut self, open: &[OpenRow]) {
        let open: std::collections::HashSet<_> = open.iter().collect();
        for (key, record) in &mut self.schedules {
            let Ok(record) = record else { continue };
            let is_open = |at: &Timestamp| {
                let workflow = key.id.workflow(*at).map(|it| it.to_string());
                workflow.is_ok_and(|it| open.contains(&(key.namespace.to_string(), it)))
            };
            record.state.running.retain(is_open);
        }
    }

    /// A page of what is due, of which one row more than its limit was read.
    pub(in super::super) fn due(
        mut self,
        asked: &DueSchedules,
        (now, next_due): (i64, Option<i64>),
    ) -> DuePage {
        let limit = asked.limit as usize;
        let has_more = self.schedules.len() > limit;
        self.schedules.truncate(limit);
        let mut places = self.look_ats.iter().zip(&self.schedules);
        let last = places.nth(limit.saturating_sub(1)).filter(|_| has_more);
        DuePage {
            now: Timestamp::from_micros(now),
            next: last.map(|(at, (key, _))| (Timestamp::from_micros(*at), key.clone())),
            next_due: next_due
                .filter(|due| *due < NEVER)
                .map(Timestamp::from_micros),
            schedules: self.schedules,
        }
    }

    /// The only schedule, with its fires.
    pub(in super::super) fn description(
        self,
        now: i64,
        fires: Vec<FireRow>,
    ) -> Result<Option<ScheduleDescription>> {
        let Some((_, record)) = self.schedules.into_iter().next() else {
            return Ok(None);
        };
        Ok(Some(ScheduleDescription {
            now: Timestamp::from_micros(now),
            record: record?,
            fires: fires
                .into_iter()
                .map(FireRow::fired)
                .collect::<Result<_>>()?,
        }))
    }
}

/// A page of a tenant's schedules, of which one row more than its limit was read.
pub(in super::super) fn schedule_page(
    listing: &ScheduleListing,
    mut rows: Vec<ScheduleRow>,
) -> Result<SchedulePage> {
    let has_more = rows.len() > listing.limit as usize;
    rows.truncate(listing.limit as usize);
    let schedules: Vec<_> = rows
        .into_iter()
        .map(ScheduleRow::record)
        .collect::<Result<_>>()?;
    let last = schedules.last().filter(|_| has_more);
    Ok(SchedulePage {
        next: last.map(|record| record.id.clone()),
        schedules,
    })
}

impl DueSchedules {
    /// The place before the first schedule that is wanted.
    pub(in super::super) fn place(&self) -> (i64, &str, &str) {
        match &self.after {
            Some((at, key)) => (at.as_micros(), key.namespace.as_str(), key.id.as_str()),
            None => (i64::MIN, "", ""),
        }
    }
}

impl ScheduleListing {
    /// The id before the first schedule that is wanted.
    pub(in super::super) fn place(&self) -> &str {
        self.after.as_ref().map_or("", ScheduleId::as_str)
    }
}

//! What a schedule does at an instant: which occurrences fire, wait, or do not fire. No I/O, no
//! clock.

#[cfg(test)]
mod tests;

use std::time::Duration;

use coord_core::{Calendar, Error, Result};

use crate::model::{
    Backfill, Buffered, Cause, Namespace, Overlap, Schedule, ScheduleId, ScheduleRecord,
    ScheduleState, Timestamp,
};

/// How many workflows one plan starts: they share a transaction.
const MOST_STARTS: usize = 100;
/// How many occurrences one plan looks at, so that a long absence is made up in short steps.
const MOST_LOOKS: usize = 10_000;
/// How many occurrences wait at most.
const MOST_BUFFERED: usize = 1000;
/// How many open workflows are remembered. Beyond that, a schedule lets its workflows overlap.
const MOST_RUNNING: usize = 100;

/// What becomes of a schedule, and what goes with it in the same transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The schedule, with everything decided. Its `revision` is the one that was read.
    pub record: ScheduleRecord,
    /// The occurrences that fire, in order.
    pub fires: Vec<Buffered>,
    /// The occurrences whose workflows are asked to end.
    pub cancels: Vec<Timestamp>,
    /// The occurrences whose workflows are ended, before any of `fires` starts.
    pub terminates: Vec<Timestamp>,
    /// How many occurrences were found too late to fire.
    pub missed: u64,
    /// How many did not fire because others were open.
    pub skipped: u64,
    /// Whether more is due already.
    pub is_partial: bool,
}

/// A plan in the making.
struct Planner {
    calendar: Calendar,
    now: Timestamp,
    looks: usize,
    plan: Plan,
}

/// A new schedule: its occurrences after `now` are its own.
///
/// # Errors
/// `Invalid` for occurrences that cannot be, and for an id that is too long.
pub fn create(
    namespace: Namespace,
    id: ScheduleId,
    schedule: Schedule,
    now: Timestamp,
) -> Result<Plan> {
    id.workflow(now)?;
    let state = ScheduleState {
        version: 1,
        decided: now,
        left: schedule.limit,
        ..ScheduleState::default()
    };
    let record = ScheduleRecord {
        namespace,
        id,
        revision: 0,
        schedule,
        state,
        next_fire_at: Timestamp::NEVER,
        look_at: Timestamp::NEVER,
        created_at: now,
        updated_at: now,
    };
    Planner::new(record, now).map(Planner::done)
}

/// What is due of `record` at `now`.
///
/// # Errors
/// `Invalid` when its occurrences are not known here, such as those of a new time zone.
pub fn advance(record: ScheduleRecord, now: Timestamp) -> Result<Plan> {
    let mut planner = Planner::new(record, now)?;
    planner.advance();
    Ok(planner.done())
}

/// One fire of `record` that somebody asks for, as the occurrence `at`.
///
/// # Errors
/// As [`advance`].
pub fn trigger(record: ScheduleRecord, at: Timestamp, now: Timestamp) -> Result<Plan> {
    let mut planner = Planner::new(record, now)?;
    let overlap = planner.plan.record.schedule.overlap;
    let fire = Buffered {
        at,
        cause: Cause::Trigger,
    };
    planner.offer(fire, overlap);
    let state = &mut planner.plan.record.state;
    state.triggered = state.triggered.max(at);
    Ok(planner.done())
}

/// The occurrences of `record` from `from` until before `until`, none of them after `now`.
///
/// # Errors
/// As [`advance`].
pub fn backfill(
    record: ScheduleRecord,
    (from, until): (Timestamp, Timestamp),
    overlap: Overlap,
    now: Timestamp,
) -> Result<Plan> {
    let mut planner = Planner::new(record, now)?;
    planner.plan.record.state.backfills.push(Backfill {
        decided: before(from),
        until: until.min(now),
        overlap,
    });
    planner.advance();
    Ok(planner.done())
}

/// `record` with nothing firing by itself any more.
///
/// # Errors
/// As [`advance`].
pub fn pause(mut record: ScheduleRecord, note: &str, now: Timestamp) -> Result<Plan> {
    record.state.paused = true;
    note.clone_into(&mut record.state.note);
    Planner::new(record, now).map(Planner::done)
}

/// `record` firing by itself again, from its next occurrence on.
///
/// # Errors
/// As [`advance`].
pub fn resume(mut record: ScheduleRecord, note: &str, now: Timestamp) -> Result<Plan> {
    if record.state.paused {
        record.state.paused = false;
        record.state.decided = record.state.decided.max(now);
    }
    note.clone_into(&mut record.state.note);
    Planner::new(record, now).map(Planner::done)
}

/// `record` with another definition. What was due by the one before fires first; what it has
/// buffered stays. A new limit counts from here on.
///
/// # Errors
/// As [`advance`], for either definition; `Contended` when more is due than one plan starts.
pub fn update(record: ScheduleRecord, schedule: Schedule, now: Timestamp) -> Result<Plan> {
    let mut plan = advance(record, now)?;
    if plan.is_partial {
        return Err(Error::contended("updating a schedule: much of it is due"));
    }
    let state = &mut plan.record.state;
    if schedule.when != plan.record.schedule.when {
        state.decided = state.decided.max(now);
    }
    if schedule.limit != plan.record.schedule.limit {
        state.left = schedule.limit;
    }
    state.version += 1;
    plan.record.schedule = schedule;
    let again = Planner::new(plan.record, now)?.done();
    plan.record = again.record;
    Ok(plan)
}

impl Planner {
    fn new(record: ScheduleRecord, now: Timestamp) -> Result<Self> {
        Ok(Self {
            calendar: record.schedule.when.calendar()?,
            now,
            looks: 0,
            plan: Plan {
                record,
                fires: Vec::new(),
                cancels: Vec::new(),
                terminates: Vec::new(),
                missed: 0,
                skipped: 0,
                is_partial: false,
            },
        })
    }

    fn advance(&mut self) {
        self.drain();
        self.make_up();
        self.fire_own();
    }

    /// What has waited for others to end.
    fn drain(&mut self) {
        let state = &self.plan.record.state;
        if !state.running.is_empty() {
            return;
        }
        let paused = state.paused;
        let mut waiting = state.buffered.iter();
        let next = waiting.position(|it| !paused || it.cause != Cause::Schedule);
        if let Some(next) = next {
            let fire = self.plan.record.state.buffered.remove(next);
            self.fire(fire);
        }
    }

    /// The spans that somebody asked for.
    fn make_up(&mut self) {
        while let Some(backfill) = self.plan.record.state.backfills.first().copied() {
            // The span itself is the buffer.
            if backfill.overlap == Overlap::BufferAll && self.is_busy() {
                return;
            }
            if !self.has_room(backfill.overlap) {
                return;
            }
            match self.after(backfill.decided) {
                Some(at) if at < backfill.until => {
                    self.plan.record.state.backfills[0].decided = at;
                    let cause = Cause::Backfill;
                    self.offer(Buffered { at, cause }, backfill.overlap);
                }
                _ => _ = self.plan.record.state.backfills.remove(0),
            }
        }
    }

    /// The occurrences that are due.
    fn fire_own(&mut self) {
        if self.plan.record.state.paused {
            return;
        }
        while let Some((at, fires_at)) = self.next_own() {
            let Schedule {
                overlap, catch_up, ..
            } = self.plan.record.schedule;
            if fires_at > self.now || !self.has_room(overlap) {
                return;
            }
            self.plan.record.state.decided = at;
            if self.now.since(fires_at) > catch_up {
                self.plan.missed += 1;
                continue;
            }
            let cause = Cause::Schedule;
            let does_fire = self.offer(Buffered { at, cause }, overlap);
            if let Some(left) = self.plan.record.state.left.as_mut().filter(|_| does_fire) {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Whether this plan may look at one more occurrence. Otherwise it is partial.
    fn has_room(&mut self, overlap: Overlap) -> bool {
        self.looks += 1;
        // What this very plan starts is not there yet, so it cannot be ended.
        let most = match overlap {
            Overlap::CancelOther | Overlap::TerminateOther => 1,
            _ => MOST_STARTS,
        };
        if self.looks > MOST_LOOKS || self.plan.fires.len() >= most {
            self.plan.is_partial = true;
        }
        !self.plan.is_partial
    }

    /// Its next own occurrence that is not decided, and when it fires.
    fn next_own(&self) -> Option<(Timestamp, Timestamp)> {
        let Schedule {
            from,
            until,
            jitter,
            ..
        } = self.plan.record.schedule;
        let state = &self.plan.record.state;
        if state.left == Some(0) {
            return None;
        }
        let decided = from.map_or(state.decided, |from| state.decided.max(before(from)));
        let next = self.after(decided);
        let at = next.filter(|at| until.is_none_or(|until| *at < until))?;
        if jitter.is_zero() {
            return Some((at, at));
        }
        let gap = self.after(at).map_or(jitter, |next| next.since(at));
        let late = share(&self.plan.record.id, at, jitter.min(gap));
        Some((at, at.plus(late)))
    }

    /// The first instant of the calendar after `time`.
    fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = self.calendar.next(time.as_micros().div_euclid(1000))?;
        Some(Timestamp::from_micros(next.saturating_mul(1000)))
    }

    fn is_busy(&self) -> bool {
        let state = &self.plan.record.state;
        !state.running.is_empty() || !state.buffered.is_empty()
    }

    /// What becomes of an occurrence by the policy. Whether it fires, now or later.
    fn offer(&mut self, fire: Buffered, overlap: Overlap) -> bool {
        let state = &mut self.plan.record.state;
        let is_known = state.running.contains(&fire.at)
            || state.buffered.iter().any(|other| other.at == fire.at);
        if is_known {
            return false;
        }
        let is_open = !state.running.is_empty();
        let waiting = state.buffered.len();
        match overlap {
            Overlap::AllowAll => self.fire(fire),
            Overlap::Skip | Overlap::CancelOther if !is_open => self.fire(fire),
            Overlap::BufferOne | Overlap::BufferAll if !is_open && waiting == 0 => self.fire(fire),
            Overlap::BufferOne if waiting == 0 => state.buffered.push(fire),
            Overlap::BufferAll if waiting < MOST_BUFFERED => state.buffered.push(fire),
            Overlap::Skip | Overlap::BufferOne | Overlap::BufferAll => {
                self.plan.skipped += 1;
                return false;
            }
            Overlap::TerminateOther => {
                self.plan.terminates.append(&mut state.running);
                self.fire(fire);
            }
            Overlap::CancelOther => {
                self.plan.skipped += waiting as u64;
                state.buffered = vec![fire];
                self.plan.cancels.clone_from(&state.running);
            }
        }
        true
    }

    fn fire(&mut self, fire: Buffered) {
        let state = &mut self.plan.record.state;
        state.running.push(fire.at);
        let excess = state.running.len().saturating_sub(MOST_RUNNING);
        state.running.drain(..excess);
        self.plan.fires.push(fire);
    }

    /// The plan, with when to look again.
    fn done(mut self) -> Plan {
        let next = self.next_own();
        let plan = &mut self.plan;
        let state = &mut plan.record.state;
        state.fires += plan.fires.len() as u64;
        state.missed += plan.missed;
        state.skipped += plan.skipped;
        let paused = state.paused;
        let next = next.filter(|_| !paused);
        plan.record.next_fire_at = next.map_or(Timestamp::NEVER, |(_, fires_at)| fires_at);
        let waits = state.buffered.iter();
        let waits = waits.filter(|it| !paused || it.cause != Cause::Schedule);
        let is_watching = waits.count() > 0 || !state.backfills.is_empty();
        plan.record.look_at = if is_watching {
            Timestamp::default()
        } else {
            plan.record.next_fire_at
        };
        self.plan
    }
}

/// The instant just before `time`.
fn before(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_sub(1))
}

/// A part of `most` that looks random, and is the same whoever asks: FNV-1a of the schedule and the
/// occurrence.
fn share(id: &ScheduleId, at: Timestamp, most: Duration) -> Duration {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = id.as_str().bytes().chain(at.as_micros().to_be_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    // The end of the occurrence has reached few bits yet; one more round spreads it over all.
    let hash = (hash ^ (hash >> 32)).wrapping_mul(PRIME ^ OFFSET);
    let part = (u128::from(hash >> 32) * most.as_micros()) >> 32;
    Duration::from_micros(u64::try_from(part).unwrap_or(u64::MAX))
}

//! The writes of which most work consists, as rows that one statement can judge and carry out.
//!
//! A start, an append, the end of a turn that concerns nobody else and the end of an activity need
//! nothing read before they are decided: their fence and the few facts that matter are compared
//! where they are written. A batch of one sort of these is one round trip and one implicit
//! transaction. Everything else, and a batch that
//! turns out to concern others after all, is decided row by row, see [`decide`](super::decide).

use std::collections::HashSet;

use coord_core::Result;

use super::super::rows::{RecordRow, failure_text, of_fairness, signed, span_us};
use super::super::{Append, Held, Holder, Lease, NewActivity, Settle, Start, Then, Turn, Write};
use crate::model::{Closed, Record, micros};

/// A batch of one sort.
pub(in super::super) enum Plain {
    /// New runs, with their events.
    Starts(Vec<StartRow>, Vec<PlacedRow>),
    /// Events of turns that go on.
    Appends(Vec<FencedRow>, Vec<PlacedRow>),
    /// Turns, and events of turns that go on, with the activities that they schedule and those
    /// that end with them beside the one of their row.
    Turns(
        Vec<FencedRow>,
        Vec<PlacedRow>,
        Vec<ActivityRow>,
        Vec<EndedRow>,
    ),
    /// Ends of activities, each with the message for its run.
    Settles(Vec<SettleRow>),
}

/// A new run and its workflow task.
pub(in super::super) struct StartRow {
    pub(in super::super) write: i32,
    pub(in super::super) namespace: String,
    pub(in super::super) workflow_id: String,
    pub(in super::super) run_id: String,
    pub(in super::super) run_number: i32,
    pub(in super::super) workflow_type: String,
    pub(in super::super) queue: String,
    pub(in super::super) priority: i16,
    pub(in super::super) compatibility: Option<String>,
    pub(in super::super) history_length: i64,
    /// See [`Due::encode`](crate::model::Due::encode).
    pub(in super::super) due: i64,
    pub(in super::super) lease_owner: Option<String>,
    pub(in super::super) lease_us: i64,
    pub(in super::super) fairness_key: String,
    pub(in super::super) fairness_weight: i16,
}

/// An event, of the write with this number.
pub(in super::super) struct PlacedRow {
    pub(in super::super) write: i32,
    pub(in super::super) record: RecordRow,
}

/// A write under a lease.
#[derive(Default)]
pub(in super::super) struct FencedRow {
    pub(in super::super) write: i32,
    pub(in super::super) task_id: String,
    pub(in super::super) epoch: i64,
    pub(in super::super) lease_owner: String,
    pub(in super::super) run_id: String,
    /// The task is an activity, which ends with the turn.
    pub(in super::super) of_activity: bool,
    /// What follows: `append`, `keep`, `take`, `wait` or `close`.
    pub(in super::super) follows: &'static str,
    pub(in super::super) length_before: i64,
    pub(in super::super) length_after: i64,
    pub(in super::super) drained: i64,
    pub(in super::super) due: Option<i64>,
    pub(in super::super) wait_reason: Option<&'static str>,
    pub(in super::super) take_owner: Option<String>,
    pub(in super::super) take_us: i64,
    pub(in super::super) status: Option<&'static str>,
    pub(in super::super) closed_reason: Option<&'static str>,
    pub(in super::super) output_codec: Option<String>,
    pub(in super::super) output: Option<Vec<u8>>,
    pub(in super::super) failure: Option<String>,
}

/// The end of an activity, with the message for its run, whose place is not known yet.
pub(in super::super) struct SettleRow {
    pub(in super::super) write: i32,
    pub(in super::super) task_id: String,
    pub(in super::super) epoch: i64,
    pub(in super::super) lease_owner: String,
    pub(in super::super) message: RecordRow,
}

/// An activity that ends with the write with this number.
pub(in super::super) struct EndedRow {
    pub(in super::super) write: i32,
    pub(in super::super) task_id: String,
    pub(in super::super) epoch: i64,
    pub(in super::super) lease_owner: String,
}

/// An activity to schedule, of the write with this number.
pub(in super::super) struct ActivityRow {
    pub(in super::super) write: i32,
    pub(in super::super) step_seq: i64,
    pub(in super::super) scheduled_seq: i64,
    pub(in super::super) name: String,
    pub(in super::super) queue: String,
    pub(in super::super) priority: i16,
    pub(in super::super) schedule_to_start_us: i64,
    pub(in super::super) schedule_to_close_us: i64,
    pub(in super::super) start_to_close_us: i64,
    pub(in super::super) heartbeat_us: i64,
    pub(in super::super) lease_owner: Option<String>,
    pub(in super::super) lease_us: i64,
    pub(in super::super) attempt_id: Option<String>,
}

impl Plain {
    /// `None` when `writes` are not of one plain sort, or two of them meet.
    ///
    /// # Errors
    /// `Invalid` for a value without a stored form.
    pub(in super::super) fn of(writes: &[Write]) -> Result<Option<Self>> {
        if writes.is_empty() {
            return Ok(None);
        }
        let mut met = HashSet::new();
        let (mut starts, mut fenced, mut settles) = (Vec::new(), Vec::new(), Vec::new());
        let (mut records, mut activities, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for (number, write) in writes.iter().enumerate() {
            let number = i32::try_from(number).unwrap_or(i32::MAX);
            let is_alone = match write {
                Write::Start(start) if is_plain_start(start) => {
                    starts.push(StartRow::new(number, start));
                    place(&mut records, number, start.run.as_str(), &start.records);
                    met.insert((start.namespace.as_str(), start.workflow.as_str()))
                        && met.insert(("", start.run.as_str()))
                }
                Write::Append(append) => {
                    let Some(row) = FencedRow::append(number, append) else {
                        return Ok(None);
                    };
                    fenced.push(row);
                    place(&mut records, number, append.run.as_str(), &append.records);
                    met.insert(("", append.run.as_str()))
                }
                Write::Turn(turn) if is_plain(turn) => {
                    let Some(row) = FencedRow::turn(number, turn)? else {
                        return Ok(None);
                    };
                    fenced.push(row);
                    for held in turn.fence.held().iter().skip(1) {
                        let Some(row) = EndedRow::new(number, held) else {
                            return Ok(None);
                        };
                        ended.push(row);
                    }
                    place(&mut records, number, turn.run.as_str(), &turn.records);
                    let rows = turn.activities.iter();
                    activities.extend(rows.map(|activity| ActivityRow::new(number, activity)));
                    met.insert(("", turn.run.as_str()))
                }
                Write::Settle(settle) if settle.attempt.is_none() => {
                    let Some(row) = SettleRow::new(number, settle) else {
                        return Ok(None);
                    };
                    settles.push(row);
                    // Those of one run go together: their messages take places one after the other.
                    met.insert(("", settle.held.task.as_str()))
                }
                _ => false,
            };
            if !is_alone {
                return Ok(None);
            }
        }
        let all_append = fenced.iter().all(|row| row.follows == "append");
        Ok(match (starts.len(), fenced.len(), settles.len()) {
            (_, 0, 0) => Some(Self::Starts(starts, records)),
            (0, _, 0) if all_append => Some(Self::Appends(fenced, records)),
            (0, _, 0) => Some(Self::Turns(fenced, records, activities, ended)),
            (0, 0, _) => Some(Self::Settles(settles)),
            _ => None,
        })
    }
}

/// Whether a turn concerns its run alone, as far as it says itself.
fn is_plain(turn: &Turn) -> bool {
    let goes_on = matches!(&turn.then, Then::Close(closing) if closing.next.is_some());
    turn.dropped.is_empty()
        && turn.children.is_empty()
        && turn.deliveries.is_empty()
        && turn.marks.is_empty()
        && turn.buffered.is_none()
        && turn.fingerprint.is_none()
        && !goes_on
}

fn is_plain_start(start: &Start) -> bool {
    start.parent.is_none() && start.request.is_none() && start.marks.is_empty()
}

fn place(rows: &mut Vec<PlacedRow>, write: i32, run: &str, records: &[Record]) {
    rows.extend(records.iter().map(|record| PlacedRow {
        write,
        record: RecordRow::new(run, signed(record.seq), record),
    }));
}

fn of_lease(lease: Option<&Lease>) -> (Option<String>, i64) {
    match lease {
        Some(lease) => (Some(lease.owner.to_string()), micros(lease.ttl)),
        None => (None, 0),
    }
}

impl StartRow {
    fn new(write: i32, start: &Start) -> Self {
        let (lease_owner, lease_us) = of_lease(start.lease.as_ref());
        let (fairness_key, fairness_weight) = of_fairness(start.fairness.as_ref());
        Self {
            write,
            namespace: start.namespace.to_string(),
            workflow_id: start.workflow.to_string(),
            run_id: start.run.to_string(),
            run_number: i32::try_from(start.number).unwrap_or(i32::MAX),
            workflow_type: start.name.to_string(),
            queue: start.queue.to_string(),
            priority: i16::from(start.priority.get()),
            compatibility: start.build.as_ref().map(ToString::to_string),
            history_length: signed(start.records.len() as u64),
            due: start.due.encode(),
            lease_owner,
            lease_us,
            fairness_key: fairness_key.to_owned(),
            fairness_weight,
        }
    }
}

impl SettleRow {
    /// `None` for one whose right is not a lease.
    fn new(write: i32, settle: &Settle) -> Option<Self> {
        let Holder::Owner(owner) = &settle.held.holder else {
            return None;
        };
        Some(Self {
            write,
            task_id: settle.held.task.to_string(),
            epoch: signed(settle.held.epoch),
            lease_owner: owner.to_string(),
            message: RecordRow::new(settle.run.as_str(), 0, &settle.record),
        })
    }
}

impl FencedRow {
    /// `None` for a write whose right is not a lease.
    fn held(write: i32, held: &Held) -> Option<Self> {
        let EndedRow {
            write,
            task_id,
            epoch,
            lease_owner,
        } = EndedRow::new(write, held)?;
        Some(Self {
            write,
            task_id,
            epoch,
            lease_owner,
            ..Self::default()
        })
    }

    fn append(write: i32, append: &Append) -> Option<Self> {
        Some(Self {
            run_id: append.run.to_string(),
            follows: "append",
            ..Self::held(write, &append.held)?
        })
    }

    fn turn(write: i32, turn: &Turn) -> Result<Option<Self>> {
        let held = turn.fence.held().first();
        let Some(row) = held.and_then(|held| Self::held(write, held)) else {
            return Ok(None);
        };
        let row = Self {
            run_id: turn.run.to_string(),
            of_activity: turn.fence.is_of_activities(),
            length_before: signed(turn.history_length),
            length_after: signed(turn.history_length + turn.records.len() as u64),
            drained: signed(turn.drained),
            ..row
        };
        Ok(Some(match &turn.then {
            Then::Keep => Self {
                follows: "keep",
                ..row
            },
            Then::Take(lease) => {
                let (take_owner, take_us) = of_lease(Some(lease));
                Self {
                    follows: "take",
                    take_owner,
                    take_us,
                    ..row
                }
            }
            Then::Wait { due, wait } => Self {
                follows: "wait",
                due: due.map(crate::model::Due::encode),
                wait_reason: wait.map(crate::model::Wait::as_str),
                ..row
            },
            Then::Close(closing) => row.closed(&closing.closed)?,
        }))
    }

    fn closed(self, closed: &Closed) -> Result<Self> {
        let row = Self {
            follows: "close",
            status: Some(closed.status().as_str()),
            closed_reason: Some(closed.reason()),
            ..self
        };
        Ok(match closed {
            Closed::Completed(output) => Self {
                output_codec: Some(output.codec.to_string()),
                output: Some(output.bytes.to_vec()),
                ..row
            },
            // It has a next run, so its turn is not plain.
            Closed::ContinuedAsNew(_) => row,
            Closed::Failed(failure)
            | Closed::Cancelled(failure)
            | Closed::Terminated(failure)
            | Closed::TimedOut(failure) => Self {
                failure: Some(failure_text(failure)?),
                ..row
            },
        })
    }
}

impl EndedRow {
    /// `None` for one whose right is not a lease.
    fn new(write: i32, held: &Held) -> Option<Self> {
        let Holder::Owner(owner) = &held.holder else {
            return None;
        };
        Some(Self {
            write,
            task_id: held.task.to_string(),
            epoch: signed(held.epoch),
            lease_owner: owner.to_string(),
        })
    }
}

impl ActivityRow {
    fn new(write: i32, new: &NewActivity) -> Self {
        let (lease_owner, lease_us) = of_lease(new.lease.as_ref().map(|(lease, _)| lease));
        Self {
            write,
            step_seq: signed(new.step),
            scheduled_seq: signed(new.scheduled_seq),
            name: new.name.to_string(),
            queue: new.queue.to_string(),
            priority: i16::from(new.priority.get()),
            schedule_to_start_us: span_us(new.timeouts.schedule_to_start),
            schedule_to_close_us: span_us(new.timeouts.schedule_to_close),
            start_to_close_us: span_us(new.timeouts.start_to_close),
            heartbeat_us: span_us(new.timeouts.heartbeat),
            lease_owner,
            lease_us,
            attempt_id: new.lease.as_ref().map(|(_, attempt)| attempt.to_string()),
        }
    }
}

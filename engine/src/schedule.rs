//! The scheduler: fires what is due.
//!
//! One process at a time has the role. That spares the others the work and nothing else: a fire is a
//! write that compares the schedule's revision, so of any number of schedulers one gets through.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::trace::{Span, SpanKind};
use coord_core::{Backoff, Calendar, Error, ErrorKind, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::Core;
use crate::model::{
    Attributes, Buffered, BuildId, Closed, Due, Event, EventKind, Failure, Marks, Message,
    Occurrence, OwnerId, ScheduleRecord, Timestamp, events,
};
use crate::roles::{Seat, Seated};
use crate::signals::Signal;
use crate::store::{
    Deliver, DueSchedules, Fire, OnDuplicate, Outcome, Role, ScheduleKey, ScheduleWrite, Start,
    Target, Terminate, Write,
};
use crate::transition::schedule::{Plan, advance};
use crate::transition::{cancel_message, closing};
use crate::wake::Channel;

/// How long a scheduler looks without news. A schedule that another process has created or changed
/// waits for at most this long, and so does an occurrence that waits for a workflow to end.
const EVERY: Duration = Duration::from_secs(1);
/// How long the one who fires is the one.
const TERM: Duration = Duration::from_secs(8);
/// How often it renews that.
const RENEW: Duration = Duration::from_secs(3);
/// How many schedules are read at a time, and written together.
const PAGE: u32 = 100;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), RENEW);

/// Fires what is due, in every term that this process gets, for as long as it is polled.
pub(crate) async fn run(core: Weak<Core>) {
    let mut scheduler = Scheduler::default();
    loop {
        // Only for the look, so that an engine that nobody uses any more goes.
        let Some(held) = core.upgrade() else { return };
        // Before the look, so that a role that is given up during it is not missed.
        let heard = held.wake.snapshot(&[Channel::role(Role::Scheduler)]);
        let wait = scheduler.look(&held).await;
        drop(held);
        heard.wait(Instant::now() + wait).await;
    }
}

struct Scheduler {
    seat: Seat,
    /// Who has the role here, and when it was asked for.
    held: Option<(OwnerId, Instant)>,
    failures: u32,
    overdue: Overdue,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            seat: Seat::new(Role::Scheduler, TERM),
            held: None,
            failures: 0,
            overdue: Overdue::default(),
        }
    }
}

impl Scheduler {
    /// Looks once, if it is this process's business. How long to wait for the next look.
    async fn look(&mut self, core: &Arc<Core>) -> Duration {
        let looked = match self.ask(core).await {
            Ok(Some(wait)) => {
                self.overdue.show(Duration::ZERO);
                Ok(wait)
            }
            Ok(None) => self.fire_due(core).await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(wait) => {
                self.failures = 0;
                wait
            }
            Err(error) => {
                let error = Detail::error(&error);
                Signal::StoreFailed { error }.emit();
                self.failures += 1;
                BACKOFF.jittered(self.failures)
            }
        }
    }

    /// How long to wait where the role is somebody else's; nothing where it is this process's.
    async fn ask(&mut self, core: &Core) -> Result<Option<Duration>> {
        let owner = core.owner();
        let is_fresh =
            |(holder, since): &(OwnerId, Instant)| *holder == owner && since.elapsed() < RENEW;
        if self.held.as_ref().is_some_and(is_fresh) {
            return Ok(None);
        }
        self.held = None;
        let sent = Instant::now();
        match self.seat.ask(core).await? {
            Seated::Leads(term) => {
                self.held = Some((term.holder, sent));
                Ok(None)
            }
            Seated::Follows(wait) => Ok(Some(wait)),
        }
    }

    /// Fires what is due, and says how long nothing is.
    async fn fire_due(&mut self, core: &Arc<Core>) -> Result<Duration> {
        let (mut asked, mut overdue, mut has_more) = (first_page(), Duration::ZERO, false);
        loop {
            let page = core.store.due_schedules(&asked).await?;
            let now = page.now;
            let late = page.schedules.iter().filter_map(|(_, record)| {
                let record = record.as_ref().ok()?;
                Some(now.since(record.next_fire_at))
            });
            overdue = late.fold(overdue, Duration::max);
            // Before they fire, which may take its time.
            self.overdue.show(overdue);
            let mut firing = JoinSet::new();
            for (key, record) in page.schedules {
                match record {
                    Ok(record) => {
                        let core = Arc::clone(core);
                        // Together, so that they share a transaction.
                        firing.spawn(async move { (key, fire(&core, record, now).await) });
                    }
                    Err(error) => failed(&key, &error),
                }
            }
            while let Some(joined) = firing.join_next().await {
                // It was not cancelled, and a panic of ours goes on where it is seen.
                let (key, fired) = joined.unwrap_or_else(|died| match died.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => unreachable!("nobody cancels it"),
                });
                match fired {
                    Ok(is_partial) => has_more |= is_partial,
                    Err(error) => failed(&key, &error),
                }
            }
            if page.next.is_none() {
                let until_due = page.next_due.map_or(EVERY, |due| due.since(page.now));
                let wait = if has_more { Duration::ZERO } else { until_due };
                return Ok(wait.clamp(Duration::from_millis(1), EVERY));
            }
            asked.after = page.next;
        }
    }
}

const fn first_page() -> DueSchedules {
    DueSchedules {
        limit: PAGE,
        after: None,
    }
}

fn failed(key: &ScheduleKey, error: &Error) {
    Signal::ScheduleFailed {
        schedule: Detail::new(&key.id),
        namespace: Detail::new(&key.namespace),
        error: Detail::error(error),
    }
    .emit();
}

/// Shows how long the longest overdue occurrence has been so, when there is something to say.
#[derive(Default)]
struct Overdue {
    shown_s: u64,
}

impl Overdue {
    fn show(&mut self, age: Duration) {
        /// Less is the time of a look, and nobody's concern.
        const WORTH_A_WORD: Duration = Duration::from_secs(5);
        let age_s = if age < WORTH_A_WORD { 0 } else { age.as_secs() };
        if age_s != self.shown_s {
            Signal::ScheduleOverdue { age_s }.emit();
            self.shown_s = age_s;
        }
    }
}

/// Fires what is due of one schedule. Whether more of it is due.
async fn fire(core: &Core, record: ScheduleRecord, now: Timestamp) -> Result<bool> {
    let plan = advance(record.clone(), now)?;
    if plan.record == record {
        return Ok(false);
    }
    let is_partial = plan.is_partial;
    match core.commit(write(core, &plan, now).await?).await {
        Ok(Outcome::Scheduled { .. }) => {
            emit(&plan);
            Ok(is_partial)
        }
        // Somebody else has decided it, or changed or deleted the schedule.
        Ok(Outcome::Stale | Outcome::NotFound) => Ok(false),
        Ok(other) => Err(unexpected(&other)),
        // The next look finds out whether it happened.
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn unexpected(outcome: &Outcome) -> Error {
    Error::corrupt(format!("writing a schedule: answered {outcome:?}"))
}

/// Tells operators of a plan that was carried out.
pub(crate) fn emit(plan: &Plan) {
    let schedule = || Detail::new(&plan.record.id);
    for fire in &plan.fires {
        Signal::ScheduleFired {
            cause: fire.cause,
            schedule: schedule(),
        }
        .emit();
    }
    if plan.missed > 0 {
        Signal::ScheduleMissed {
            occurrences: plan.missed,
            schedule: schedule(),
        }
        .emit();
    }
    if plan.skipped > 0 {
        Signal::ScheduleSkipped {
            occurrences: plan.skipped,
            schedule: schedule(),
        }
        .emit();
    }
}

/// `plan` as one write; what it starts is marked as this process marks runs.
///
/// # Errors
/// None that a plan can cause; `Unavailable` or `Timeout` when the database does not say which build
/// is promoted.
pub(crate) async fn write(core: &Core, plan: &Plan, now: Timestamp) -> Result<Write> {
    let record = &plan.record;
    let mark = match plan.fires.as_slice() {
        [] => None,
        _ => core.mark(&record.namespace).await?,
    };
    let target = |at: &Timestamp| {
        let workflow = record.workflow(*at)?;
        Ok::<_, Error>(Target::Current(record.namespace.clone(), workflow))
    };
    let reason = format!("the next occurrence of schedule {} is due", record.id);
    let cancel = |at: &Timestamp| {
        Ok(Deliver {
            target: target(at)?,
            record: cancel_message(&reason, now)?,
            request: None,
            at_most: None,
        })
    };
    let terminate = |at: &Timestamp| {
        let failure = Failure::new(reason.as_str()).of_kind(Failure::TERMINATED);
        let failed = events::Failed {
            failure: failure.clone(),
        };
        let message = Message {
            at: now,
            step: None,
            kind: EventKind::Terminated(failed),
            payload: None,
        };
        Ok(Terminate {
            target: target(at)?,
            record: message.record()?,
            closing: closing(Closed::Terminated(failure), now)?,
            request: None,
        })
    };
    let begin = |fire: &Buffered| {
        Ok(Fire {
            at: fire.at,
            cause: fire.cause,
            start: start(core, record, fire.at, (now, mark.as_ref()))?,
        })
    };
    Ok(Write::Schedule(Box::new(ScheduleWrite {
        cancels: plan.cancels.iter().map(cancel).collect::<Result<_>>()?,
        terminates: plan
            .terminates
            .iter()
            .map(terminate)
            .collect::<Result<_>>()?,
        fires: plan.fires.iter().map(begin).collect::<Result<_>>()?,
        record: record.clone(),
    })))
}

/// The workflow that an occurrence starts.
fn start(
    core: &Core,
    record: &ScheduleRecord,
    at: Timestamp,
    (now, mark): (Timestamp, Option<&BuildId>),
) -> Result<Start> {
    let action = &record.schedule.action;
    let workflow = record.workflow(at)?;
    let mut memo = action.memo.clone();
    // For people, who see a run before they see its history.
    memo.entry("schedule")
        .or_insert_with(|| record.id.as_str().into());
    memo.entry("occurrence")
        .or_insert_with(|| Calendar::text(at.as_micros() / 1000).into());
    // Whoever made the schedule is long gone, so its trace is not theirs.
    let mut span = Span::root(SpanKind::Producer, format_args!("fire {}", action.name));
    span.note("coord.schedule.id", &record.id);
    span.note("coord.workflow.id", &workflow);
    let started = events::Started {
        name: action.name.clone(),
        workflow: workflow.clone(),
        number: 1,
        queue: action.queue.clone(),
        priority: action.priority,
        fairness: action.fairness.clone(),
        build: mark.cloned(),
        seed: rand::random(),
        parent: None,
        continued_from: None,
        occurrence: Some(Occurrence {
            schedule: record.id.clone(),
            at,
        }),
        execution_deadline_at: action.within.map(|span| now.plus(span)),
        attributes: Attributes::default(),
        memo,
        trace: span.context().cloned(),
    };
    let marks = Marks::of_start(&started.attributes, &started.memo);
    let event = Event {
        seq: 1,
        at: now,
        step: None,
        kind: EventKind::Started(started),
        payload: Some(action.input.clone()),
    };
    Ok(Start {
        namespace: record.namespace.clone(),
        workflow,
        run: core.ids.run(),
        number: 1,
        on_duplicate: OnDuplicate::ReturnExisting,
        name: action.name.clone(),
        queue: action.queue.clone(),
        priority: action.priority,
        fairness: action.fairness.clone(),
        build: mark.cloned(),
        parent: None,
        records: vec![event.record()?],
        due: Due::Now,
        lease: None,
        marks,
        request: None,
    })
}

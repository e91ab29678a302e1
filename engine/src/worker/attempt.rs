//! An attempt of an activity: run it, judge it, tell its run.

mod along;
mod eager;
mod span;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Shop;
use super::leases::LeaseGuard;
use crate::engine::Core;
use crate::flow::{Running, panic_message};
use crate::model::{
    self, AttemptEnd, AttemptId, Due, Event, EventKind, Expired, Failure, Message, OwnerId,
    Payload, Record, TaskId, TaskKind, events,
};
use crate::signals::{Follows, Signal};
use crate::store::{
    ClaimedTask, Outcome, PutBack, PutBackHow, Renewal, RenewalItem, Settle, Write,
};
use crate::transition::{Verdict, judge};
use crate::values::Values;
use along::emit_lost;

/// An attempt under way, as its activity sees it.
#[derive(Clone)]
pub struct Attempt {
    core: Arc<Core>,
    task: TaskId,
    id: AttemptId,
    number: u32,
    owner: OwnerId,
    epoch: u64,
    lease: std::time::Duration,
    progress: Option<Payload>,
}

impl Attempt {
    /// The execution that it belongs to: the same over all attempts, so it serves as the key under
    /// which an outside service does a thing once.
    pub const fn execution(&self) -> &TaskId {
        &self.task
    }

    /// Its own id.
    pub const fn id(&self) -> &AttemptId {
        &self.id
    }

    /// Its number, from 1.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Larger than that of any attempt before: a resource that refuses a smaller one than it has
    /// seen is safe from an attempt that does not know that it was given up.
    pub const fn fence(&self) -> u64 {
        self.epoch
    }

    /// What the last heartbeat of the attempt before carried.
    ///
    /// # Errors
    /// `Corrupt` when it is no `T`.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let read = |progress| self.values().read(Some(progress));
        self.progress.as_ref().map(read).transpose()
    }

    /// Says that the attempt goes on, and keeps `progress` for the next one.
    ///
    /// # Errors
    /// A failure of the sort [`Failure::CANCELLED`] when the attempt was given up: its run no longer
    /// wants it, or somebody else has it.
    ///
    /// # Cancel safety
    /// Safe. The heartbeat may have been recorded.
    pub async fn heartbeat(&self, progress: &impl Serialize) -> Result<(), Failure> {
        let renewal = Renewal {
            owner: self.owner.clone(),
            ttl: self.lease,
            items: vec![RenewalItem {
                task: self.task.clone(),
                epoch: self.epoch,
                beat: Some(Some(self.values().encode(progress)?)),
            }],
        };
        let renewed = self.core.store.renew(&renewal).await?;
        if renewed.items.first().is_none_or(Option::is_none) {
            return Err(Failure::new("the attempt was given up").of_kind(Failure::CANCELLED));
        }
        Ok(())
    }
}

impl Attempt {
    pub(super) fn values(&self) -> &Arc<Values> {
        &self.core.values
    }
}

/// How an attempt ended.
enum End {
    Completed(Payload),
    Failed(Failure),
    TimedOut(Expired),
}

impl Shop {
    /// Makes the attempt that was claimed by the request sent at `sent`.
    pub(super) async fn attempt(
        self: Arc<Self>,
        claimed: ClaimedTask,
        sent: Instant,
        slot: OwnedSemaphorePermit,
    ) {
        let owner = self.core.owner();
        let task = &claimed.task;
        let lease = (sent, self.turn_lease());
        let lease = self.leases.hold((&task.id, task.epoch), &owner, lease);
        let ended = match scheduled(&claimed) {
            Ok((event, activity)) => {
                let Some(end) = self.run(&claimed, &event, &activity, &lease).await else {
                    return emit_lost(&lease);
                };
                // Its run may begin the next one on this slot.
                drop(slot);
                self.report(&claimed, (&event, &activity), end, &lease)
                    .await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            // The lease ends by itself, and the attempt is made again.
            Signal::StoreFailed {
                error: Detail::error(&error),
            }
            .emit();
        }
    }

    /// Runs the activity; `None` when its lease is lost.
    async fn run(
        &self,
        claimed: &ClaimedTask,
        event: &Event,
        activity: &events::ActivityScheduled,
        lease: &LeaseGuard<'_>,
    ) -> Option<End> {
        let task = &claimed.task;
        let Some(function) = self.registry.activity_named(&task.name) else {
            let message = format!("this worker does not know {}", task.name);
            return Some(End::Failed(Failure::new(message)));
        };
        let attempt = Attempt {
            core: Arc::clone(&self.core),
            task: task.id.clone(),
            id: task.attempt_id.clone()?,
            number: task.attempt,
            owner: self.core.owner(),
            epoch: task.epoch,
            lease: self.lease,
            progress: claimed.progress.clone(),
        };
        let mut span = span::of(task, activity);
        let input = event.payload.clone();
        let running = span.within(async { isolated(function(attempt, input)).await });
        let bound = activity
            .timeouts
            .start_to_close
            .unwrap_or(std::time::Duration::MAX);
        let end = tokio::select! {
            result = tokio::time::timeout(bound, running) => Some(match result {
                Ok(Ok(output)) => End::Completed(output),
                Ok(Err(failure)) => End::Failed(failure.bounded()),
                Err(_) => End::TimedOut(Expired::StartToClose),
            }),
            () = lease.lost() => None,
        };
        span::note_end(&mut span, end.as_ref());
        end
    }

    async fn report(
        self: &Arc<Self>,
        claimed: &ClaimedTask,
        (event, activity): (&Event, &events::ActivityScheduled),
        end: End,
        lease: &LeaseGuard<'_>,
    ) -> Result<()> {
        let (task, now) = (&claimed.task, self.core.clock.now());
        let Some(attempt_id) = task.attempt_id.clone() else {
            return Err(Error::corrupt("an attempt without an id"));
        };
        let (end, failure) = match end {
            End::Completed(output) => {
                let completed = events::ActivityCompleted {
                    attempt: attempt_id.clone(),
                    number: task.attempt,
                };
                let kind = EventKind::ActivityCompleted(completed);
                let message = Message {
                    at: now,
                    step: task.step,
                    kind,
                    payload: Some(output),
                };
                match self.tell(claimed, message, None, lease).await {
                    // The database does not take this result, however often it is made.
                    Err(error) if error.kind() == ErrorKind::Invalid => {
                        (AttemptEnd::Failed, Failure::from(error).bounded())
                    }
                    told => return told,
                }
            }
            End::Failed(failure) => (AttemptEnd::Failed, failure),
            End::TimedOut(expired) => (AttemptEnd::TimedOut, timed_out(expired)),
        };
        let attempt = model::Attempt {
            id: attempt_id.clone(),
            task: task.id.clone(),
            run: task.run.clone(),
            number: task.attempt,
            owner: Some(self.core.owner()),
            end,
            failure: failure.clone(),
            ended_at: now,
        };
        let policy = (&activity.retry, &activity.timeouts);
        let verdict = judge(policy, task.attempt, &failure, (event.at, now));
        emit_ended(&attempt, verdict);
        if let Verdict::Again(wait) = verdict {
            let put_back = PutBack {
                held: lease.held.clone(),
                how: PutBackHow::Retry {
                    due: Due::After(wait),
                    error: failure.to_string(),
                    attempt: Some(attempt),
                },
            };
            return self.expect_held(Write::PutBack(put_back), lease).await;
        }
        let kind = last(&attempt, Expired::StartToClose);
        let message = Message {
            at: now,
            step: task.step,
            kind,
            payload: None,
        };
        self.tell(claimed, message, Some(attempt), lease).await
    }

    /// Tells the run how its activity ended. When the run is in memory here, what follows is
    /// committed along with it.
    async fn tell(
        self: &Arc<Self>,
        claimed: &ClaimedTask,
        message: Message,
        attempt: Option<model::Attempt>,
        lease: &LeaseGuard<'_>,
    ) -> Result<()> {
        let task = &claimed.task;
        if attempt.is_none()
            // A turn here would take no lease, and so pass a bound by.
            && !self.is_bounded(&self.queue, TaskKind::Workflow)
            && self.tell_along(&task.run, &message, lease).await?
        {
            return Ok(());
        }
        let settle = Settle {
            held: lease.held.clone(),
            run: task.run.clone(),
            record: message.record()?,
            attempt,
        };
        self.expect_held(Write::Settle(settle), lease).await
    }

    /// Commits the end of an attempt. When the answer is lost, it is committed again: if it
    /// happened, the lease is gone.
    async fn expect_held(&self, write: Write, lease: &LeaseGuard<'_>) -> Result<()> {
        loop {
            match self.commit_held(write.clone(), lease).await {
                Ok(Outcome::Lost) => {
                    emit_lost(lease);
                    return Ok(());
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    Signal::StoreFailed {
                        error: Detail::error(&error),
                    }
                    .emit();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The event that scheduled the activity of a claimed task.
fn scheduled(claimed: &ClaimedTask) -> Result<(Event, events::ActivityScheduled)> {
    let missing = || Error::corrupt(format!("activity {} has no event", claimed.task.id));
    let record: Record = claimed.scheduled.clone().ok_or_else(missing)?;
    let event = Event::from_record(record)?;
    match event.kind.clone() {
        EventKind::ActivityScheduled(activity) => Ok((event, activity)),
        _ => Err(missing()),
    }
}

/// A future whose panic is a failure.
async fn isolated(mut running: Running) -> Result<Payload, Failure> {
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                let message = panic_message(&*panic);
                Poll::Ready(Err(Failure::new(message).of_kind(Failure::PANICKED)))
            }
        }
    })
    .await
}

/// The failure of an attempt that took too long.
pub(crate) fn timed_out(expired: Expired) -> Failure {
    let failure = Failure::new(format!("the activity exceeded its {}", expired.as_str()));
    let failure = failure.of_kind(Failure::TIMED_OUT);
    if expired.is_retryable() {
        failure
    } else {
        failure.non_retryable()
    }
}

/// The event that ends an activity whose last attempt was `attempt`.
pub(crate) fn last(attempt: &model::Attempt, expired: Expired) -> EventKind {
    let number = attempt.number;
    match attempt.end {
        AttemptEnd::Failed => EventKind::ActivityFailed(events::ActivityFailed {
            attempt: attempt.id.clone(),
            number,
            failure: attempt.failure.clone(),
        }),
        AttemptEnd::TimedOut => {
            EventKind::ActivityTimedOut(events::ActivityTimedOut { expired, number })
        }
    }
}

/// Says that an attempt did not succeed.
pub(crate) fn emit_ended(attempt: &model::Attempt, verdict: Verdict) {
    Signal::AttemptEnded {
        end: attempt.end,
        follows: match verdict {
            Verdict::Again(_) => Follows::Retry,
            Verdict::Final => Follows::End,
        },
        task: Detail::new(&attempt.task),
        error: Detail::new(&attempt.failure),
    }
    .emit();
}

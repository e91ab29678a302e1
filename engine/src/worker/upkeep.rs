//! What one worker at a time does for all: it takes back what was left, and ends what took too long.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Shop;
use super::attempt::{emit_ended, last, timed_out};
use crate::model::{self, AttemptEnd, Due, Event, EventKind, Message};
use crate::signals::Signal;
use crate::store::{
    BlockedReason, Held, Holder, Overdue, PutBack, PutBackHow, Role, Settle, Sweep, Term, Write,
};
use crate::transition::{Verdict, expired, judge};
use crate::wake::Channel;

/// How many tasks at a time.
const LIMIT: u32 = 100;
/// Between portions of what was left: two thousand tasks a second at most, so that what lives is not
/// slowed down by what died.
const PAUSE: Duration = Duration::from_millis(50);
/// A task that was taken back so often took its process down each time.
const POISON_AFTER: u32 = 5;

impl Shop {
    /// Takes back and ends, in every term that this worker gets.
    pub(super) async fn upkeep(self: Arc<Self>) {
        // A short lease is meant to be noticed soon.
        let mut ticks = tokio::time::interval(self.core.recovery.every.min(self.lease));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.keep_up().await {
                Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit();
            }
        }
    }

    async fn keep_up(self: &Arc<Self>) -> Result<()> {
        // A portion that is not full was the last one.
        loop {
            match self.take_back().await? {
                // Another process does all of it.
                None => return Ok(()),
                Some(false) => break,
                Some(true) => tokio::time::sleep(PAUSE).await,
            }
        }
        while self.end_all_overdue().await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The term of this process, if it has or gets one.
    async fn lead(&self) -> Result<Option<Term>> {
        let term = self.core.recovery.term;
        self.core.elect(Role::Recovery, term).await
    }

    /// Takes back a portion of what nobody works on. Whether there may be more; `None` without a
    /// term.
    async fn take_back(&self) -> Result<Option<bool>> {
        let Some(term) = self.lead().await? else {
            return Ok(None);
        };
        // After an outage every heartbeat looks old, but only for as long as it takes to beat again.
        if term.now.since(term.acquired_at) >= self.core.recovery.ttl {
            self.core.store.bury(&term).await?;
        }
        let sweep = Sweep {
            limit: LIMIT,
            poison_after: POISON_AFTER,
        };
        let swept = self.core.store.sweep(&sweep).await?;
        if swept.ready > 0 {
            Signal::TasksRecovered { tasks: swept.ready }.emit();
        }
        let queues = swept.queues.iter();
        let queues = queues.map(|(namespace, queue, kind)| Channel::tasks(*kind, namespace, queue));
        self.core.wake.signal(&queues.collect::<Vec<_>>());
        let taken = swept.ready + swept.poisoned.len() as u64;
        for task in swept.poisoned {
            let reason = BlockedReason::Poison;
            let error = Detail::new("its owner was gone each time that it was claimed");
            Signal::RunBlocked {
                reason,
                run: Detail::new(task),
                error,
            }
            .emit();
        }
        Ok(Some(taken >= u64::from(LIMIT)))
    }

    /// Ends a portion of the activities whose time is over. Whether there may be more.
    async fn end_all_overdue(self: &Arc<Self>) -> Result<bool> {
        if self.lead().await?.is_none() {
            return Ok(false);
        }
        let found = self.core.store.overdue(LIMIT).await?;
        let is_full = found.len() >= LIMIT as usize;
        let mut ending = JoinSet::new();
        for overdue in found {
            let shop = Arc::clone(self);
            // Together, so that they share a transaction.
            ending.spawn(async move { shop.end_overdue(overdue).await });
        }
        let mut has_ended = false;
        for ended in ending.join_all().await {
            match ended {
                Ok(is_over) => has_ended |= is_over,
                // One that cannot be ended keeps no other from it.
                Err(error) => Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit(),
            }
        }
        Ok(is_full && has_ended)
    }

    /// Ends the attempt or the activity. Whether its time was over.
    async fn end_overdue(&self, overdue: Overdue) -> Result<bool> {
        let event = Event::from_record(overdue.scheduled)?;
        let EventKind::ActivityScheduled(activity) = &event.kind else {
            return Ok(false);
        };
        let (task, now) = (overdue.task, overdue.now);
        let under_way = overdue.started_at.zip(overdue.heartbeat_at);
        let times = &activity.timeouts;
        let Some(which) = expired(times, overdue.scheduled_at, under_way, task.attempt, now) else {
            return Ok(false);
        };
        let attempt = model::Attempt {
            id: task
                .attempt_id
                .clone()
                .unwrap_or_else(|| self.core.ids.attempt()),
            task: task.id.clone(),
            run: task.run.clone(),
            number: task.attempt,
            owner: overdue.owner,
            end: AttemptEnd::TimedOut,
            failure: timed_out(which),
            ended_at: now,
        };
        let policy = (&activity.retry, times);
        let verdict = judge(
            policy,
            task.attempt,
            &attempt.failure,
            (overdue.scheduled_at, now),
        );
        emit_ended(&attempt, verdict);
        let held = Held {
            task: task.id,
            epoch: task.epoch,
            holder: Holder::Overdue,
        };
        let write = match verdict {
            Verdict::Again(wait) => Write::PutBack(PutBack {
                held,
                how: PutBackHow::Retry {
                    due: Due::After(wait),
                    error: attempt.failure.to_string(),
                    attempt: Some(attempt),
                },
            }),
            Verdict::Final => {
                let kind = last(&attempt, which);
                let message = Message {
                    at: now,
                    step: task.step,
                    kind,
                    payload: None,
                };
                Write::Settle(Settle {
                    held,
                    run: task.run,
                    record: message.record()?,
                    attempt: Some(attempt),
                })
            }
        };
        // Lost means that it ended meanwhile.
        self.core.commit(write).await.map(|_| true)
    }
}

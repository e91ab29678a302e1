//! What one worker at a time does for all: it takes back what was left, and ends what took too long.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::time::MissedTickBehavior;

use super::Shop;
use super::attempt::{emit_ended, last, timed_out};
use crate::fleet;
use crate::model::{self, AttemptEnd, Due, Event, EventKind, Message};
use crate::signals::Signal;
use crate::store::{
    BlockedReason, Held, Holder, Overdue, PutBack, PutBackHow, Role, Settle, Sweep, Write,
};
use crate::transition::{Verdict, expired, judge};
use crate::wake::Channel;

/// How often. A lease that has ended waits for at most this long.
const EVERY: Duration = Duration::from_secs(5);
/// How long the one who does it is the one: longer than the time between, so that it stays.
const TERM: Duration = Duration::from_secs(8);
/// How many tasks at a time.
const LIMIT: u32 = 100;
/// A task that was taken back so often took its process down each time.
const POISON_AFTER: u32 = 5;

impl Shop {
    /// Takes back and ends, in every term that this worker gets.
    pub(super) async fn upkeep(self: Arc<Self>) {
        // A short lease is meant to be noticed soon.
        let mut ticks = tokio::time::interval(EVERY.min(self.lease));
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

    async fn keep_up(&self) -> Result<()> {
        let owner = self.core.owner();
        let elected = self.core.store.elect(Role::Recovery, &owner, TERM).await?;
        let Some(term) = elected else {
            return Ok(());
        };
        // After an outage every heartbeat looks old, but only for as long as it takes to beat again.
        if term.now.since(term.acquired_at) >= fleet::TTL {
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
        for overdue in self.core.store.overdue(LIMIT).await? {
            self.end_overdue(overdue).await?;
        }
        Ok(())
    }

    async fn end_overdue(&self, overdue: Overdue) -> Result<()> {
        let event = Event::from_record(overdue.scheduled)?;
        let EventKind::ActivityScheduled(activity) = &event.kind else {
            return Ok(());
        };
        let (task, now) = (overdue.task, overdue.now);
        let under_way = overdue.started_at.zip(overdue.heartbeat_at);
        let times = &activity.timeouts;
        let Some(which) = expired(times, overdue.scheduled_at, under_way, task.attempt, now) else {
            return Ok(());
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
        self.core.commit(write).await.map(drop)
    }
}

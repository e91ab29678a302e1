//! Activities whose time is over.

use std::sync::Arc;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::task::JoinSet;

use super::{LIMIT, Portion};
use crate::engine::Core;
use crate::model::{self, AttemptEnd, Due, Event, EventKind, Message};
use crate::signals::Signal;
use crate::store::{Held, Holder, Overdue, PutBack, PutBackHow, Settle, Write};
use crate::transition::{Verdict, expired, judge};
use crate::worker::{emit_ended, last, timed_out};

/// Ends a portion of the activities whose time is over.
pub(super) async fn end_all(core: &Arc<Core>) -> Result<Portion> {
    let found = core.store.overdue(LIMIT).await?;
    let is_full = found.len() >= LIMIT as usize;
    let mut ending = JoinSet::new();
    for overdue in found {
        let core = Arc::clone(core);
        // Together, so that they share a transaction.
        ending.spawn(async move { end(&core, overdue).await });
    }
    let mut done = 0;
    for ended in ending.join_all().await {
        match ended {
            Ok(is_over) => done += u64::from(is_over),
            // One that cannot be ended keeps no other from it.
            Err(error) => Signal::StoreFailed {
                error: Detail::error(&error),
            }
            .emit(),
        }
    }
    Ok(Portion {
        done,
        may_be_more: is_full && done > 0,
    })
}

/// Ends the attempt or the activity. Whether its time was over.
async fn end(core: &Core, overdue: Overdue) -> Result<bool> {
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
            .unwrap_or_else(|| core.ids.attempt()),
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
    core.commit(write).await.map(|_| true)
}

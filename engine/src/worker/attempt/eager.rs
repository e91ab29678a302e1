//! Activities that a run's own node begins as it schedules them: no hand-over, no claim.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::model::{Task, TaskId, TaskKind, Timestamp};
use crate::store::{ClaimedTask, Lease, Turn};
use crate::worker::Shop;
use crate::worker::live::Live;

/// After so many activities that a run's own node has begun, the next one waits in its queue like
/// those of others, so that a busy run does not keep a slot for ever.
const LONGEST_CHAIN: u32 = 100;

/// An activity that its own node begins, and the slot that it takes.
pub(in crate::worker) type Eager = (ClaimedTask, OwnedSemaphorePermit);

impl Shop {
    /// Leases the activities of a turn to this worker, as far as it knows them and has slots.
    pub(in crate::worker) fn lease_eagerly(&self, live: &mut Live, turn: &mut Turn) -> Vec<Eager> {
        let mut eager = Vec::new();
        let is_over = live.chain >= LONGEST_CHAIN;
        if is_over {
            live.chain = 0;
        }
        if self.is_closing() || is_over {
            return eager;
        }
        let owner = self.core.owner();
        for activity in &mut turn.activities {
            let is_ours = activity.queue == self.queue
                && self.registry.activity_named(&activity.name).is_some()
                && !self.is_bounded(&activity.queue, TaskKind::Activity);
            if !is_ours {
                continue;
            }
            let Ok(permit) = Arc::clone(&self.activities).try_acquire_owned() else {
                break;
            };
            let attempt = self.core.ids.attempt();
            let lease = Lease {
                owner: owner.clone(),
                ttl: self.lease,
            };
            activity.lease = Some((lease, attempt.clone()));
            let scheduled = turn
                .records
                .iter()
                .find(|record| record.seq == activity.scheduled_seq);
            let task = Task {
                id: TaskId::of(&turn.run, activity.step),
                namespace: self.namespace.clone(),
                kind: TaskKind::Activity,
                queue: activity.queue.clone(),
                priority: activity.priority,
                name: activity.name.clone(),
                workflow: live.draft.identity().workflow.clone(),
                run: turn.run.clone(),
                step: Some(activity.step),
                build: None,
                epoch: 1,
                attempt: 1,
                attempt_id: Some(attempt),
                lease_expires_at: Timestamp::NEVER,
                deadline_at: Timestamp::NEVER,
            };
            let claimed = ClaimedTask {
                task,
                due_at: Timestamp::NEVER,
                scheduled: scheduled.cloned(),
                progress: None,
            };
            live.chain += 1;
            eager.push((claimed, permit));
        }
        eager
    }

    /// Begins the activities that the commit sent at `sent` has leased to this worker.
    pub(in crate::worker) fn begin_eagerly(self: &Arc<Self>, eager: Vec<Eager>, sent: Instant) {
        for (claimed, permit) in eager {
            let shop = Arc::clone(self);
            self.spawn(async move {
                shop.attempt(claimed, sent, permit).await;
            });
        }
    }
}

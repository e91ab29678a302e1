//! What was handed over to a worker: claims of those very tasks.

use std::sync::Arc;

use coord_core::signals::Detail;
use tokio::time::Instant;

use super::Shop;
use super::mail::Got;
use super::poll::{LARGEST_CLAIM, Request, State, Watch};
use crate::model::{TaskId, TaskKind};
use crate::signals::{Found, ProbedBy, Signal};
use crate::store::Claimed;

impl Shop {
    /// Says for how many tasks there is room while nothing waits, and gets what is handed over.
    pub(super) async fn got(&self, watches: &[Watch]) -> Got {
        let Some(mail) = &self.mail else {
            return std::future::pending().await;
        };
        let waits = watches.iter().filter(|watch| watch.is_waiting());
        let room = waits.map(|watch| {
            let free = self.slots_of(watch.kind).available_permits();
            (watch.kind, free.min(LARGEST_CLAIM))
        });
        mail.want(room.filter(|(_, free)| *free > 0).collect());
        mail.got().await
    }

    /// Claims what was handed over, as far as there is room, and begins it.
    pub(super) async fn take_handed(self: &Arc<Self>, watches: &mut [Watch], got: Got) {
        let Got::Tasks(mut tasks) = got else {
            return open(watches);
        };
        tasks.sort_unstable();
        tasks.dedup();
        let requests = self.requests_for(watches, &tasks);
        if requests.is_empty() {
            return;
        }
        let sent = Instant::now();
        match self.claim(watches, &requests, Some(tasks.clone())).await {
            Ok(claimed) => {
                self.core.clock.observe(claimed.now, sent);
                self.core.meter.claimed(&claimed);
                let found = match claimed.tasks.as_slice() {
                    [] => Found::Nothing,
                    _ => Found::Work,
                };
                self.core.meter.looked(ProbedBy::Handed, found);
                self.begin_handed(watches, (requests, &tasks), claimed, sent);
            }
            Err(error) => {
                let error = Detail::error(&error);
                Signal::StoreFailed { error }.emit();
                open(watches);
            }
        }
    }

    /// The slots for tasks that were handed over. Where there are too few, it is to be looked when
    /// there are more.
    fn requests_for(&self, watches: &mut [Watch], tasks: &[TaskId]) -> Vec<Request> {
        let mut requests = Vec::new();
        for (place, watch) in watches.iter_mut().enumerate() {
            let count = of_kind(tasks, watch.kind);
            if count == 0 || !watch.is_waiting() {
                continue;
            }
            let slots: Vec<_> = self.free_slots(watch.kind).take(count).collect();
            if slots.len() < count {
                watch.state = State::Open;
            }
            if !slots.is_empty() {
                let since = self.core.wake.snapshot(&[]);
                requests.push(Request {
                    place,
                    slots,
                    since,
                });
            }
        }
        requests
    }

    fn begin_handed(
        self: &Arc<Self>,
        watches: &mut [Watch],
        (requests, handed): (Vec<Request>, &[TaskId]),
        claimed: Claimed,
        sent: Instant,
    ) {
        let mut tasks = claimed.tasks;
        for Request { place, slots, .. } in requests {
            let watch = &mut watches[place];
            let (ours, others): (Vec<_>, Vec<_>) = tasks
                .into_iter()
                .partition(|claimed| claimed.task.kind == watch.kind);
            tasks = others;
            let is_less = ours.len() < of_kind(handed, watch.kind);
            self.begin_each(ours.into_iter().zip(slots), sent);
            let is_full = self.slots_of(watch.kind).available_permits() == 0;
            if is_full || (is_less && self.is_bounded(&self.queue, watch.kind)) {
                // What comes now waits for room, and is taken by its priority when there is some.
                watch.state = State::Open;
            } else if is_less {
                // Somebody else had it, or it is not for this worker, but for others perhaps.
                self.core.wake.signal_others(watch.channel.clone());
            }
        }
    }
}

impl Watch {
    const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }
}

fn open(watches: &mut [Watch]) {
    for watch in watches {
        watch.state = State::Open;
    }
}

fn of_kind(tasks: &[TaskId], kind: TaskKind) -> usize {
    tasks.iter().filter(|task| task.kind() == kind).count()
}

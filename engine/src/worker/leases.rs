//! The leases of a worker: who still holds what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use super::Shop;
use crate::committer::locked;
use crate::model::{OwnerId, RunId, TaskId};
use crate::signals::Signal;
use crate::store::{Held, Holder, PutBack, PutBackHow, Renewal, RenewalItem, Write};
use coord_core::signals::Detail;

/// How many renewals there are in the time of a lease: two may fail in a row.
const RENEWALS: u32 = 3;
/// How long a worker that stops waits for what was told to end. Whatever waits for something ends at
/// once; what is still there then occupies its thread, and nobody can say for how long.
const STOP: Duration = Duration::from_secs(1);
/// How many tasks are given back at a time: more than a worker has, unless it was told to take very
/// many.
const PORTION: usize = 1000;

/// Every lease of this worker whose task is under way.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<TaskId, Entry>>);

struct Entry {
    epoch: u64,
    ttl: Duration,
    owner: OwnerId,
    news: watch::Sender<News>,
}

/// What is known of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct News {
    /// Somebody else may have the task by now.
    pub(super) is_lost: bool,
    /// How many messages the run was ever sent.
    pub(super) inbox_seq: u64,
    /// Until when it holds by our own clock.
    until: Instant,
}

/// A lease under way. Dropped, it is no longer renewed.
pub(super) struct LeaseGuard<'a> {
    leases: &'a Leases,
    pub(super) held: Held,
    pub(super) news: watch::Receiver<News>,
}

impl Leases {
    /// Keeps a lease renewed whose claim was sent at `sent`.
    pub(super) fn hold(
        &self,
        (task, epoch): (&TaskId, u64),
        owner: &OwnerId,
        (sent, ttl): (Instant, Duration),
    ) -> LeaseGuard<'_> {
        let news = watch::Sender::new(News {
            is_lost: false,
            inbox_seq: 0,
            until: sent + ttl,
        });
        let receiver = news.subscribe();
        let entry = Entry {
            epoch,
            ttl,
            owner: owner.clone(),
            news,
        };
        locked(&self.0).insert(task.clone(), entry);
        LeaseGuard {
            leases: self,
            held: Held {
                task: task.clone(),
                epoch,
                holder: Holder::Owner(owner.clone()),
            },
            news: receiver,
        }
    }

    /// The leases of which a third has passed, or will have before the look after the next one.
    fn due(&self, every: Duration) -> HashMap<(OwnerId, Duration), Vec<RenewalItem>> {
        let mut items: HashMap<_, Vec<_>> = HashMap::new();
        let next = Instant::now() + every;
        for (task, entry) in &*locked(&self.0) {
            let left = entry.news.borrow().until.saturating_duration_since(next);
            if left >= entry.ttl / RENEWALS * (RENEWALS - 1) {
                continue;
            }
            let item = RenewalItem {
                task: task.clone(),
                epoch: entry.epoch,
                beat: None,
            };
            let whose = (entry.owner.clone(), entry.ttl);
            items.entry(whose).or_default().push(item);
        }
        items
    }

    fn tell(&self, task: &TaskId, epoch: u64, change: impl FnOnce(&mut News)) {
        let leases = locked(&self.0);
        if let Some(entry) = leases.get(task).filter(|entry| entry.epoch == epoch) {
            entry.news.send_if_modified(|news| {
                let before = *news;
                change(news);
                *news != before
            });
        }
    }

    /// Tells the holder of a run's workflow task that the run was sent messages up to `inbox_seq`.
    fn tell_news(&self, task: &TaskId, inbox_seq: u64) {
        if let Some(entry) = locked(&self.0).get(task) {
            entry.news.send_if_modified(|news| {
                let is_news = inbox_seq > news.inbox_seq;
                news.inbox_seq = news.inbox_seq.max(inbox_seq);
                is_news
            });
        }
    }

    /// Tells the holders of every lease that is not of `owner` that it is lost.
    fn lose_but_of(&self, owner: &OwnerId) {
        for entry in locked(&self.0)
            .values()
            .filter(|entry| entry.owner != *owner)
        {
            entry.news.send_modify(|news| news.is_lost = true);
        }
    }

    /// All that is held, and no longer.
    fn drain(&self) -> Vec<Held> {
        let drained = std::mem::take(&mut *locked(&self.0));
        let held = drained.into_iter().map(|(task, entry)| {
            let holder = Holder::Owner(entry.owner);
            Held {
                task,
                epoch: entry.epoch,
                holder,
            }
        });
        held.collect()
    }
}

impl LeaseGuard<'_> {
    /// Returns when the lease is lost; never before.
    pub(super) async fn lost(&self) {
        let mut news = self.news.clone();
        // An error means that the entry is gone: the worker gives everything back.
        _ = news.wait_for(|news| news.is_lost).await;
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        let mut leases = locked(&self.leases.0);
        if leases
            .get(&self.held.task)
            .is_some_and(|entry| entry.epoch == self.held.epoch)
        {
            leases.remove(&self.held.task);
        }
    }
}

impl Shop {
    /// A run was sent a message by this process: a local step under way may be of it.
    pub(crate) fn tell_news(&self, run: &RunId, inbox_seq: u64) {
        self.leases.tell_news(&TaskId::of(run, 0), inbox_seq);
    }

    /// Renews all leases at a third of their time, as long as the worker lives. It runs aside, so
    /// that they last while the worker is busy.
    pub(super) async fn renew(self: Arc<Self>) {
        let every = self.shortest_lease() / RENEWALS;
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut incarnation = self.core.watch_owner();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // It ends with the engine, and that outlives its workers.
                Ok(()) = incarnation.changed() => {
                    self.leases.lose_but_of(&self.core.owner());
                    continue;
                }
            }
            for ((owner, ttl), items) in self.leases.due(every) {
                self.renew_items(Renewal { owner, ttl, items }).await;
            }
        }
    }

    async fn renew_items(&self, renewal: Renewal) {
        let sent = Instant::now();
        let store = self.core.aside.store();
        // A call that hangs must not keep the leases from ending by our own clock.
        let answer = tokio::time::timeout(renewal.ttl / RENEWALS, store.renew(&renewal));
        match answer.await {
            Ok(Ok(renewed)) => {
                self.core.clock.observe(renewed.now, sent);
                for (item, held) in renewal.items.iter().zip(renewed.items) {
                    self.leases.tell(&item.task, item.epoch, |news| match held {
                        Some(held) => {
                            news.until = sent + renewal.ttl;
                            news.inbox_seq = news.inbox_seq.max(held.inbox_seq);
                        }
                        None => news.is_lost = true,
                    });
                }
            }
            Ok(Err(error)) => {
                Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit();
                self.lose_what_has_ended(&renewal.items);
            }
            Err(_) => {
                let error = Detail::new("renewing leases: no answer in a third of their time");
                Signal::StoreFailed { error }.emit();
                self.lose_what_has_ended(&renewal.items);
            }
        }
    }

    fn lose_what_has_ended(&self, items: &[RenewalItem]) {
        for item in items {
            self.leases.tell(&item.task, item.epoch, |news| {
                news.is_lost |= news.until <= Instant::now();
            });
        }
    }

    /// Ends all that is under way, and gives it back to the queue as if it had not been claimed, all
    /// in one write.
    ///
    /// Code that does not let go of its thread within [`STOP`] is left behind: its task is given back
    /// all the same, under a larger epoch, so that what it still writes is refused.
    pub(super) async fn give_all_back(&self) {
        // Before the end of who holds them: that ends the leases as well.
        let held = self.leases.drain();
        let mut work = std::mem::take(&mut *locked(&self.work));
        work.abort_all();
        let all_gone = async { while work.join_next().await.is_some() {} };
        _ = tokio::time::timeout(STOP, all_gone).await;
        let put_back = |held: &Held| {
            Write::PutBack(PutBack {
                held: held.clone(),
                how: PutBackHow::Untouched,
            })
        };
        for portion in held.chunks(PORTION) {
            let writes: Vec<_> = portion.iter().map(put_back).collect();
            if let Err(error) = self.core.commit_together(&writes).await {
                // Their leases end by themselves.
                Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit();
                return;
            }
        }
    }
}

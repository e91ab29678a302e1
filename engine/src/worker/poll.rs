//! The poller: claims as much as there are slots for, and waits for more.
//!
//! Tasks of both kinds are looked for together when time says that it is time to look, so that a
//! worker with nothing to do asks the database one question a look; a hint is of one kind, and so is
//! the look that it asks for.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Shop;
use super::mail::Got;
use crate::model::{TaskId, TaskKind};
use crate::signals::{Found, ProbedBy, Signal};
use crate::store::{Claim, Claimed, ClaimedTask, Wanted};
use crate::wake::{Channel, Dispatch, Snapshot, Wake};

/// The largest claim of one kind.
pub(super) const LARGEST_CLAIM: usize = 100;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// What is known of the tasks of one kind.
pub(super) struct Watch {
    pub(super) kind: TaskKind,
    pub(super) channel: Channel,
    /// Where it hears that the namespace has room again.
    room: Option<Channel>,
    pub(super) state: State,
    /// A slot that was waited for.
    slot: Option<OwnedSemaphorePermit>,
}

pub(super) enum State {
    /// There may be some.
    Open,
    /// There were none when this was taken, and the next look without a hint is due then.
    Waiting {
        since: Snapshot,
        until: Instant,
        by: ProbedBy,
    },
}

/// Why a worker goes on.
enum Woken {
    /// By this watch.
    Watch(usize, News),
    /// By what was handed over.
    Mail(Got),
}

/// Why a watch goes on.
enum News {
    /// There is a slot.
    Slot(Option<OwnedSemaphorePermit>),
    /// It is to be looked.
    Look(ProbedBy),
}

/// Tasks of one kind to be claimed.
pub(super) struct Request {
    /// Which of the watches it is of.
    pub(super) place: usize,
    pub(super) slots: Vec<OwnedSemaphorePermit>,
    /// Taken before the look, so that a hint that comes during it is not missed.
    pub(super) since: Snapshot,
}

impl Watch {
    /// Whether it is to be looked: there may be tasks, or it is time.
    fn is_open(&mut self) -> bool {
        if let State::Waiting { since, until, .. } = &self.state
            && (since.changed() || *until <= Instant::now())
        {
            self.state = State::Open;
        }
        matches!(self.state, State::Open)
    }
}

impl Shop {
    /// Claims tasks and begins them, as long as the worker takes any.
    pub(super) async fn poll(self: Arc<Self>) {
        let mut watches: Vec<_> = [TaskKind::Workflow, TaskKind::Activity]
            .into_iter()
            .filter(|kind| !self.registry.names(*kind).is_empty())
            .map(|kind| Watch {
                kind,
                channel: Channel::tasks(kind, &self.namespace, &self.queue),
                room: self.room(kind),
                state: State::Open,
                slot: None,
            })
            .collect();
        if watches.is_empty() {
            return;
        }
        let mut closing = self.closing.subscribe();
        let (mut failures, mut waited_for) = (0, None);
        while !self.is_closing() {
            let requests = self.requests(&mut watches);
            if requests.is_empty() {
                let woken = tokio::select! {
                    _ = closing.wait_for(|closing| *closing) => return,
                    woken = self.woken(&watches) => woken,
                };
                waited_for = match woken {
                    Woken::Watch(place, news) => heed(&mut watches, place, news),
                    Woken::Mail(got) => {
                        self.take_handed(&mut watches, got).await;
                        None
                    }
                };
                continue;
            }
            let sent = Instant::now();
            match self.claim(&watches, &requests, None).await {
                Ok(claimed) => {
                    self.core.clock.observe(claimed.now, sent);
                    self.core.meter.claimed(&claimed);
                    failures = 0;
                    if let Some(by) = waited_for.take() {
                        let found = match claimed.tasks.as_slice() {
                            [] => Found::Nothing,
                            _ => Found::Work,
                        };
                        self.core.meter.looked(by, found);
                    }
                    self.begin(&mut watches, requests, claimed, sent);
                }
                Err(error) => {
                    Signal::StoreFailed {
                        error: Detail::error(&error),
                    }
                    .emit();
                    failures += 1;
                    drop(requests);
                    let wait = BACKOFF.jittered(failures).max(Duration::from_millis(10));
                    tokio::select! {
                        _ = closing.wait_for(|closing| *closing) => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// What may be there and has slots free.
    fn requests(&self, watches: &mut [Watch]) -> Vec<Request> {
        let mut requests = Vec::new();
        for (place, watch) in watches.iter_mut().enumerate() {
            if !watch.is_open() {
                continue;
            }
            let first = watch.slot.take().into_iter();
            let slots: Vec<_> = first.chain(self.free_slots(watch.kind)).collect();
            if slots.is_empty() {
                continue;
            }
            let channels = std::iter::once(&watch.channel).chain(&watch.room);
            let channels: Vec<_> = channels.cloned().collect();
            requests.push(Request {
                place,
                slots,
                since: self.core.wake.snapshot(&channels),
            });
        }
        requests
    }

    pub(super) fn free_slots(&self, kind: TaskKind) -> impl Iterator<Item = OwnedSemaphorePermit> {
        let slot = move || Arc::clone(self.slots_of(kind)).try_acquire_owned().ok();
        // With the one that was waited for.
        std::iter::from_fn(slot).take(LARGEST_CLAIM - 1)
    }

    pub(super) const fn slots_of(&self, kind: TaskKind) -> &Arc<Semaphore> {
        match kind {
            TaskKind::Workflow => &self.turns,
            TaskKind::Activity => &self.activities,
        }
    }

    /// Waits until there may be tasks to claim, or a slot for those that may be there.
    async fn woken(&self, watches: &[Watch]) -> Woken {
        let news = async |place: usize| match watches.get(place) {
            Some(watch) => self.news(watch).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            got = self.got(watches) => Woken::Mail(got),
            news = news(0) => Woken::Watch(0, news),
            news = news(1) => Woken::Watch(1, news),
        }
    }

    async fn news(&self, watch: &Watch) -> News {
        match &watch.state {
            State::Open => {
                let slot = Arc::clone(self.slots_of(watch.kind)).acquire_owned();
                News::Slot(slot.await.ok())
            }
            State::Waiting { since, until, by } => News::Look(if since.wait(*until).await {
                ProbedBy::Hint
            } else {
                *by
            }),
        }
    }

    pub(super) async fn claim(
        &self,
        watches: &[Watch],
        requests: &[Request],
        only: Option<Vec<TaskId>>,
    ) -> Result<Claimed> {
        let wanted = requests.iter().map(|request| {
            let (kind, limit) = (watches[request.place].kind, request.slots.len());
            let attempts = match kind {
                TaskKind::Workflow => 0,
                TaskKind::Activity => limit,
            };
            Wanted {
                kind,
                names: self.registry.names(kind),
                limit: limit as u32,
                attempts: (0..attempts).map(|_| self.core.ids.attempt()).collect(),
            }
        });
        let claim = Claim {
            namespace: self.namespace.clone(),
            queue: self.queue.clone(),
            quotas: self.quotas(requests.iter().map(|request| watches[request.place].kind)),
            wanted: wanted.collect(),
            only,
            builds: self.core.compatibility().claims(),
            fingerprints: self.pins(),
            owner: self.core.owner(),
            ttl: self.turn_lease(),
        };
        self.core.store.claim(&claim).await
    }

    /// Begins what was claimed. Where there was nothing of a kind, its next look waits.
    fn begin(
        self: &Arc<Self>,
        watches: &mut [Watch],
        requests: Vec<Request>,
        claimed: Claimed,
        sent: Instant,
    ) {
        let (until, by) = self.next_look(&claimed);
        let mut tasks = claimed.tasks;
        for Request {
            place,
            slots,
            mut since,
        } in requests
        {
            let watch = &mut watches[place];
            if let Some(room) = &watch.room
                && !claimed.held_back.contains(&watch.kind)
            {
                // It has nothing that waits for room.
                since.leave(room);
            }
            let (ours, others): (Vec<_>, Vec<_>) = tasks
                .into_iter()
                .partition(|claimed| claimed.task.kind == watch.kind);
            tasks = others;
            if ours.is_empty() {
                watch.state = State::Waiting { since, until, by };
            }
            self.begin_each(ours.into_iter().zip(slots), sent);
        }
    }

    /// Begins tasks, each on its slot.
    pub(super) fn begin_each(
        self: &Arc<Self>,
        tasks: impl Iterator<Item = (ClaimedTask, OwnedSemaphorePermit)>,
        sent: Instant,
    ) {
        for (task, slot) in tasks {
            let shop = Arc::clone(self);
            self.spawn(async move {
                let kind = task.task.kind;
                match kind {
                    TaskKind::Workflow => {
                        Arc::clone(&shop).turn(task, sent).await;
                        drop(slot);
                    }
                    TaskKind::Activity => Arc::clone(&shop).attempt(task, sent, slot).await,
                }
                shop.tell_freed(kind);
            });
        }
    }

    /// Until when to wait for a hint after a look that found nothing, and why.
    fn next_look(&self, claimed: &Claimed) -> (Instant, ProbedBy) {
        let probe = match (&self.mail, self.core.wake.dispatch()) {
            (Some(mail), Dispatch::Queue) if mail.is_open() => Wake::calm_probe(),
            (Some(_), Dispatch::Queue) => Wake::unheard_probe(),
            _ => self.core.wake.probe(),
        };
        let now = Instant::now();
        let due = claimed.next_due.map(|due| due.since(claimed.now));
        match due.filter(|due| *due < probe) {
            Some(due) => (now + due.max(Duration::from_millis(1)), ProbedBy::Due),
            None => (now + probe, ProbedBy::Time),
        }
    }
}

/// Notes why it goes on, and says which look that asks for.
fn heed(watches: &mut [Watch], place: usize, news: News) -> Option<ProbedBy> {
    let by = match news {
        News::Slot(slot) => {
            watches[place].slot = slot;
            return None;
        }
        News::Look(by) => by,
    };
    for (other, watch) in watches.iter_mut().enumerate() {
        // Whoever looks because it is time looks for everything.
        if other == place || by != ProbedBy::Hint {
            watch.state = State::Open;
        }
    }
    Some(by)
}

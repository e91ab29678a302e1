//! What is handed over to a worker while it waits, and who receives it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Shop;
use crate::committer::locked;
use crate::model::{TaskId, TaskKind};
use crate::wake::{Counter, Desk, Handover};

/// How long one wait for tasks of all kinds lasts that the worker wants; while it wants only some,
/// it is short, so that the others are soon waited for when there is room for them.
const BLOCK: Duration = Duration::from_secs(2);
const BLOCK_FOR_SOME: Duration = Duration::from_millis(100);
/// How often it says that it waits.
const SIGN: Duration = Duration::from_secs(5);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// What was handed over and not claimed yet, for the loop that claims. Nothing of it counts for
/// more than a hint.
pub(super) struct Mail {
    state: Mutex<State>,
    /// How many tasks of each kind there is room for, while none of them wait.
    wanted: watch::Sender<Vec<(TaskKind, usize)>>,
    /// Something has changed for whoever claims.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    is_open: bool,
    /// It has been opened or closed, so that what is known of the queue is old.
    is_stale: bool,
    tasks: Vec<TaskId>,
}

/// What a worker that waits has got.
pub(super) enum Got {
    /// What it knows of its queue is old: it is to be looked.
    Stale,
    /// Tasks, of any of its kinds.
    Tasks(Vec<TaskId>),
}

impl Mail {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            wanted: watch::Sender::new(Vec::new()),
            news: watch::Sender::new(()),
        }
    }

    /// Whether tasks are handed over to it.
    pub(super) fn is_open(&self) -> bool {
        locked(&self.state).is_open
    }

    /// Says how many tasks it has room for.
    pub(super) fn want(&self, wanted: Vec<(TaskKind, usize)>) {
        self.wanted.send_if_modified(|known| {
            let is_news = *known != wanted;
            *known = wanted;
            is_news
        });
    }

    /// Waits until there is something.
    pub(super) async fn got(&self) -> Got {
        let mut news = self.news.subscribe();
        loop {
            if let Some(got) = self.take() {
                return got;
            }
            // Its sender is this mail's own.
            _ = news.changed().await;
        }
    }

    fn take(&self) -> Option<Got> {
        let mut state = locked(&self.state);
        if std::mem::take(&mut state.is_stale) {
            // The look sees what was handed over until now.
            state.tasks.clear();
            return Some(Got::Stale);
        }
        let tasks = std::mem::take(&mut state.tasks);
        (!tasks.is_empty()).then_some(Got::Tasks(tasks))
    }

    /// What nobody has claimed from here.
    pub(super) fn rest(&self) -> Vec<TaskId> {
        std::mem::take(&mut locked(&self.state).tasks)
    }

    fn put(&self, tasks: Vec<TaskId>) {
        locked(&self.state).tasks.extend(tasks);
        self.news.send_replace(());
    }

    fn set_open(&self, is_open: bool) {
        let mut state = locked(&self.state);
        state.is_stale |= is_open || state.is_open != is_open;
        state.is_open = is_open;
        drop(state);
        self.news.send_replace(());
    }
}

impl Shop {
    /// The desks of the kinds that it knows something of.
    pub(super) fn desks(&self) -> Vec<Desk> {
        let kinds = [TaskKind::Workflow, TaskKind::Activity].into_iter();
        let known = kinds.filter(|kind| !self.registry.names(*kind).is_empty());
        let desk = |kind| Desk {
            namespace: self.namespace.clone(),
            queue: self.queue.clone(),
            kind,
        };
        known.map(desk).collect()
    }

    /// Receives what is handed over, as long as it is polled and once there is a place for it. Never
    /// dropped amid a wait by itself: what the wait has taken out would be gone.
    pub(super) async fn receive(self: Arc<Self>, mail: Arc<Mail>, counter: Counter) {
        let desks = self.desks();
        if desks.is_empty() {
            return;
        }
        let Counter {
            handover,
            standing,
            places,
        } = counter;
        let _place = places.acquire().await;
        let mut failures = 0;
        while !self.is_closing() {
            if let Err(error) = handover.wait_at(&desks).await {
                standing.failed(&error);
                mail.set_open(false);
                tokio::time::sleep(BACKOFF.jittered(failures)).await;
                failures += 1;
                continue;
            }
            failures = 0;
            standing.works();
            mail.set_open(true);
            // It ends when this is no longer waited at: then it is waited at anew, if that works.
            let ended = self.receive_at(&mail, &*handover, &desks).await;
            if ended.is_err() {
                tokio::time::sleep(BACKOFF.jittered(0)).await;
            }
        }
    }

    async fn receive_at(
        &self,
        mail: &Mail,
        handover: &dyn Handover,
        desks: &[Desk],
    ) -> coord_core::Result<()> {
        let mut wanted = mail.wanted.subscribe();
        let mut signed = Instant::now();
        loop {
            let is_some = |known: &Vec<(TaskKind, usize)>| !known.is_empty();
            let next_sign = signed + SIGN;
            // Its sender is the mail's own, so an end is that of the time.
            let known = tokio::time::timeout_at(next_sign, wanted.wait_for(is_some)).await;
            let known = known.ok().and_then(Result::ok).map(|known| known.clone());
            if signed.elapsed() >= SIGN {
                handover.wait_at(desks).await?;
                signed = Instant::now();
            }
            let Some(known) = known else { continue };
            let room = |desk: &&Desk| known.iter().any(|(kind, _)| *kind == desk.kind);
            let at: Vec<_> = desks.iter().filter(room).cloned().collect();
            let most = known.iter().map(|(_, room)| *room).min().unwrap_or(0);
            let block = if at.len() == desks.len() {
                BLOCK
            } else {
                BLOCK_FOR_SOME
            };
            if at.is_empty() || most == 0 {
                continue;
            }
            let taken = handover.take(&at, most, block).await?;
            // What is no id is nobody's task.
            let taken = taken.into_iter().filter_map(|id| TaskId::new(id).ok());
            let taken: Vec<_> = taken.collect();
            if !taken.is_empty() {
                // Until it is claimed, nothing more is wanted.
                mail.want(Vec::new());
                mail.put(taken);
            }
            if self.is_closing() {
                self.pass_on();
                return Ok(());
            }
        }
    }
}

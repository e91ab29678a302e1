//! Tasks that are handed over to whoever waits for them, each to one, in place of hints that have
//! everybody look.
//!
//! What is handed over is an id, and means no more than a hint: whoever gets it claims that task in
//! the database as any claim does, and what may not be claimed stays. So an id may be late, doubled,
//! foreign, garbage or lost; a lost one is found by the look that no hint asks for, after five
//! seconds at most.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::Error;
use coord_core::signals::Detail;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Channel;
use super::hub::Hub;
use super::link::Link;
use crate::committer::locked;
use crate::model::{Namespace, Queue, TaskId, TaskKind};
use crate::signals::Signal;
use crate::store::Reply;

/// How many parcels may wait to be handed over. One that finds no place becomes a hint.
const WAITING: usize = 1024;
/// How many of them are handed over at a time.
const AT_ONCE: usize = 128;
/// How long handing over may take before it is taken for failed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where tasks of one kind in one queue are handed over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Desk {
    /// The tenant.
    pub namespace: Namespace,
    /// The queue.
    pub queue: Queue,
    /// What the tasks are for.
    pub kind: TaskKind,
}

impl Desk {
    fn channel(&self) -> Channel {
        Channel::tasks(self.kind, &self.namespace, &self.queue)
    }
}

/// Hands ids of tasks from whoever makes them ready to whoever waits for them, each to one.
///
/// It may lose, delay, double and reorder them.
pub trait Handover: Send + Sync + 'static {
    /// For how many workers of one process it has a place. Those beyond look as without it, until a
    /// place is free.
    fn places(&self) -> usize {
        Semaphore::MAX_PERMITS
    }

    /// Hands tasks over. `false` when nobody waits at this desk, nor did a short while ago: then
    /// they are not kept.
    fn hand<'a>(&'a self, desk: &'a Desk, tasks: &'a [TaskId]) -> Reply<'a, bool>;

    /// Waits at desks from here on, so that what is handed over there is kept for a while.
    fn wait_at<'a>(&'a self, desks: &'a [Desk]) -> Reply<'a, ()>;

    /// What was handed over at desks, of each at most so many: at once when there is something,
    /// otherwise nothing after `block` at most. An error when it no longer waits there. It is text,
    /// since whatever carries it may give anything.
    fn take<'a>(
        &'a self,
        desks: &'a [Desk],
        most: usize,
        block: Duration,
    ) -> Reply<'a, Vec<String>>;
}

/// How a process learns of tasks, beside looking for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Dispatch {
    /// By hints.
    Poll,
    /// Tasks are handed over.
    Queue,
    /// They are to be, and are not, for so long: it works by hints meanwhile.
    Lost(Duration),
}

impl Dispatch {
    /// The word for it.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Queue => "queue",
            Self::Lost(_) => "queue_degraded",
        }
    }
}

/// Whether tasks are handed over.
pub(crate) struct Standing(Mutex<(State, Instant)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was tried yet.
    Beginning,
    Works,
    Lost,
}

impl Standing {
    fn becomes(&self, state: State) -> bool {
        let mut known = locked(&self.0);
        let is_news = known.0 != state;
        if is_news {
            *known = (state, Instant::now());
        }
        is_news
    }

    pub(crate) fn works(&self) {
        if self.becomes(State::Works) {
            Signal::DispatchRestored {}.emit();
        }
    }

    pub(crate) fn failed(&self, error: &Error) {
        if self.becomes(State::Lost) {
            let error = Detail::error(error);
            Signal::DispatchLost { error }.emit();
        }
    }

    fn is_lost(&self) -> bool {
        locked(&self.0).0 == State::Lost
    }

    fn dispatch(&self) -> Dispatch {
        let (state, since) = *locked(&self.0);
        match state {
            State::Lost => Dispatch::Lost(since.elapsed()),
            State::Beginning | State::Works => Dispatch::Queue,
        }
    }
}

/// Tasks on their way.
struct Parcel {
    desk: Desk,
    tasks: Vec<TaskId>,
    /// Whether a hint has told of them already.
    is_told: bool,
}

/// Where the workers of a process receive tasks.
#[derive(Clone)]
pub(crate) struct Counter {
    pub(crate) handover: Arc<dyn Handover>,
    /// Where they say how that goes.
    pub(crate) standing: Arc<Standing>,
    /// Each of them has one while it receives.
    pub(crate) places: Arc<Semaphore>,
}

/// Where a process leaves what is to be handed over. Dropped, it ends.
pub(super) struct Post {
    counter: Counter,
    parcels: mpsc::Sender<Parcel>,
    /// How many were left here, and how many are gone.
    left: watch::Sender<u64>,
    gone: watch::Receiver<u64>,
    _work: JoinSet<()>,
}

/// What becomes of a parcel that is not handed over.
pub(super) struct Hints {
    pub(super) hub: Arc<Hub>,
    pub(super) links: Arc<[Link]>,
}

impl Hints {
    fn tell(&self, desk: &Desk) {
        let channel = desk.channel();
        self.hub.ring(&channel, Instant::now());
        for link in &*self.links {
            link.send(std::slice::from_ref(&channel));
        }
    }
}

impl Post {
    pub(super) fn begin(handover: Arc<dyn Handover>, hints: Hints) -> Self {
        let standing = Arc::new(Standing(Mutex::new((State::Beginning, Instant::now()))));
        let (parcels, waiting) = mpsc::channel(WAITING);
        let (told, gone) = watch::channel(0);
        let places = handover.places().min(Semaphore::MAX_PERMITS);
        let counter = Counter {
            handover,
            standing,
            places: Arc::new(Semaphore::new(places)),
        };
        let carrier = Carrier {
            counter: counter.clone(),
            hints,
            gone: told,
        };
        let mut work = JoinSet::new();
        work.spawn(carrier.carry(waiting));
        Self {
            counter,
            parcels,
            left: watch::Sender::new(0),
            gone,
            _work: work,
        }
    }

    /// Hands tasks over; `false` when they are better told by a hint now.
    pub(super) fn hand(&self, desk: Desk, tasks: Vec<TaskId>) -> bool {
        // While nothing passes it is still tried, so that it is seen when it does again.
        let is_told = self.counter.standing.is_lost();
        let parcel = Parcel {
            desk,
            tasks,
            is_told,
        };
        let is_left = self.parcels.try_send(parcel).is_ok();
        if is_left {
            self.left.send_modify(|left| *left += 1);
        }
        is_left && !is_told
    }

    pub(super) fn dispatch(&self) -> Dispatch {
        self.counter.standing.dispatch()
    }

    pub(super) fn counter(&self) -> Counter {
        self.counter.clone()
    }

    /// Waits until all that was left here is gone.
    pub(super) async fn flush(&self) {
        let left = *self.left.borrow();
        let mut gone = self.gone.clone();
        // Its sender is the carrier's, which ends with this.
        _ = gone.wait_for(|gone| *gone >= left).await;
    }
}

/// Who carries parcels over.
struct Carrier {
    counter: Counter,
    hints: Hints,
    gone: watch::Sender<u64>,
}

impl Carrier {
    async fn carry(self, mut waiting: mpsc::Receiver<Parcel>) {
        let mut parcels = Vec::new();
        while waiting.recv_many(&mut parcels, AT_ONCE).await > 0 {
            let count = parcels.len() as u64;
            for parcel in together(parcels.drain(..)) {
                if !self.hand(&parcel).await && !parcel.is_told {
                    self.hints.tell(&parcel.desk);
                }
            }
            self.gone.send_modify(|gone| *gone += count);
        }
    }

    /// Whether somebody gets it.
    async fn hand(&self, parcel: &Parcel) -> bool {
        let Parcel { desk, tasks, .. } = parcel;
        let Counter {
            handover, standing, ..
        } = &self.counter;
        let handed = tokio::time::timeout(PATIENCE, handover.hand(desk, tasks)).await;
        let late = |_| Err(Error::timeout("handing tasks over: no answer"));
        match handed.unwrap_or_else(late) {
            Ok(is_taken) => {
                standing.works();
                if is_taken {
                    let (kind, tasks) = (desk.kind, tasks.len() as u64);
                    Signal::TasksHanded { kind, tasks }.emit();
                }
                is_taken
            }
            Err(error) => {
                standing.failed(&error);
                false
            }
        }
    }
}

/// Those of one desk as one parcel, in their order.
fn together(parcels: impl Iterator<Item = Parcel>) -> Vec<Parcel> {
    let mut all: Vec<Parcel> = Vec::new();
    for parcel in parcels {
        match all.iter_mut().find(|known| known.desk == parcel.desk) {
            Some(known) => {
                known.tasks.extend(parcel.tasks);
                known.is_told &= parcel.is_told;
            }
            None => all.push(parcel),
        }
    }
    all
}

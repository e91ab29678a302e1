//! Hints that there is something to do, within this process and between processes.
//!
//! Who looks for work does it in this order: take a [`Snapshot`] of the channels, look, and wait
//! for the snapshot to change; before every further look comes a new snapshot. A hint that falls
//! into the look is seen by the wait after it, so none is lost between the two.
//!
//! What decides is the database. A hint may be late, doubled, made up or lost: a look that no hint
//! asks for comes after a second at most, and after five while a [`Backend`] is seen to carry hints
//! from this process and back. Hints leave after the commit that they tell of, never before it, and
//! whether they arrive does not concern it.
//!
//! # Backends
//! Within the process hints need nothing. Between processes a backend carries them:
//!
//! | backend | what it needs | how soon |
//! |---|---|---|
//! | `Redis` | Redis 6.2 or Valkey; the feature `redis`, which is on by default | a round trip to it |
//! | `Nats` | NATS 2, and no streams of it; the feature `nats` | a round trip to it |
//! | `Memcached` | memcached 1.6; the feature `memcached` | up to a tenth of a second while all are idle, then a hundredth |
//! | `Notify` | PostgreSQL, and no pooler in between | a round trip to the database |
//! | [`Table`] | nothing but the database | up to three seconds while all are idle, then a tenth of one |
//!
//! Each is two more connections at most, whatever the number of workers and callers that wait, and
//! carries one message every 5 ms at most, with all channels that had news since the last one.
//! Whether it works is tried by use: every five seconds a message of this process has to come back
//! to it. That finds a broken connection, a server that no longer delivers and a pooler that
//! swallows subscriptions alike.
//!
//! # Handing over
//! A hint has everybody look who waits, and most of them in vain. With a [`Handover`], such as
//! `Streams` in Redis, the id of a task that may be claimed goes to one of those who wait, who claims
//! that very task; the others sleep on. It is used while nothing waits in the queue: a worker whose
//! slots are taken looks when one is free, and so by priority and in turns. What was handed over to
//! nobody is told by a hint, and what was lost on the way is found by the look that needs no hint.

mod backend;
mod ends;
mod handover;
mod hub;
mod link;
mod look;
#[cfg(feature = "memcached")]
mod memcached;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "memcached", feature = "nats"))]
mod prefix;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::{Closed, Namespace, Queue, RunId, TaskId, TaskKind, Timestamp};
use crate::store::{Ready, Role};
use ends::Ends;
use handover::{Hints, Post};
use hub::Hub;
use link::Link;

pub use backend::{Backend, Ears, Kind};
pub(crate) use handover::{Counter, Dispatch};
pub use handover::{Desk, Handover};
pub(crate) use hub::Snapshot;
pub(crate) use look::watch_ends;
#[cfg(feature = "memcached")]
pub use memcached::Memcached;
#[cfg(feature = "nats")]
pub use nats::Nats;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "redis")]
pub use streams::Streams;
pub use table::Table;
pub use tools::{Carrier, News, Subject};

#[cfg(feature = "postgres")]
pub use crate::store::Notify;

/// After how long who waits looks by itself, when nothing tells this process of news elsewhere: this
/// is what a lost hint costs.
const PROBE: Duration = Duration::from_secs(1);
/// The same while every backend works. It is also how soon a loss is noticed that shows in nothing
/// else, so that the two together bound what a backend that loses hints can cost.
const CALM_PROBE: Duration = Duration::from_secs(5);

/// How long a process that ends waits until its last hints have left.
const FLUSH: Duration = Duration::from_secs(1);

/// Whether hints pass between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// No backend is configured: others are looked for once a second.
    Alone,
    /// All backends carry hints.
    Healthy,
    /// A backend does not: others are looked for once a second, as without it.
    Degraded,
}

/// Whether hints pass, and where they do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Passing {
    pub(crate) health: Health,
    /// The backends through which they do not, for how long, and why.
    pub(crate) lost: Vec<(Kind, Duration, String)>,
}

/// A look that comes a little earlier than others spreads the load, and is never late.
fn spread(longest: Duration) -> Duration {
    longest.mul_f64(1.0 - 0.2 * rand::random::<f64>())
}

/// What can have news. Its text means nothing to who carries it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Channel(Arc<str>);

impl Channel {
    /// Tasks of `kind` in a queue.
    pub(crate) fn tasks(kind: TaskKind, namespace: &Namespace, queue: &Queue) -> Self {
        Self(format!("{}:{namespace}:{queue}", word(kind)).into())
    }

    /// Room for tasks of `kind` in a namespace that bounds them.
    pub(crate) fn room(kind: TaskKind, namespace: &Namespace) -> Self {
        Self(format!("room:{}:{namespace}", word(kind)).into())
    }

    /// A role that was given up.
    pub(crate) fn role(role: Role) -> Self {
        Self(format!("role:{}", role.as_str()).into())
    }

    /// What a run has told: its end, and answers to updates.
    pub(crate) fn run(run: &RunId) -> Self {
        Self(format!("run:{run}").into())
    }
}

const fn word(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Workflow => "wf",
        TaskKind::Activity => "act",
    }
}

/// All hints of a process.
pub(crate) struct Wake {
    hub: Arc<Hub>,
    ends: Ends,
    links: Arc<[Link]>,
    /// Where tasks are handed over, if they are.
    post: Option<Post>,
}

impl Wake {
    /// Hints that `backends` carry to other processes and from them; tasks are handed over where
    /// `handover` is.
    pub(crate) fn new(
        backends: Vec<Arc<dyn Backend>>,
        handover: Option<Arc<dyn Handover>>,
    ) -> Self {
        let hub = Arc::new(Hub::default());
        let links = backends.into_iter();
        let links = links.map(|backend| Link::begin(backend, Arc::clone(&hub)));
        let links: Arc<[Link]> = links.collect();
        let hints = || Hints {
            hub: Arc::clone(&hub),
            links: Arc::clone(&links),
        };
        Self {
            ends: Ends::default(),
            post: handover.map(|handover| Post::begin(handover, hints())),
            links,
            hub,
        }
    }

    /// Sees all news of `channels` from here on: to be taken before the look.
    pub(crate) fn snapshot(&self, channels: &[Channel]) -> Snapshot {
        self.hub.snapshot(channels)
    }

    /// There is news on `channels`: for this process and for the others.
    pub(crate) fn signal(&self, channels: &[Channel]) {
        let now = Instant::now();
        for channel in channels {
            self.hub.ring(channel, now);
        }
        self.send(channels);
    }

    /// There is news on `channel` that this process knows already.
    pub(crate) fn signal_others(&self, channel: Channel) {
        self.send(&[channel]);
    }

    /// Tells of the tasks that a commit has left to be claimed, when the database's clock shows `clock`.
    ///
    /// Those that are due are handed over where that is done, and who gets them is told by that.
    /// Otherwise everybody is told, and looks. One that is due later concerns who waits for it here,
    /// and shortens that wait. Others are told only when nobody does: they look, and see by
    /// themselves when it is due.
    pub(crate) fn tasks(&self, ready: &[Ready], clock: Timestamp) {
        let now = Instant::now();
        let mut others = Vec::new();
        for ready in ready {
            let Ready {
                namespace,
                queue,
                kind,
                due,
                tasks,
            } = ready;
            let channel = Channel::tasks(*kind, namespace, queue);
            let wait = due.since(clock);
            let desk = || Desk {
                namespace: namespace.clone(),
                queue: queue.clone(),
                kind: *kind,
            };
            if wait.is_zero() && self.hand(desk, tasks) {
                continue;
            }
            let is_heard = match now.checked_add(wait) {
                Some(at) => self.hub.ring(&channel, at),
                None => true,
            };
            if wait.is_zero() || !is_heard {
                others.push(channel);
            }
        }
        self.send(&others);
    }

    /// Hands tasks over; `false` where they are better told of by a hint.
    pub(crate) fn hand(&self, desk: impl FnOnce() -> Desk, tasks: &[TaskId]) -> bool {
        let post = self.post.as_ref().filter(|_| !tasks.is_empty());
        post.is_some_and(|post| post.hand(desk(), tasks.to_vec()))
    }

    /// Where a worker receives tasks, if they are handed over.
    pub(crate) fn counter(&self) -> Option<Counter> {
        self.post.as_ref().map(Post::counter)
    }

    /// How this process learns of tasks.
    pub(crate) fn dispatch(&self) -> Dispatch {
        let post = self.post.as_ref();
        post.map_or(Dispatch::Poll, Post::dispatch)
    }

    fn send(&self, channels: &[Channel]) {
        for link in &*self.links {
            link.send(channels);
        }
    }

    /// Waits until what was told so far has left, for a second at most.
    pub(crate) async fn flush(&self) {
        let all = async {
            if let Some(post) = &self.post {
                post.flush().await;
            }
            for link in &*self.links {
                link.flush().await;
            }
        };
        // A hint that does not leave costs the others a look.
        _ = tokio::time::timeout(FLUSH, all).await;
    }

    /// Whether hints pass between processes, and where they do not.
    pub(crate) fn passing(&self) -> Passing {
        let now = Instant::now();
        let lost = self.links.iter().filter_map(|link| link.lost_for(now));
        Passing {
            health: self.health(),
            lost: lost.collect(),
        }
    }

    /// Whether hints pass between processes.
    pub(crate) fn health(&self) -> Health {
        if self.links.is_empty() {
            Health::Alone
        } else if self.links.iter().all(Link::is_healthy) {
            Health::Healthy
        } else {
            Health::Degraded
        }
    }

    /// How long to wait for a hint before looking without one.
    pub(crate) fn probe(&self) -> Duration {
        let longest = match self.health() {
            Health::Healthy => CALM_PROBE,
            Health::Alone | Health::Degraded => PROBE,
        };
        spread(longest)
    }

    /// The same for a worker to whom tasks are handed over.
    pub(crate) fn calm_probe() -> Duration {
        spread(CALM_PROBE)
    }

    /// The same for one to whom they are not, though they are to others: of those no hint tells.
    pub(crate) fn unheard_probe() -> Duration {
        spread(PROBE)
    }

    /// The end of `run`, if it comes in this process.
    pub(crate) fn end_of(&self, run: &RunId) -> tokio::sync::oneshot::Receiver<Closed> {
        let end = self.ends.expect(run);
        self.ends.look_for(run);
        end
    }

    /// As [`end_of`](Self::end_of), but nobody looks for it before [`look_for`](Self::look_for).
    pub(crate) fn expect_end_of(&self, run: &RunId) -> tokio::sync::oneshot::Receiver<Closed> {
        self.ends.expect(run)
    }

    /// Somebody waits for the end of `run` that was expected.
    pub(crate) fn look_for(&self, run: &RunId) {
        self.ends.look_for(run);
    }

    /// The runs whose end somebody waits for.
    pub(crate) fn awaited(&self) -> Vec<RunId> {
        self.ends.awaited()
    }

    /// `run` ended here.
    pub(crate) fn ended(&self, run: &RunId, closed: &Closed) {
        self.ends.ended(run, closed);
        self.signal_others(Channel::run(run));
    }

    /// The end of `run` was seen.
    pub(crate) fn found_ended(&self, run: &RunId, closed: &Closed) {
        self.ends.ended(run, closed);
    }
}

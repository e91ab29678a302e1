//! The worker: claims tasks of one queue, runs their code, and commits what follows.

mod attempt;
mod cache;
mod handed;
mod leases;
mod live;
mod mail;
mod poll;
mod registry;
mod results;
mod start;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::committer::locked;
use crate::engine::Core;
use crate::flow::{Activity, Context, Workflow};
use crate::model::{BuildId, Failure, Fingerprint, Namespace, Queue, TaskKind};
use crate::store::{Enlistment, Quota};
use crate::wake::Channel;
use cache::Cache;
use leases::Leases;
use mail::Mail;
use registry::Registry;
use results::Results;

pub use attempt::Attempt;
pub(crate) use attempt::{emit_ended, last, timed_out};
pub(crate) use start::Eager;

/// How long a task is leased. A worker renews at a third of it, so two renewals may fail.
pub(crate) const LEASE: Duration = Duration::from_mins(1);
/// How many turns are under way at a time: they mostly wait for commits, and more of them fill
/// larger batches.
const TURNS: u32 = 256;
/// How many activities are under way at a time.
const ACTIVITIES: u32 = 64;
/// How many runs stay in memory between their turns, so that a turn costs what is new and not the
/// whole history.
pub(crate) const CACHED_RUNS: usize = 1000;

/// What workers begin with that are not told otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    pub(crate) lease: Duration,
    pub(crate) cached_runs: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            lease: LEASE,
            cached_runs: CACHED_RUNS,
        }
    }
}

/// A worker to be: what it can do, and how much at a time.
#[must_use]
pub struct WorkerBuilder {
    core: Arc<Core>,
    namespace: Namespace,
    queue: Queue,
    registry: Registry,
    lease: Duration,
    turns: u32,
    activities: u32,
    cached_runs: usize,
}

impl WorkerBuilder {
    pub(crate) fn new(core: Arc<Core>, namespace: Namespace, queue: Queue) -> Self {
        let Defaults { lease, cached_runs } = core.workers_begin_with;
        Self {
            core,
            namespace,
            queue,
            registry: Registry::default(),
            lease,
            turns: TURNS,
            activities: ACTIVITIES,
            cached_runs,
        }
    }

    /// The code of `workflow`.
    pub fn workflow<I, O, F, R>(mut self, workflow: Workflow<I, O>, code: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.registry.workflow(workflow, code);
        self
    }

    /// Says what the code of `workflow` is here: a word of yours that changes when runs that are
    /// under way could not go on with the new code, such as a date or a version.
    ///
    /// The first worker that takes a turn of a run records it with the run, and from then on only
    /// workers that were given the same word for this type go on with it: the others leave it to
    /// them, and say so as [`Refusal::FingerprintDiffers`](crate::Refusal::FingerprintDiffers).
    /// A worker that was given no such word for any type goes on with every run, and so does one of
    /// an engine that [does not pin](crate::EngineBuilder::without_pins). Code has no other mark
    /// here: what differs and was not said is found when a history is replayed.
    ///
    /// # Panics
    /// When the type and the word together have more than 254 bytes, or the word is empty, holds an
    /// `@` or a control character, or ends in a space.
    pub fn definition<I, O>(mut self, workflow: Workflow<I, O>, definition: &str) -> Self {
        let name = workflow.name();
        let fingerprint = Fingerprint::of(&name, definition);
        let fingerprint = fingerprint.unwrap_or_else(|error| panic!("{error}"));
        self.registry.define(name, fingerprint);
        self
    }

    /// The code of `activity`. It may do anything; it is dropped where it stands when its lease is
    /// lost or its time is over.
    pub fn activity<I, O, F, R>(mut self, activity: Activity<I, O>, code: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Attempt, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.registry.activity(activity, code);
        self
    }

    /// How long a task is leased; it is renewed at a third of it. Default: what the
    /// [engine](crate::EngineBuilder::lease) was told, or 60 s. A worker that dies
    /// is noticed by its heartbeat; the lease is what bounds a worker that lives and is stuck.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How many turns of workflows are under way at a time, at least one. Default: 256.
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = turns.max(1);
        self
    }

    /// How many activities are under way at a time; none with 0. Default: 64.
    pub fn activities(mut self, activities: u32) -> Self {
        self.activities = activities;
        self
    }

    /// How many runs stay in memory between their turns. Default: what the
    /// [engine](crate::EngineBuilder::cached_runs) was told, or 1000.
    pub fn cached_runs(mut self, runs: usize) -> Self {
        self.cached_runs = runs;
        self
    }

    /// Begins to work.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(self) -> Worker {
        let id = format!("{}:{}", std::process::id(), self.core.ids.owner());
        let counter = self.core.wake.counter();
        let shop = Arc::new(Shop {
            id,
            core: self.core,
            namespace: self.namespace,
            queue: self.queue,
            registry: self.registry,
            lease: self.lease,
            cache: Cache::new(self.cached_runs),
            leases: Leases::default(),
            results: Arc::default(),
            turns: Arc::new(Semaphore::new(self.turns as usize)),
            activities: Arc::new(Semaphore::new(self.activities as usize)),
            work: Mutex::new(JoinSet::new()),
            closing: watch::Sender::new(false),
            mail: counter.as_ref().map(|_| Arc::new(Mail::new())),
        });
        shop.core.join(&shop);
        let mut loops = JoinSet::new();
        if let Some((mail, counter)) = shop.mail.clone().zip(counter) {
            loops.spawn(Arc::clone(&shop).receive(mail, counter));
        }
        loops.spawn(Arc::clone(&shop).poll());
        let aside = shop.core.aside.runtime();
        loops.spawn_on(Arc::clone(&shop).renew(), aside);
        Worker {
            shop,
            loops,
            slots: (self.turns, self.activities),
        }
    }
}

/// A worker at work. Dropped, it stops where it stands, as if its process had died: its tasks are
/// taken back by others when their leases end. [`shutdown`](Self::shutdown) is the way to end it.
pub struct Worker {
    shop: Arc<Shop>,
    loops: JoinSet<()>,
    slots: (u32, u32),
}

impl Worker {
    /// Claims nothing more, waits at most `grace` for what is under way, and gives the rest back to
    /// its queue at once. Whether all was done in time.
    ///
    /// It ends within a second after `grace` and the time of a write. Code that blocks its thread,
    /// and so cannot be dropped, is left behind: its task goes to others all the same, and what it
    /// still writes is refused. In a runtime of one thread such code blocks this call as well.
    ///
    /// # Cancel safety
    /// Dropped, it leaves the worker stopped as by a drop.
    pub async fn shutdown(mut self, grace: Duration) -> bool {
        self.shop.closing.send_replace(true);
        self.shop.core.show_draining();
        self.shop.core.roster.notify_one();
        let all_idle = async {
            let (turns, activities) = self.slots;
            _ = self.shop.turns.acquire_many(turns).await;
            _ = self.shop.activities.acquire_many(activities).await;
        };
        let is_done = tokio::time::timeout(grace, all_idle).await.is_ok();
        self.shop.give_all_back().await;
        self.loops.shutdown().await;
        self.shop.pass_on();
        is_done
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // What is under way holds the shop, so the shop's own drop would never come.
        locked(&self.shop.work).abort_all();
        self.loops.abort_all();
    }
}

/// What all tasks of a worker share.
pub(crate) struct Shop {
    /// What others see it as.
    id: String,
    core: Arc<Core>,
    namespace: Namespace,
    queue: Queue,
    registry: Registry,
    lease: Duration,
    cache: Cache,
    leases: Leases,
    results: Arc<Results>,
    turns: Arc<Semaphore>,
    activities: Arc<Semaphore>,
    /// Turns and attempts under way.
    work: Mutex<JoinSet<()>>,
    closing: watch::Sender<bool>,
    /// What is handed over to it, where that is done.
    mail: Option<Arc<Mail>>,
}

impl Shop {
    /// How long its leases last at least.
    pub(crate) fn shortest_lease(&self) -> Duration {
        self.turn_lease().min(self.lease)
    }

    /// How long tasks are leased that are claimed. Local steps run under the workflow task of their
    /// turn, so what bounds their leases bounds it; and one statement claims both kinds of tasks.
    fn turn_lease(&self) -> Duration {
        let bound = self.core.node.local_lease;
        bound.map_or(self.lease, |bound| bound.min(self.lease))
    }

    /// Runs `work` as one of the worker's own, which end with it.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut set = locked(&self.work);
        while set.try_join_next().is_some() {}
        set.spawn(work);
    }

    /// Hands to others what was handed over to it and not claimed.
    fn pass_on(&self) {
        let rest = self.mail.as_ref().map(|mail| mail.rest());
        for desk in self.desks() {
            let of_kind = rest
                .iter()
                .flatten()
                .filter(|task| task.kind() == desk.kind);
            let of_kind: Vec<_> = of_kind.cloned().collect();
            self.core.wake.hand(|| desk, &of_kind);
        }
    }

    /// Whether it takes no more work.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// What others see of it.
    pub(crate) fn enlistment(&self) -> Enlistment {
        let compatibility = self.core.compatibility();
        Enlistment {
            worker: self.id.clone(),
            owner: self.core.owner(),
            namespace: self.namespace.clone(),
            queue: self.queue.clone(),
            current: compatibility.current().cloned(),
            supported: compatibility.supported().clone(),
            types: Some(self.registry.types(self.core.node.pins)),
            host: host(),
        }
    }

    /// What a claim of tasks of `kinds` keeps within, in the order in which all lock it.
    fn quotas(&self, kinds: impl Iterator<Item = TaskKind>) -> Vec<Quota> {
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_by_key(|kind| kind.as_str());
        let quotas = kinds.into_iter();
        let of = |kind| self.core.quotas.of(&self.queue, kind);
        quotas.flat_map(of).collect()
    }

    /// Whether tasks of `kind` in `queue` are bounded, so that all of them go through a claim.
    fn is_bounded(&self, queue: &Queue, kind: TaskKind) -> bool {
        self.core.quotas.bound(queue, kind)
    }

    /// One that was bounded has ended: another may begin, wherever there is a slot.
    fn tell_freed(&self, kind: TaskKind) {
        if self.is_bounded(&self.queue, kind) {
            let freed = Channel::tasks(kind, &self.namespace, &self.queue);
            self.core.wake.signal(&[freed]);
        }
        self.core.wake.signal(self.room(kind).as_slice());
    }

    /// Where it is told that another task of `kind` may begin in whatever queue, if that is bounded.
    fn room(&self, kind: TaskKind) -> Option<Channel> {
        let is_bounded = self.core.quotas.bound_together(kind);
        is_bounded.then(|| Channel::room(kind, &self.namespace))
    }

    /// What it leaves alone: runs that began with other code than one of these. `None` for nothing.
    fn pins(&self) -> Option<Vec<Fingerprint>> {
        let known = self.registry.fingerprints();
        (self.core.node.pins && !known.is_empty()).then_some(known)
    }

    /// Whether it could go on with a run that is marked with `build`.
    pub(crate) fn supports(&self, build: Option<&BuildId>) -> bool {
        self.core.compatibility().supported().holds(build)
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // A process whose last worker is gone, and that lives on, no longer shows that it ends.
        self.core.show_draining();
    }
}

/// What this machine is called, where the system says so in a file.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

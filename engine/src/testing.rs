//! Tests of workflows without a database, without other services, and without waiting.
//!
//! A [`TestKit`] is an engine on a store in memory with a worker, in a runtime whose time stands
//! still unless everybody waits for it: a workflow that sleeps for a month ends at once. Activities
//! are [mocked](TestKitBuilder::mock) or real.
//!
//! Every test with it needs `#[tokio::test(start_paused = true)]`.
//!
//! ```
//! use std::time::Duration;
//! use coord_engine::flow::{Activity, Context, Workflow};
//! use coord_engine::model::Failure;
//! use coord_engine::testing::TestKit;
//!
//! const DUNNING: Workflow<u32, String> = Workflow::new("shop.dunning");
//! const REMIND: Activity<u32, bool> = Activity::new("shop.remind");
//! const LAWYER: Activity<u32, ()> = Activity::new("shop.lawyer");
//!
//! async fn dunning(ctx: Context, invoice: u32) -> Result<String, Failure> {
//!     for _ in 0..3 {
//!         if ctx.activity(REMIND, &invoice).await? {
//!             return Ok("paid".to_owned());
//!         }
//!         ctx.sleep(Duration::from_hours(14 * 24)).await?;
//!     }
//!     ctx.activity(LAWYER, &invoice).await?;
//!     Ok("sued".to_owned())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), coord_core::Error> {
//! let kit = TestKit::new().await?;
//! let kit = kit.workflow(DUNNING, dunning).mock(REMIND, |_| Ok(false)).mock(LAWYER, |_| Ok(()));
//! let kit = kit.start();
//!
//! let dunned = kit.begin(DUNNING, "invoice-17", &17).await?;
//! kit.run_ready(10).await?;
//! kit.assert_dispatched_times(REMIND, 1);
//! kit.assert_not_dispatched(LAWYER);
//!
//! kit.pass(Duration::from_hours(90 * 24)).await?;
//! kit.assert_dispatched_times(REMIND, 3);
//! assert_eq!(kit.dispatched(LAWYER), [17]);
//! assert_eq!(kit.ended(&dunned).await?, Ok("sued".to_owned()));
//! # Ok(())
//! # }
//! ```
//!
//! # Golden histories
//! A run that is under way when new code is deployed goes on along its history. [`replay`] checks
//! whether code still follows a history that was taken from production by
//! [`Handle::export`](crate::client::Handle::export); keep the document of one for each way through
//! a workflow. [`replay_with`] does so for an engine that has a [`Codec`](crate::Codec).

mod calls;
mod golden;

use std::collections::HashSet;
use std::time::Duration;

use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::Engine;
use crate::client::{Client, Handle};
use crate::engine::EngineBuilder;
use crate::flow::{Activity, Context, Workflow};
use crate::memory::Memory;
use crate::model::{Failure, Namespace, Queue, TaskKind, TypeName, WorkflowId};
use crate::worker::{Attempt, Worker, WorkerBuilder};

pub use golden::{replay, replay_with};

/// How many rounds of all tasks without a change count as standstill. More than any way from one
/// change to the next; each costs a microsecond.
const ROUNDS: u32 = 300;
/// How long a task that is due may wait for a poller, in milliseconds of virtual time: longer than
/// the longest pause between two looks.
const PATIENCE: u32 = 10_000;
/// How much time passes at a time while somebody works, so that what becomes due meanwhile does so in
/// its order.
const BUSY_STRIDE: Duration = Duration::from_secs(1);
/// How many tasks [`TestKit::pass`] lets happen: what needs more at one instant is a loop.
const MOST_AT_ONCE: usize = 100_000;

/// How long closed runs are kept: a thousand years.
const FOR_EVER: Duration = Duration::from_hours(1000 * 365 * 24);

/// A test kit to be: what is real in it, and what is mocked.
#[must_use = "it is no kit before it is started"]
pub struct TestKitBuilder {
    memory: Memory,
    engine: Engine,
    worker: WorkerBuilder,
    known: HashSet<TypeName>,
    may_fail: bool,
}

/// An engine in memory with its worker. Dropped, it stops.
pub struct TestKit {
    memory: Memory,
    engine: Engine,
    client: Client,
    known: HashSet<TypeName>,
    may_fail: bool,
    _worker: Worker,
}

impl TestKit {
    /// A kit with the defaults of an engine.
    ///
    /// # Errors
    /// None; it is that of an engine.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a kit is told what it has, and then started"
    )]
    pub async fn new() -> Result<TestKitBuilder> {
        Self::with(|engine| engine).await
    }

    /// A kit whose engine is configured by `configure`: other limits, a codec.
    ///
    /// # Errors
    /// None; it is that of an engine.
    pub async fn with(
        configure: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Result<TestKitBuilder> {
        let memory = Memory::new();
        let engine = configure(Engine::builder(memory.clone())).start().await?;
        // A test that lets months pass still wants to see what happened in them.
        let client = engine.client(Namespace::default(), Queue::default());
        client.keep_closed_runs(FOR_EVER).await?;
        let worker = engine.worker(Namespace::default(), Queue::default());
        Ok(TestKitBuilder {
            memory,
            engine,
            worker,
            known: HashSet::new(),
            may_fail: false,
        })
    }
}

impl TestKitBuilder {
    /// The code of `workflow`, under test or as a real child.
    pub fn workflow<I, O, F, R>(mut self, workflow: Workflow<I, O>, code: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, Failure>> + Send + 'static,
    {
        self.known.insert(workflow.name());
        self.worker = self.worker.workflow(workflow, code);
        self
    }

    /// The real code of `activity`.
    pub fn activity<I, O, F, R>(mut self, activity: Activity<I, O>, code: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Attempt, I) -> R + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, Failure>> + Send + 'static,
    {
        self.known.insert(activity.name());
        self.worker = self.worker.activity(activity, code);
        self
    }

    /// What stands for `activity`: called once an attempt, at no cost of time.
    pub fn mock<I, O, F>(self, activity: Activity<I, O>, answer: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(I) -> std::result::Result<O, Failure> + Send + Sync + 'static,
    {
        self.activity(activity, move |_, input| std::future::ready(answer(input)))
    }

    /// Lets workflows fail: a test that is about that looks at how they [end](TestKit::ended).
    /// Default: a workflow that fails, fails the test.
    pub const fn may_fail(mut self) -> Self {
        self.may_fail = true;
        self
    }

    /// The kit, at work.
    pub fn start(self) -> TestKit {
        TestKit {
            client: self.engine.client(Namespace::default(), Queue::default()),
            memory: self.memory,
            engine: self.engine,
            known: self.known,
            may_fail: self.may_fail,
            _worker: self.worker.start(),
        }
    }
}

impl TestKit {
    /// The engine, for what the kit has no word for.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A client of the engine.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Starts `workflow` as `id` with `input`.
    ///
    /// # Errors
    /// `Invalid` when the id is none or is in use, or when the input is too large.
    ///
    /// # Cancel safety
    /// Dropped, it may have been started.
    pub async fn begin<I: Serialize, O: 'static>(
        &self,
        workflow: Workflow<I, O>,
        id: &str,
        input: &I,
    ) -> Result<Handle<O>> {
        let started = self.client.start(workflow, WorkflowId::new(id)?, input);
        Ok(started.await?.handle)
    }

    /// How `workflow` has ended. No time passes.
    ///
    /// # Errors
    /// `Invalid` when it goes on. `Corrupt` when its output is no `O`.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ended<O: DeserializeOwned>(
        &self,
        workflow: &Handle<O>,
    ) -> Result<std::result::Result<O, Failure>> {
        let ended = workflow.result(Duration::ZERO).await?;
        ended.ok_or_else(|| Error::invalid(format!("workflow {} goes on", workflow.id())))
    }

    /// Does everything that is due at this instant and what follows from it, and gives how many
    /// tasks that were. What waits for time to pass waits on.
    ///
    /// # Errors
    /// `Invalid` when more than `limit` tasks are begun, when a workflow panics, diverges from its
    /// history or waits for something that is not of its context, when one that a test or a schedule
    /// has started fails and [none may](TestKitBuilder::may_fail), and when a task is due for which
    /// there is neither code nor a mock.
    ///
    /// # Cancel safety
    /// Dropped, the rest is done later.
    pub async fn run_ready(&self, limit: usize) -> Result<usize> {
        let (mut seen, mut rounds, mut waited) = (0, 0, 0);
        let before = self.memory.look().begun;
        loop {
            let look = self.memory.look();
            let begun = look.begun - before;
            let failed = look.failed.filter(|_| !self.may_fail);
            if let Some(trouble) = look.trouble.or(failed) {
                return Err(Error::invalid(trouble));
            }
            if begun > limit {
                let message = format!("more than {limit} tasks were begun at one instant");
                return Err(Error::invalid(message));
            }
            rounds = if look.changes == seen { rounds + 1 } else { 0 };
            seen = look.changes;
            if rounds < ROUNDS {
                tokio::task::yield_now().await;
                continue;
            }
            let due = look.due.first();
            if let Some(task) = due {
                self.check_known(task)?;
            } else if !look.fires {
                return Ok(begun);
            }
            if waited == PATIENCE {
                let message = match due {
                    Some((queue, _, name)) => {
                        format!("{name} is due, and nobody takes it from queue {queue}")
                    }
                    None => "a schedule is due, and does not fire".to_owned(),
                };
                return Err(Error::invalid(message));
            }
            // Its poller looks again after a pause.
            tokio::time::sleep(Duration::from_millis(1)).await;
            (waited, rounds) = (waited + 1, 0);
        }
    }

    fn check_known(&self, (queue, kind, name): &(Queue, TaskKind, TypeName)) -> Result<()> {
        if *queue == Queue::default() && !self.known.contains(name) {
            let kind = kind.as_str();
            let message = format!("{kind} {name} has neither code nor a mock in this kit");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Lets `span` pass with everything that happens in it: timers, retries, deadlines, leases, and
    /// the occurrences of schedules, each at its instant.
    ///
    /// # Errors
    /// Those of [`run_ready`](Self::run_ready).
    ///
    /// # Panics
    /// When the time of the runtime is not paused.
    ///
    /// # Cancel safety
    /// Dropped, less time has passed.
    pub async fn pass(&self, span: Duration) -> Result<()> {
        let end = Instant::now() + span;
        loop {
            self.run_ready(MOST_AT_ONCE).await?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let look = self.memory.look();
            if look.is_busy {
                tokio::time::sleep(left.min(BUSY_STRIDE)).await;
            } else {
                // Nobody does anything until then but look whether there is anything to do.
                let stride = look.next_due.map_or(left, |due| due.min(left));
                tokio::time::advance(stride).await;
            }
        }
    }
}

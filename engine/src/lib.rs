//! Durable workflows on PostgreSQL, MySQL, MariaDB and SQLite: the database decides.
//!
//! A workflow is an ordinary `async fn` whose steps survive the process that runs them. What it
//! decides and what comes of it stands in a history in the database; a process that goes on with it
//! runs the code again along that history. Activities are the work that it hands out, retried until
//! they succeed or their policy ends; signals, timers and child workflows reach it in an order that
//! the history keeps.
//!
//! # Guarantees
//! - A workflow that was started ends, in one of its ends and in no other, as long as some worker
//!   that knows it reaches the database. What was committed is never decided again.
//! - A result is recorded once. A worker that lost its task, because it was paused, cut off or
//!   declared dead, writes nothing more: every write carries the task's owner and epoch, and the
//!   database compares them in the same transaction.
//! - Signals reach a workflow once a request id and in the order of their commits, also across
//!   [`continue_as_new`](flow::Context::continue_as_new).
//! - A timer's instant is fixed when it is made, on the database's clock. It fires later when
//!   nobody is there, never earlier.
//! - Code that goes another way than its history stops, with both side by side; nothing of the run
//!   is lost, and it goes on when the code is mended.
//! - Hints between processes may be lost: a poller looks by itself every second.
//!
//! It does not hold:
//! - **that an activity or a step runs once.** Its result is recorded once; the work itself may be
//!   done again by another worker when the first was taken for dead. [`worker::Attempt`] has an id
//!   for the execution and a fencing token, for services that can refuse a repetition.
//! - **for code that decides by something that the guard cannot see**, such as a clock or the order
//!   of a hash map: see [`flow`].
//! - **when the database loses what it has confirmed**: after a failover to a replica that lagged,
//!   a run goes on from what the replica knows.
//! - **when the database's clock jumps ahead**: leases and timers end early then.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use coord_engine::flow::{Activity, Context, Signal, Workflow};
//! use coord_engine::model::{Failure, Namespace, Queue, WorkflowId};
//! use coord_engine::{Engine, store::Sqlite, worker::Attempt};
//!
//! const ORDER: Workflow<u32, String> = Workflow::new("shop.order");
//! const CHARGE: Activity<u32, u64> = Activity::new("shop.charge");
//! const PACKED: Signal<String> = Signal::new("packed");
//!
//! async fn order(ctx: Context, cents: u32) -> Result<String, Failure> {
//!     let receipt = ctx.activity(CHARGE, &cents).await?; // any worker, tried again until it succeeds
//!     let by = ctx.signal(PACKED).recv().await?; // days later, after any number of deploys
//!     Ok(format!("receipt {receipt}, packed by {by}"))
//! }
//!
//! async fn charge(attempt: Attempt, cents: u32) -> Result<u64, Failure> {
//!     println!("{cents} cents, once for {}", attempt.execution());
//!     Ok(7)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), coord_core::Error> {
//! let (namespace, queue) = (Namespace::default(), Queue::default());
//! let engine = Engine::start(Sqlite::memory()).await?;
//! let worker = engine.worker(namespace.clone(), queue.clone());
//! let worker = worker.workflow(ORDER, order).activity(CHARGE, charge).start();
//!
//! let client = engine.client(namespace, queue);
//! let order = client.start(ORDER, WorkflowId::new("order-17")?, &995).or_existing().await?.handle;
//! order.signal(PACKED, &"ann".to_owned()).await?;
//! let done = order.result(Duration::from_mins(1)).await?;
//!
//! assert_eq!(done, Some(Ok("receipt 7, packed by ann".to_owned())));
//! worker.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Engine`] | one process of it |
//! | [`client::Client`], [`client::Handle`] | starting workflows, talking to them, waiting for them |
//! | [`client::ScheduleHandle`] | workflows that start again and again, by the clock |
//! | [`worker::WorkerBuilder`], [`worker::Worker`], [`worker::Attempt`] | doing the work |
//! | [`flow`]: [`Context`](flow::Context), [`Workflow`](flow::Workflow), [`Activity`](flow::Activity), [`Signal`](flow::Signal), [`Query`](flow::Query) | writing workflows |
//! | [`EngineBuilder`], [`wake`] | how processes hear of each other's work |
//! | [`EngineConfig`] | an engine as the environment says |
//! | [`Compatibility`] | which builds of a service go on with which runs |
//! | [`Recovery`] | how soon it is noticed that one of them is gone |
//! | [`health`]: [`Report`](health::Report), [`Explanation`](health::Explanation) | what is wrong, and why a run does not move |
//! | [`Refusal`], [`Refusals`] | why tasks that may be claimed are not |
//! | [`doctor`] | what is wrong with what an engine stands on |
//! | [`operator`] | what operators read: counts, ages, rates, and who works |
//! | [`archive`] | histories of closed runs, kept elsewhere |
//! | [`model`], [`transition`] | the data, and its rules: pure |
//! | `testing` | tests of workflows in virtual time, with the feature of that name |
//! | [`store`] | the port to a database, and what it promises |
//!
//! # Transactions
//! | work | transactions |
//! |---|---|
//! | start a workflow | one |
//! | start many, see [`client::Client::start_batch`] | one for all |
//! | start or signal in a transaction of the caller | none of its own |
//! | a local step | one, for its result |
//! | an activity whose run is in memory here | one: its result, what the code decides then, and the lease of the next one |
//! | an activity elsewhere | one for the claim, one for the result, one for the turn |
//! | a signal | one, and a turn |
//!
//! Those of different runs share commits, and turns that have something to read share reads: see the
//! committer and the reader in their sources.

pub mod archive;
mod aside;
mod builds;
pub mod client;
mod clock;
mod committer;
pub mod compatibility;
mod config;
pub mod doctor;
mod engine;
mod fleet;
pub mod flow;
pub mod health;
pub mod limits;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
mod meter;
pub mod model;
mod namespaces;
pub mod news;
mod node;
pub mod operator;
pub mod quotas;
mod reader;
mod recovery;
mod refusals;
mod retention;
mod roles;
mod roster;
mod schedule;
mod signals;
mod stall;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transition;
mod upkeep;
mod values;
pub mod wake;
pub mod worker;

pub use builds::{Blocked, BuildRecord, BuildStatus};
pub use compatibility::Compatibility;
pub use config::{EngineConfig, LogLevel, VARIABLES};
pub use engine::{Engine, EngineBuilder};
pub use limits::Limits;
pub use quotas::{Bound, Quotas};
pub use recovery::Recovery;
pub use refusals::{Refusal, Refusals, Refused};
pub use signals::SIGNALS;
pub use upkeep::Repaired;
pub use values::Codec;

/// The examples of the guide, which run or the tests are red.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/engine.md")]
struct Guide;

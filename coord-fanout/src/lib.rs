//! Fan-out: a cron tick that fires on exactly one instance for each job type and tenant, finds the
//! records that are due, and hands each of them out once through a queue.
//!
//! A [`Ticker`] on every instance runs the same [`Job`]s for the same tenants. At each instant of
//! a job's [`Schedule`] one of them has the tick: it scans, and enqueues one [`Message`] a record
//! under a deduplication id. A [`Consumer`] on every instance handles the messages. There is no
//! leader: ticks are claimed one by one, and an instance that dies in the middle is followed by
//! another for the same instants.
//!
//! # Guarantees
//! - **A tick is scanned at least once.** An instant that has come is run, also when its node dies
//!   or Redis is away, as the [`CatchUp`] policy says; what is given up is reported as
//!   `fanout.tick.missed`.
//! - **By one node at a time.** A tick belongs to whoever holds its scan lease, which is renewed
//!   and fenced: a node that lost it enqueues no further batch, and its finish is refused.
//! - **A record is enqueued once a window.** Its id, `job:org:record`, is the same for every tick
//!   and every repetition of a scan, and the queue suppresses it for its deduplication window. A
//!   job without records has the instant in the id instead: once for good, as long as the window
//!   outlasts the repetition of its scan.
//! - **The server's clock decides.** An instant is due by the time that Redis tells, checked in the
//!   claim. The wall clocks of the instances are never read, so their skew does not matter.
//! - **Shutdown hands over at once**: an unfinished scan is released for the others; the cooldown of
//!   a finished one stays.
//!
//! They do not hold in full:
//! - **After a failover** that loses the end of a tick, or a `FLUSHALL`: instants that were finished
//!   just before may be scanned again. Nodes that remember them restore what was lost; where none
//!   does, deduplication ids make the repetition harmless, if the queue still has them.
//! - **Beyond the window**: a record that is due again later is a new message. That is what a tick
//!   is for; a window longer than the interval suppresses it.
//! - **For a node that was paused**: a batch that was on its way when its lease ended arrives. Its
//!   ids protect the queue; the scan's own writes need the [fencing token](Tick::fence).
//! - **When the server's clock is set back**, ticks rest until it has passed the last one again
//!   (`fanout.tick.ahead`); set forward, they come early.
//!
//! One key for each job and tenant, the last tick, is kept for 400 days, so that a yearly job
//! knows it. All others live as long as a lease, a cooldown, or the record of a lease.
//!
//! # Example
//! ```no_run
//! use coord_core::Name;
//! use coord_fanout::{
//!     Consumer, Delivery, Failure, Job, Message, QueueOptions, Schedule, StreamQueue, Ticker,
//! };
//! use coord_redis::{Config, Redis};
//! use std::sync::Arc;
//!
//! # async fn due_invoices(_: &Name) -> coord_core::Result<Vec<String>> { Ok(Vec::new()) }
//! # async fn customers() -> coord_core::Result<Vec<Name>> { Ok(Vec::new()) }
//! # async fn remind(_: Arc<Delivery>) -> Result<(), Failure> { Ok(()) }
//! # async fn stopped() {}
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?).await?;
//! let queue = StreamQueue::new(&redis, Name::new("reminders")?, QueueOptions::default());
//!
//! let mornings = Schedule::cron("0 9 * * MON-FRI", "Europe/Berlin")?;
//! let job = Job::scan(Name::new("reminders")?, mornings, |tick, records| async move {
//!     for invoice in due_invoices(&tick.org).await? {
//!         records.send(Message::new(Name::new(&invoice)?, invoice)).await?;
//!     }
//!     Ok(())
//! });
//!
//! let ticker = Ticker::new(&redis, queue.clone(), vec![job], customers)?;
//! let consumer = Consumer::new(queue);
//! let ((), consumed) = tokio::join!(ticker.run(stopped()), consumer.run(remind, stopped()));
//! # consumed
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Schedule`], [`TickTime`] | when: a cron expression in a time zone, or an interval |
//! | [`Job`], [`CatchUp`], [`FirstRun`] | what runs then, and what becomes of instants that passed |
//! | [`Tick`], [`Records`] | what a scan gets, and where it puts what it finds |
//! | [`Ticker`] | runs jobs for tenants, on every instance |
//! | [`Queue`], [`Message`], [`Enqueued`] | the port: what every queue does |
//! | [`StreamQueue`], [`QueueOptions`] | the queue on Redis Streams |
//! | `SqsQueue`, `SqsOptions` | the queue on Amazon SQS, with the feature `sqs` |
//! | [`Consumer`], [`Delivery`], [`Failure`] | handles messages, on every instance |
//! | [`Verdict`], [`Settled`], [`Receipt`] | what a consumer tells the queue, and what comes of it |
//! | [`Depth`], [`DeadLetter`] | what is in a queue, and what failed for good |

mod consumer;
mod job;
mod queue;
mod schedule;
mod signals;
#[cfg(feature = "sqs")]
mod sqs;
mod streams;
mod tick;

pub use consumer::{Consumer, Failure};
pub use job::{CatchUp, FirstRun, Job, Records, Tick};
pub use queue::{
    DeadLetter, Delivery, Depth, Enqueued, MAX_BODY_BYTES, MAX_DELAY, Message, Queue, Receipt,
    Settled, Verdict,
};
pub use schedule::{Schedule, TickTime};
pub use signals::SIGNALS;
#[cfg(feature = "sqs")]
pub use sqs::{SqsOptions, SqsQueue};
pub use streams::{QueueOptions, StreamQueue};
pub use tick::Ticker;

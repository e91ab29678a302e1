//! Placeholder.

mod consumer;
mod job;
mod queue;
mod schedule;
mod signals;
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
pub use streams::{QueueOptions, StreamQueue};
pub use tick::Ticker;

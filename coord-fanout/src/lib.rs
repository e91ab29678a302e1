#![allow(dead_code)]
//! Placeholder.

mod job;
mod queue;
mod schedule;
mod signals;
mod tick;

pub use job::{CatchUp, FirstRun, Job, Records, Tick};
pub use queue::{
    DeadLetter, Delivery, Depth, Enqueued, MAX_BODY_BYTES, Message, Queue, Receipt, Settled,
    Verdict,
};
pub use schedule::{Schedule, TickTime};
pub use signals::SIGNALS;
pub use tick::Ticker;

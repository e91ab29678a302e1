//! Placeholder.

mod consumer;
mod queue;
mod signals;
mod streams;

pub use consumer::{Consumer, Failure};
pub use queue::{
    DeadLetter, Delivery, Depth, Enqueued, MAX_BODY_BYTES, MAX_DELAY, Message, Queue, Receipt,
    Settled, Verdict,
};
pub use signals::SIGNALS;
pub use streams::{QueueOptions, StreamQueue};

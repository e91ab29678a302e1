#![allow(dead_code)]
//! Placeholder.

mod queue;
mod schedule;

pub use queue::{
    DeadLetter, Delivery, Depth, Enqueued, MAX_BODY_BYTES, Message, Queue, Receipt, Settled,
    Verdict,
};
pub use schedule::{Schedule, TickTime};

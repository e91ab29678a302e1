//! Placeholder.

mod queue;

pub use queue::{
    DeadLetter, Delivery, Depth, Enqueued, MAX_BODY_BYTES, Message, Queue, Receipt, Settled,
    Verdict,
};

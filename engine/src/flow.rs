//! The code of a workflow: what it may ask for, and how it is run again from its history.
//!
//! A workflow is an ordinary `async fn`. Its [`Context`] hands out futures, each with the number of
//! an operation; the history says how they end. Running the code again on the same history takes it
//! to the same point, provided that it waits for nothing but these futures, and takes time,
//! randomness and values from outside through its context.
//!
//! # What the guard catches
//! - An operation that the history does not have at that number: the run is set aside with both
//!   side by side, and nothing of it is lost.
//! - A wait for anything else, such as a socket or a timer of the runtime: the turn fails, and the
//!   error says after which await.
//! - A panic: the turn fails with its message.
//!
//! It cannot catch code that decides by a clock, a random number, an environment variable or the
//! order of a hash map, and still asks for the same operations.

mod call;
mod code;
mod combine;
mod context;
mod names;
mod script;
mod step;
#[cfg(test)]
mod tests;
mod update;
mod wake;

pub use call::{ActivityCall, ChildCall, SignalCall, SleepCall};
pub(crate) use code::{Code, Ending, Function, Problem, Progress, Running, panic_message};
pub use combine::{Either, join, join_all, select};
pub use context::{Context, Signals};
pub use names::{Activity, Query, Signal, Update, Workflow};
pub use step::StepCall;
pub use update::{Request, UpdateCall, Updates};

use crate::model::{Failure, Payload};

/// The longest encoded value that a workflow may hand to an activity, a child or the next run:
/// what is carried from row to row should be small, and large things have a store of their own.
pub const MAX_PAYLOAD_BYTES: usize = 2 * 1024 * 1024;

/// `value` as a payload; too large a one is a failure that the workflow can see.
pub(crate) fn encode(value: &impl serde::Serialize) -> Result<Payload, Failure> {
    let payload = Payload::json(value).map_err(|error| Failure::from(error).non_retryable())?;
    let length = payload.bytes.len();
    if length > MAX_PAYLOAD_BYTES {
        let message = format!("a payload has {length} bytes, more than {MAX_PAYLOAD_BYTES}");
        return Err(Failure::new(message)
            .of_kind("payload_too_large")
            .non_retryable());
    }
    Ok(payload)
}

/// The value of a payload; one of `()` may be missing.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(
    payload: Option<&Payload>,
) -> Result<T, Failure> {
    let read = match payload {
        Some(payload) => payload.read(),
        None => serde_json::from_str("null").map_err(|error| {
            coord_core::Error::corrupt("reading a missing payload").with_source(error)
        }),
    };
    read.map_err(|error| Failure::from(error).non_retryable())
}

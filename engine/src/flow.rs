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
//! - Code that asks for operations in another order than before, as a walk through a hash map does:
//!   take a `BTreeMap` or a sorted list where the order decides what is asked for.
//!
//! It cannot catch code that decides by a clock, a random number, an environment variable or the
//! order of a hash map, and still asks for the same operations.

mod call;
mod code;
mod combine;
mod condition;
mod context;
mod names;
mod saga;
mod script;
mod step;
#[cfg(test)]
mod tests;
mod update;
mod wake;

pub use call::{ActivityCall, ChildCall, SignalCall, SleepCall};
pub(crate) use code::{
    Code, Ending, Function, Means, Problem, Progress, Running, function, panic_message,
};
pub use combine::{Either, join, join_all, select, select_all};
pub use condition::ConditionCall;
pub use context::{Context, Signals};
pub use names::{Activity, Query, Signal, Update, Workflow};
pub use saga::Saga;
pub use step::StepCall;
pub use update::{Request, UpdateCall, Updates};

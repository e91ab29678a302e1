//! The rules of a run: pure, without clock or I/O.
//!
//! [`RunState`] is what a history means: it is folded from events, one by one. A [`Draft`] is a turn
//! in the making: messages that the run takes, timers that are due and commands that its code gives
//! become events, and with them activities, children and the end of the run. Whoever folds the
//! events of a draft into the state before it gets the state after it.
//!
//! [`schedule`] is the same for schedules: what is due at an instant, and what follows from it.
//!
//! # Rules
//! - An operation has at most one outcome. A result that comes late, twice or for an operation that
//!   nobody knows is dropped.
//! - A run has one last event, and takes nothing after it.
//! - Signals of one name reach the waits for that name in the order in which both came.
//! - A timer's instant is fixed when the timer is made.
//! - A request to end ends every operation that is open at that point, as `cancelled`; operations
//!   made afterwards go on as always, so that code can clean up.

mod command;
mod draft;
pub mod schedule;
mod settle;
mod state;
#[cfg(test)]
mod tests;

pub use command::{ChildCommand, Command, ContinueCommand};
pub use draft::{Draft, Fed, Identity, Strain, cancel_message, closing};
pub use settle::{Verdict, expired, judge};
pub(crate) use state::opens;
pub use state::{Op, Outcome, RunState, Tally};

//! Who may ask for something: the code of the workflow, while it is run, and nobody else.

use std::panic::Location;
use std::thread::{self, ThreadId};

use super::Pages;
use crate::flow::code::Problem;

/// Who runs at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::flow) enum User {
    /// Nobody: what asks now is a task of its own, or the answer to a question.
    Nobody,
    /// The code, on this thread.
    Code(ThreadId),
    /// The work of a local step, which runs within the code and not again along its history.
    Step,
}

impl User {
    /// The code, on the thread that asks.
    pub(in crate::flow) fn code() -> Self {
        Self::Code(thread::current().id())
    }
}

impl Pages {
    /// Whether it is the code that asks, at `place`. If not, its numbers would differ from run to
    /// run, so it must not go on.
    pub(in crate::flow) fn check_use(&mut self, place: &'static Location<'static>) -> bool {
        let who = match self.user {
            User::Code(thread) if thread == thread::current().id() => return true,
            User::Step => "in the work of a local step",
            User::Code(_) | User::Nobody => "outside of the workflow, as in a task of its own",
        };
        self.problem
            .get_or_insert_with(|| Problem::Misused(format!("{who}, at {place}")));
        false
    }
}

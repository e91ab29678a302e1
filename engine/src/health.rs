//! What is wrong, and why a run does not move.
//!
//! [`Engine::health`](crate::Engine::health) checks what the engine stands on.
//! [`Handle::explain`](crate::client::Handle::explain) says of one run what holds it up. Both look
//! at the database alone, so they say the same wherever they are asked.
//!
//! # Categories
//! What is of [`Category::Correctness`] keeps work from being done. What is of
//! [`Category::Acceleration`] makes it slower, and is never more than a warning: hints may fail, and
//! nothing is lost by it.

mod definitions;
mod dispatch;
mod explain;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::model::Timestamp;

pub(crate) use explain::of;
pub use explain::{Explanation, Liveness, Row};
pub(crate) use report::{Alone, Kept, Seen, report};

/// What a check is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Whether work is done, and done right.
    Correctness,
    /// How soon.
    Acceleration,
}

/// What a check found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing.
    Ok,
    /// Something worth knowing, that nobody has to see to.
    Info,
    /// Something that somebody should see to.
    Warning,
    /// Something that keeps work from being done now.
    Error,
}

impl Category {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Acceleration => "acceleration",
        }
    }
}

impl Status {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Check {
    /// Its stable name, such as `task_transport`.
    pub name: &'static str,
    /// What it is about.
    pub category: Category,
    /// What it found.
    pub status: Status,
    /// What it found, for people.
    pub message: String,
    /// What to do about it; empty when there is nothing to do.
    pub remedy: &'static str,
    /// How many there are of what it found.
    pub count: u64,
    /// How long the oldest of them has been so.
    pub age: Duration,
}

/// How an engine and what it stands on are.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The database's clock; `None` when it does not answer.
    pub now: Option<Timestamp>,
    /// What was looked at, in a fixed order. When the database does not answer, what needs it is
    /// not there.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst of all.
    pub fn status(&self) -> Status {
        self.worst(|_| true)
    }

    /// The worst of a category.
    pub fn category(&self, category: Category) -> Status {
        self.worst(|check| check.category == category)
    }

    /// Whether this process can take work on: the database answers, and its schema is the one that
    /// this program brings or a later one that leaves it working. Namespaces need no preparation,
    /// and hints have no say.
    pub fn is_ready(&self) -> bool {
        let gates = [report::DATABASE, report::MIGRATIONS];
        let is_gate = |check: &Check| gates.contains(&check.name);
        self.worst(is_gate) < Status::Error
    }

    /// The check of this name.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    fn worst(&self, of: impl Fn(&Check) -> bool) -> Status {
        let checks = self.checks.iter().filter(|check| of(check));
        let statuses = checks.map(|check| check.status);
        statuses.max().unwrap_or(Status::Ok)
    }
}

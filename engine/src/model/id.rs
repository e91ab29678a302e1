//! What things are called: opaque strings of at most 255 bytes, each sort its own type.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coord_core::{Error, Result};

use super::TaskKind;

/// The longest id in bytes: what an index of every database takes, several of them side by side.
pub const MAX_ID_BYTES: usize = 255;

macro_rules! ids {
    ($($(#[$about:meta])+ $Name:ident: $noun:literal;)+) => {$(
        $(#[$about])+
        ///
        /// Opaque text of 1 to 255 bytes, compared byte by byte. It holds no control characters
        /// and does not end in a space, since databases disagree on whether that space counts.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name(Arc<str>);

        impl $Name {
            /// The id `text`.
            ///
            /// # Errors
            /// `Invalid` when it is empty, too long, holds a control character or ends in a space.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
                let text = text.into();
                match refuse(&text, MAX_ID_BYTES) {
                    None => Ok(Self(text)),
                    Some(why) => Err(Error::invalid(format!(concat!($noun, " {}"), why))),
                }
            }

            /// The id as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, formatter)
            }
        }

        impl TryFrom<&str> for $Name {
            type Error = Error;

            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $Name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// A tenant of the engine: runs, queues and schedules of two namespaces never meet.
    Namespace: "a namespace";
    /// What the caller calls a workflow; unique in its namespace, and kept over continued runs.
    WorkflowId: "a workflow id";
    /// One execution of a workflow; made here.
    RunId: "a run id";
    /// One unit to claim: `run:step`, step 0 for the run's workflow task. An activity keeps its task
    /// over all attempts, so the task's id is also the id of the activity's execution: stable over
    /// retries, safe as an idempotency key.
    TaskId: "a task id";
    /// One try of an activity; made at each claim.
    AttemptId: "an attempt id";
    /// Who leases tasks: one incarnation of a process, or a remote worker by its own name.
    OwnerId: "an owner id";
    /// Where tasks wait for a worker.
    Queue: "a queue";
    /// The stable name of a workflow, activity, signal, query, update, step or schedule.
    TypeName: "a name";
    /// What makes a command of a caller idempotent: the same id is carried out once.
    RequestId: "a request id";
    /// What the caller calls a schedule; unique in its namespace.
    ScheduleId: "a schedule id";
    /// What a node is called where processes are listed; a label, which two may share.
    NodeName: "a node name";
    /// The build of a worker that may continue a run.
    BuildId: "a build id";
    /// What a workflow's code is called that only its like may go on with: the type with the
    /// definition that its worker was registered with, `type@definition`.
    Fingerprint: "a fingerprint";
}

/// Why `text` is no id of at most `longest` bytes.
pub(super) fn refuse(text: &str, longest: usize) -> Option<String> {
    if text.is_empty() {
        return Some("is empty".to_owned());
    }
    if text.len() > longest {
        let length = text.len();
        return Some(format!("has {length} bytes, more than {longest}"));
    }
    if text.chars().any(char::is_control) {
        return Some("holds a control character".to_owned());
    }
    text.ends_with(' ').then(|| "ends in a space".to_owned())
}

/// What a namespace and a queue are called that nobody named.
const DEFAULT: &str = "default";

impl Default for Namespace {
    fn default() -> Self {
        Self(DEFAULT.into())
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self(DEFAULT.into())
    }
}

impl Fingerprint {
    /// That of the type `name` with this `definition`.
    ///
    /// # Errors
    /// `Invalid` when both together are longer than an id may be, or hold what none may; and when the
    /// definition is empty or holds an `@`.
    pub fn of(name: &TypeName, definition: &str) -> Result<Self> {
        if definition.is_empty() || definition.contains('@') {
            return Err(Error::invalid("a definition is empty or holds an @"));
        }
        Self::new(format!("{name}@{definition}"))
    }
}

impl TaskId {
    /// The task of an operation of `run`; step 0 is the run's workflow task.
    ///
    /// Made by rule, so that a run cannot have two workflow tasks, and an activity's execution has
    /// the same id over all its attempts.
    pub fn of(run: &RunId, step: u64) -> Self {
        Self(format!("{run}:{step}").into())
    }

    /// What it is for, as its id says.
    pub(crate) fn kind(&self) -> TaskKind {
        if self.0.ends_with(":0") {
            TaskKind::Workflow
        } else {
            TaskKind::Activity
        }
    }
}

/// Makes ids that nobody else makes.
///
/// An id is the stem of the process, 80 random bits drawn once, and a counter: `4f…a12x3`, where the
/// first digit of the counter says how many follow, so that ids sort by their age. They are short,
/// since each stands in many rows and indexes. No clock is read, and the ids of one process lie
/// beside each other in an index.
#[derive(Debug)]
pub struct Ids {
    stem: Box<str>,
    next: AtomicU64,
}

/// Digits that sort as bytes do; without the letters that are taken for digits.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl Ids {
    /// A source with a stem of its own.
    #[must_use]
    pub fn random() -> Self {
        let stem: u128 = rand::random();
        Self {
            stem: digits(stem, 16).into(),
            next: AtomicU64::new(1),
        }
    }

    /// The part that all ids from here share.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// The id of a new run.
    pub fn run(&self) -> RunId {
        RunId(self.make())
    }

    /// The id of a new incarnation of this process.
    pub fn owner(&self) -> OwnerId {
        OwnerId(self.make())
    }

    /// The id of a new attempt.
    pub fn attempt(&self) -> AttemptId {
        AttemptId(self.make())
    }

    /// An id for a command whose caller gave none.
    pub fn request(&self) -> RequestId {
        RequestId(self.make())
    }

    /// An id for a workflow whose caller gave none.
    pub fn workflow(&self) -> WorkflowId {
        WorkflowId(self.make())
    }

    fn make(&self) -> Arc<str> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let count = number.ilog(32) as usize + 1;
        let length = char::from(DIGITS[count]);
        format!("{}{length}{}", self.stem, digits(u128::from(number), count)).into()
    }
}

fn digits(number: u128, count: usize) -> String {
    let digit = |place| char::from(DIGITS[(number >> (5 * place)) as usize & 31]);
    (0..count).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_an_id_hold() {
        assert!(WorkflowId::new("").is_err());
        assert!(WorkflowId::new("x".repeat(255)).is_ok());
        assert!(WorkflowId::new("x".repeat(256)).is_err());
    }

    #[test]
    fn an_id_that_databases_would_not_tell_apart_from_another_is_refused() {
        assert!(WorkflowId::new("order ").is_err());
        assert!(WorkflowId::new("order\n").is_err());
        assert!(WorkflowId::new("an order").is_ok());
    }

    #[test]
    fn ids_of_one_process_differ_and_sort_by_age() {
        let ids = Ids::random();
        let made: Vec<_> = (0..2000).map(|_| ids.run()).collect();

        let mut sorted = made.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(made, sorted);
    }

    #[test]
    fn two_processes_share_no_stem() {
        assert_ne!(Ids::random().stem(), Ids::random().stem());
    }
}

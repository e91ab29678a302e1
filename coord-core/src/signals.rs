//! The grammar of the observability contract: what a crate may emit, and what operators get of it.
//!
//! A crate writes a plain enum `Signal` (what its code may say) and one row a variant in
//! [`declare!`](crate::declare) (the key, what it means, its kind, level and alarm). Neither
//! compiles without the other. One `emit()` writes both the structured log line and the metric.
//!
//! The enum stays outside the macro on purpose: rustc silences `dead_code` for items that another
//! crate's macro spells, and that lint, denied, is the proof that every declared signal has an
//! emit site.
//!
//! # Example
//! ```
//! # #![deny(dead_code)]
//! use std::time::Duration;
//!
//! /// Why a lock was lost.
//! #[derive(Clone, Copy)]
//! pub(crate) enum Loss { Expired, Taken }
//! coord_core::labels! { Loss { Expired => "expired", Taken => "taken" } }
//!
//! /// Every signal this crate can emit.
//! pub(crate) enum Signal {
//!     Lost { cause: Loss, lock: coord_core::Name },
//!     Wait { elapsed_ms: Duration },
//! }
//! coord_core::declare! { "redis.lock.";
//!     Lost { cause, lock } => "redis.lock.lost", "A held lock expired or was taken.",
//!         Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lock-lost"));
//!     Wait { elapsed_ms } => "redis.lock.wait", "Time from the first attempt to the grant.",
//!         Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
//! }
//!
//! # fn main() -> Result<(), coord_core::Error> {
//! coord_core::signals::register(SIGNALS);
//! let lock = coord_core::Name::new("orders")?;
//! Signal::Lost { cause: Loss::Expired, lock: lock.clone() }.emit();
//! Signal::Lost { cause: Loss::Taken, lock }.emit();
//! Signal::Wait { elapsed_ms: Duration::from_millis(3) }.emit();
//! # Ok(())
//! # }
//! ```
//!
//! # What the compiler holds
//! Every variant has one row and is emitted outside of tests; every row has an alarm, or a reason
//! of some length for having none; a signal at level `Error` has an alarm, and one at level
//! `Debug`, whose lines are off in production, has not; a condition fits its kind of signal; a
//! label has a closed set of values, each of them emitted somewhere.
//!
//! # In a service
//! The log lines are meant for JSON with the fields on top, so that a log filter such as
//! `{ $.key = "redis.lock.lost" }` finds them: `tracing_subscriber::fmt().json().flatten_event(true)`.
//! Durations need [`BUCKETS`] to reach Prometheus as histograms.
//!
//! A service declares its own signals in the same way, and its tests can hold them to the same
//! contract as this workspace: runbook, generated alert rules, and keys that were really seen.
//! That is `check` (see `Contract` for an example), behind the feature `contract`.

mod argument;
#[cfg(feature = "contract")]
mod contract;
mod declare;
mod emit;
mod proof;

pub use argument::{Argument, Detail, Measure};
#[cfg(feature = "contract")]
pub use contract::{Contract, Finding, Observed, Observer, RUNBOOK, check, render, stale};
pub use emit::{BUCKETS, register};

#[doc(hidden)]
pub use crate::{__level as level, __metric as metric};
#[doc(hidden)]
pub use emit::record;
#[doc(hidden)]
pub use proof::{checked, field, metric_length, metric_name, metric_str};

/// One declared signal: everything that operators and the generated files know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// The key, as log lines carry it: `redis.lock.lost`.
    pub key: &'static str,
    /// The metric's name: dots become underscores, with `_total` on a counter and `_seconds` on a
    /// duration.
    pub metric: &'static str,
    /// What happened, in a sentence.
    pub about: &'static str,
    /// Which kind of metric it is.
    pub kind: Kind,
    /// The level of its log line.
    pub level: Level,
    /// The fields of its log line, in order.
    pub fields: &'static [Field],
    /// Who is told, and when; or why nobody is.
    pub alarm: Alarm,
}

/// Which kind of metric a signal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Counts its emits, or adds up its integer field.
    Counter,
    /// Shows the last value of its one integer field.
    Gauge,
    /// A histogram of its one duration field, in seconds.
    Duration,
}

/// The level of a signal's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Every single step; off in production.
    Debug,
    /// Normal, and worth a line.
    Info,
    /// Degraded, and handled.
    Warn,
    /// Somebody must look: always monitored.
    Error,
}

/// One field of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the log line, and the label's name in the metric.
    pub name: &'static str,
    /// What it is, decided by its type.
    pub role: Role,
}

/// What a field is, decided by its type alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A closed set of values: a metric label, exported at zero from the start.
    Label(&'static [&'static str]),
    /// An integer that is counted or shown.
    Amount,
    /// A duration, in milliseconds in the log and seconds in the metric.
    Elapsed,
    /// A name, id or token: in the log only, never a label.
    Detail,
}

/// Who is told of a signal, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// Somebody is woken.
    Page(When, Runbook),
    /// Somebody is woken, and a deploy that trips it is rolled back.
    Rollback(When, Runbook),
    /// Somebody looks in working hours.
    Ticket(When, Runbook),
    /// Nobody is told, for this reason: the alarm that covers it, or why nobody could act.
    Unmonitored(&'static str),
}

/// The condition of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Emitted at least once in the window.
    Any(Window),
    /// Counted more than so often in the window.
    MoreThan(u64, Window),
    /// A gauge that stayed above the value for the whole window.
    Above(u64, Window),
    /// The 99th percentile of a duration above so many milliseconds in the window: one of
    /// [`BUCKETS`] but the last, since a histogram knows nothing between and beyond them.
    Slow(u64, Window),
}

/// The span of time over which a condition is judged, in whole minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    minutes: u32,
}

impl Window {
    /// A window of `minutes`: at least one, and at most a day, beyond which no log alarm of AWS can
    /// look.
    pub const fn minutes(minutes: u32) -> Self {
        assert!(
            minutes >= 1 && minutes <= 24 * 60,
            "a window lasts from a minute to a day"
        );
        Self { minutes }
    }

    /// Its length in minutes.
    pub const fn as_minutes(self) -> u32 {
        self.minutes
    }
}

/// One minute.
pub const ONE_MINUTE: Window = Window::minutes(1);
/// Five minutes: two scrapes and a slow one fit in.
pub const FIVE_MINUTES: Window = Window::minutes(5);
/// Fifteen minutes.
pub const FIFTEEN_MINUTES: Window = Window::minutes(15);

/// The heading in `RUNBOOK.md` that says what to do: users see, first look, remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runbook(pub &'static str);

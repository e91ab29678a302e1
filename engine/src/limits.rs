//! How much a run may have open, and how large things may be.
//!
//! A limit is no wall that a run hits again and again: what exceeds it is refused once, as a failure
//! of the kind [`Failure::LIMIT_EXCEEDED`](crate::model::Failure::LIMIT_EXCEEDED) at the await that
//! asked for it, and that stands in the history. So a run goes the same way again when the limits
//! have changed since.

use coord_core::{Env, Result, Variable};

use crate::model::Failure;

/// The limits of an engine. In each of them 0 stands for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Activities of a run that are open at a time.
    pub pending_activities: u32,
    /// Children of a run that are open at a time.
    pub pending_children: u32,
    /// Timers of a run that are open at a time, those of waits with a timeout among them.
    pub pending_timers: u32,
    /// Signals that a run was sent and has not received, with whatever else waits in its inbox. One
    /// beyond is refused to its sender.
    pub pending_signals: u32,
    /// Updates that a run was sent and has not taken up. One beyond is refused to its sender.
    pub pending_updates: u32,
    /// Operations that the code of a run asks for in one go, without waiting in between.
    pub command_batch: u32,
    /// Bytes of one encoded value.
    pub payload_bytes: u32,
    /// Bytes of a memo as JSON.
    pub memo_bytes: u32,
    /// Bytes of the names and values of a run's search attributes. There are at most 40 KiB in any
    /// case.
    pub attribute_bytes: u32,
    /// Events of one transaction. A longer turn is committed in several; nothing is refused.
    pub transaction_events: u32,
    /// Events of a run. Beyond, every operation is refused; the code can still end, or continue as
    /// new. A run that does neither and goes on asking is terminated after a tenth more, at least a
    /// thousand.
    pub history_events: u32,
    /// Events after which a run is told that it should continue as new.
    pub suggest_events: u32,
    /// Bytes of values in a history after which a run is told that it should continue as new.
    pub suggest_bytes: u32,
    /// Open activities and children at which a run is told that it should continue as new.
    pub suggest_fan_out: u32,
    /// At how many hundredths of a limit it is reported that a run comes near it.
    pub warning_percent: u32,
}

/// One of the [`Limits`] by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Open activities.
    PendingActivities,
    /// Open children.
    PendingChildren,
    /// Open timers.
    PendingTimers,
    /// Signals that nobody has received.
    PendingSignals,
    /// Updates that nobody has taken up.
    PendingUpdates,
    /// Operations in one go.
    CommandBatch,
    /// Bytes of one value.
    PayloadBytes,
    /// Bytes of a memo.
    MemoBytes,
    /// Bytes of search attributes.
    AttributeBytes,
    /// Events of a history.
    HistoryEvents,
}

impl Limit {
    /// How much it is.
    pub const fn of(self, limits: &Limits) -> u32 {
        match self {
            Self::PendingActivities => limits.pending_activities,
            Self::PendingChildren => limits.pending_children,
            Self::PendingTimers => limits.pending_timers,
            Self::PendingSignals => limits.pending_signals,
            Self::PendingUpdates => limits.pending_updates,
            Self::CommandBatch => limits.command_batch,
            Self::PayloadBytes => limits.payload_bytes,
            Self::MemoBytes => limits.memo_bytes,
            Self::AttributeBytes => limits.attribute_bytes,
            Self::HistoryEvents => limits.history_events,
        }
    }

    /// The failure of what exceeds it.
    pub(crate) fn exceeded(self, limits: &Limits) -> Failure {
        let message = format!("more than {} {}", self.of(limits), self.what());
        Failure::new(message)
            .of_kind(Failure::LIMIT_EXCEEDED)
            .non_retryable()
    }

    /// What it counts, for people.
    const fn what(self) -> &'static str {
        match self {
            Self::PendingActivities => "open activities",
            Self::PendingChildren => "open children",
            Self::PendingTimers => "open timers",
            Self::PendingSignals => "signals that were not received",
            Self::PendingUpdates => "updates that were not taken up",
            Self::CommandBatch => "operations in one go",
            Self::PayloadBytes => "bytes in one value",
            Self::MemoBytes => "bytes in a memo",
            Self::AttributeBytes => "bytes in search attributes",
            Self::HistoryEvents => "events of a history",
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending_activities: 2000,
            pending_children: 1000,
            pending_timers: 2000,
            pending_signals: 5000,
            pending_updates: 500,
            command_batch: 1000,
            payload_bytes: 2 * 1024 * 1024,
            memo_bytes: 256 * 1024,
            attribute_bytes: 40 * 1024,
            transaction_events: 5000,
            history_events: 50_000,
            suggest_events: 10_000,
            suggest_bytes: 5 * 1024 * 1024,
            suggest_fan_out: 200,
            warning_percent: 80,
        }
    }
}

impl Limits {
    /// No limit at all, and so no warning.
    pub const NONE: Self = Self {
        pending_activities: 0,
        pending_children: 0,
        pending_timers: 0,
        pending_signals: 0,
        pending_updates: 0,
        command_batch: 0,
        payload_bytes: 0,
        memo_bytes: 0,
        attribute_bytes: 0,
        transaction_events: 0,
        history_events: 0,
        suggest_events: 0,
        suggest_bytes: 0,
        suggest_fan_out: 0,
        warning_percent: 0,
    };

    /// From the environment ([`VARIABLES`](crate::VARIABLES)). Each variable may also be set by the
    /// name that starts with `WORKFLOW_V2_` in place of `DW_V2_`; the new name wins.
    ///
    /// # Errors
    /// `Invalid`, naming the variable, its value and what it must be.
    pub fn from_env(env: &Env) -> Result<Self> {
        let mut limits = Self::default();
        for (variable, field) in NAMED {
            let form = "a whole number, or 0 for no limit";
            if let Some(value) = env.parsed(variable, form)? {
                *field(&mut limits) = value;
            }
        }
        Ok(limits)
    }

    /// Whether `count` of something is more than `limit` allows.
    pub(crate) const fn is_exceeded(limit: u32, count: usize) -> bool {
        limit > 0 && count > limit as usize
    }

    /// Whether `count`, which grows one by one, has just come to where a warning is due.
    pub(crate) fn is_near(&self, limit: u32, count: usize) -> bool {
        self.near(limit) == Some(count)
    }

    /// Whether `count` is where a warning is due, or beyond.
    pub(crate) fn is_beyond_near(&self, limit: u32, count: usize) -> bool {
        self.near(limit).is_some_and(|near| count >= near)
    }

    fn near(&self, limit: u32) -> Option<usize> {
        let near = (u64::from(limit) * u64::from(self.warning_percent)).div_ceil(100);
        usize::try_from(near).ok().filter(|near| *near > 0)
    }
}

/// The environment variables that [`Limits::from_env`] reads.
pub(crate) const VARIABLES: [Variable; NAMED.len()] = variables();

type Field = fn(&mut Limits) -> &mut u32;

macro_rules! named {
    ($($name:literal, $default:literal, $field:ident, $about:literal;)+) => {
        const NAMED: &[(Variable, Field)] = &[$((
            Variable::new(concat!("DW_V2_", $name), $default, $about)
                .or(concat!("WORKFLOW_V2_", $name)),
            |limits| &mut limits.$field,
        ),)+];
    };
}

named! {
    "LIMIT_PENDING_ACTIVITIES", "2000", pending_activities,
        "Activities of a run that are open at a time; one beyond is refused to its workflow. 0: no limit, as in all of these.";
    "LIMIT_PENDING_CHILDREN", "1000", pending_children,
        "Child workflows of a run that are open at a time.";
    "LIMIT_PENDING_TIMERS", "2000", pending_timers,
        "Timers of a run that are open at a time.";
    "LIMIT_PENDING_SIGNALS", "5000", pending_signals,
        "Signals that a run was sent and has not received; one beyond is refused to its sender.";
    "LIMIT_PENDING_UPDATES", "500", pending_updates,
        "Updates that a run was sent and has not taken up; one beyond is refused to its sender.";
    "LIMIT_COMMAND_BATCH_SIZE", "1000", command_batch,
        "Operations that a workflow asks for in one go, without waiting in between.";
    "LIMIT_PAYLOAD_SIZE_BYTES", "2097152", payload_bytes,
        "Bytes of one encoded value: rows should stay small, and large things have a store of their own.";
    "LIMIT_MEMO_SIZE_BYTES", "262144", memo_bytes,
        "Bytes of the memo of a run as JSON; a larger one is refused to who sets it.";
    "LIMIT_SEARCH_ATTRIBUTE_SIZE_BYTES", "40960", attribute_bytes,
        "Bytes of the names and values of a run's search attributes; larger ones are refused to who sets them.";
    "LIMIT_HISTORY_TRANSACTION_SIZE", "5000", transaction_events,
        "Events of one transaction; a longer turn is committed in several.";
    "LIMIT_HISTORY_EVENTS", "50000", history_events,
        "Events of a run; beyond, its workflow may only end or continue as new.";
    "LIMIT_WARNING_THRESHOLD_PERCENT", "80", warning_percent,
        "At how many hundredths of a limit `engine.limit_near` reports a run.";
    "CONTINUE_AS_NEW_EVENT_THRESHOLD", "10000", suggest_events,
        "Events after which a run is told that it should continue as new.";
    "CONTINUE_AS_NEW_SIZE_BYTES_THRESHOLD", "5242880", suggest_bytes,
        "Bytes of values in a history after which a run is told that it should continue as new.";
    "CONTINUE_AS_NEW_FAN_OUT_THRESHOLD", "200", suggest_fan_out,
        "Open activities and children at which a run is told that it should continue as new.";
}

const fn variables() -> [Variable; NAMED.len()] {
    let mut all = [NAMED[0].0; NAMED.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] = NAMED[index].0;
        index += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_documented_is_what_holds() {
        for (variable, field) in NAMED {
            let default = field(&mut Limits::default()).to_string();
            assert_eq!(variable.default, default, "{}", variable.name);
        }
    }

    #[test]
    fn the_new_name_wins_over_the_old_one() {
        let env = Env::from_pairs([
            ("WORKFLOW_V2_LIMIT_PENDING_TIMERS", "7"),
            ("WORKFLOW_V2_LIMIT_PENDING_UPDATES", "8"),
            ("DW_V2_LIMIT_PENDING_UPDATES", "0"),
        ]);

        let limits = Limits::from_env(&env).expect("numbers");

        assert_eq!((limits.pending_timers, limits.pending_updates), (7, 0));
        assert_eq!(limits.pending_signals, 5000);
    }

    #[test]
    fn what_is_no_number_is_named() {
        let env = Env::from_pairs([("DW_V2_LIMIT_PENDING_TIMERS", "many")]);

        let error = Limits::from_env(&env).expect_err("no number");

        assert!(
            error.to_string().contains("DW_V2_LIMIT_PENDING_TIMERS"),
            "{error}"
        );
    }

    #[test]
    fn both_sides_of_a_limit_and_of_its_warning_hold() {
        let limits = Limits::default();

        assert!(!Limits::is_exceeded(10, 10));
        assert!(Limits::is_exceeded(10, 11));
        assert!(!Limits::is_exceeded(0, usize::MAX));
        assert!(!limits.is_near(10, 7));
        assert!(limits.is_near(10, 8));
        assert!(!limits.is_near(10, 9), "it is said once");
        assert!(!limits.is_near(0, 0));
    }
}

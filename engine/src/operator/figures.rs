//! What a process did in the last minute.

use serde::{Deserialize, Serialize};

/// Where half and nearly all of some spans end, in milliseconds: bounds of buckets, each about twice
/// the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// How many spans there were.
    pub count: u64,
    /// Half of them were no longer than this.
    pub p50_ms: u64,
    /// All but one in a hundred were no longer than this.
    pub p99_ms: u64,
}

/// The connections of a process to its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Those that are open.
    pub open: u32,
    /// Those of them that nobody uses.
    pub idle: u32,
    /// How many there may be.
    pub most: u32,
}

macro_rules! counted {
    ($($(#[$about:meta])+ $name:ident)+) => {
        /// What a process did in the last minute, as it writes it beside its heartbeat; or what all
        /// processes did, see [`Figures::of_all`].
        ///
        /// A version reads what another one wrote: what it does not know is zero.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct Figures {
            /// Over how long, in milliseconds: a minute, and less soon after the start.
            pub span_ms: u64,
            $($(#[$about])+ pub $name: u64,)+
            /// From when a task could be claimed to its claim.
            pub pickup: Quantiles,
            /// Calls of the database.
            pub calls: Quantiles,
            /// Transactions of the committer.
            pub commits: Quantiles,
            /// Connections to the database now.
            pub connections: Connections,
        }

        impl Figures {
            /// Both together: counts add up, and of quantiles the longer ones stay, since those of
            /// two processes cannot be joined.
            fn and(mut self, other: &Self) -> Self {
                self.span_ms = self.span_ms.max(other.span_ms);
                $(self.$name += other.$name;)+
                self.pickup = self.pickup.and(other.pickup);
                self.calls = self.calls.and(other.calls);
                self.commits = self.commits.and(other.commits);
                self.connections = self.connections.and(other.connections);
                self
            }
        }

        /// What is counted since the start of the process.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: std::sync::atomic::AtomicU64,)+
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)+ }
            }
        }

        /// What was counted at an instant.
        #[derive(Clone, Copy, Default)]
        pub(crate) struct Counts {
            $($name: u64,)+
        }

        impl Counts {
            /// What was counted since `before`.
            pub(crate) fn since(&self, before: &Self) -> Figures {
                Figures { $($name: self.$name - before.$name,)+ ..Figures::default() }
            }
        }
    };
}

counted! {
    /// Workflow tasks that were claimed by a look.
    workflow_tasks_claimed
    /// Activity tasks that were claimed by a look.
    activity_tasks_claimed
    /// Tasks that were leased along with the write that made them.
    tasks_taken_along
    /// Tasks that were made to be claimed.
    tasks_added
    /// Turns of workflows that ended.
    workflow_tasks_done
    /// Activities that ended, whatever their end.
    activity_tasks_done
    /// Attempts of activities that failed and are made again.
    attempts_failed
    /// Runs that were started.
    runs_started
    /// Runs that were closed.
    runs_closed
    /// Looks for tasks that a hint asked for.
    looks_by_hint
    /// Those of them that found some.
    looks_by_hint_with_work
    /// Claims of tasks that were handed over.
    looks_by_hand
    /// Those of them that got some.
    looks_by_hand_with_work
    /// Looks at an instant at which a task was known to be due.
    looks_by_due
    /// Those of them that found some.
    looks_by_due_with_work
    /// Looks because it was time.
    looks_by_time
    /// Those of them that found some.
    looks_by_time_with_work
    /// Turns whose run was in memory.
    run_cache_hits
    /// Turns whose run had to be read.
    run_cache_misses
    /// Writes that were refused since their task was somebody else's.
    writes_lost
    /// Calls of the database that failed.
    calls_failed
    /// Tasks that this process took back for all.
    tasks_recovered
}

impl Figures {
    /// What all of `each` did together.
    pub fn of_all<'a>(each: impl IntoIterator<Item = &'a Self>) -> Self {
        each.into_iter().fold(Self::default(), Self::and)
    }
}

impl Quantiles {
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            p50_ms: self.p50_ms.max(other.p50_ms),
            p99_ms: self.p99_ms.max(other.p99_ms),
        }
    }
}

impl Connections {
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            open: self.open + other.open,
            idle: self.idle + other.idle,
            most: self.most + other.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_version_wrote_is_read_as_far_as_it_is_known() {
        let written = r#"{"runs_started":3,"of_later":7,"pickup":{"p99_ms":5}}"#;

        let read: Figures = serde_json::from_str(written).expect("figures");

        assert_eq!(read.runs_started, 3);
        assert_eq!((read.pickup.p99_ms, read.runs_closed), (5, 0));
    }

    #[test]
    fn counts_of_processes_add_up_and_the_slowest_is_shown() {
        let one = Figures {
            span_ms: 60_000,
            runs_started: 3,
            pickup: Quantiles {
                count: 2,
                p50_ms: 5,
                p99_ms: 10,
            },
            ..Figures::default()
        };
        let other = Figures {
            span_ms: 20_000,
            runs_started: 4,
            pickup: Quantiles {
                count: 1,
                p50_ms: 1,
                p99_ms: 50,
            },
            ..Figures::default()
        };

        let all = Figures::of_all([&one, &other]);

        assert_eq!((all.span_ms, all.runs_started), (60_000, 7));
        let pickup = Quantiles {
            count: 3,
            p50_ms: 5,
            p99_ms: 50,
        };
        assert_eq!(all.pickup, pickup);
    }
}

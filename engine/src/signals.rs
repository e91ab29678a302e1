//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;

use crate::model::{AttemptEnd, TaskKind};
use crate::store::BlockedReason;

/// Why a turn of a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnFault {
    /// The code panicked.
    Panicked,
    /// The code waits for something that is not of its context.
    Foreign,
    /// This worker does not know the workflow, or its history does not read.
    Unreadable,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Another one.
    Retry,
    /// The end of the activity.
    End,
}

coord_core::labels! { TurnFault {
    Panicked => "panicked", Foreign => "foreign_await", Unreadable => "unreadable",
} }
coord_core::labels! { Follows { Retry => "retry", End => "end" } }
coord_core::labels! { BlockedReason { Replay => "replay", Poison => "poison" } }
coord_core::labels! { TaskKind { Workflow => "workflow", Activity => "activity" } }
coord_core::labels! { AttemptEnd { Failed => "failed", TimedOut => "timed_out" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    RunBlocked {
        reason: BlockedReason,
        run: Detail,
        error: Detail,
    },
    TurnFailed {
        fault: TurnFault,
        run: Detail,
        error: Detail,
    },
    AttemptEnded {
        end: AttemptEnd,
        follows: Follows,
        task: Detail,
        error: Detail,
    },
    LeaseLost {
        kind: TaskKind,
        task: Detail,
    },
    TasksRecovered {
        tasks: u64,
    },
    StoreFailed {
        error: Detail,
    },
    Commit {
        elapsed_ms: Duration,
    },
    Turn {
        elapsed_ms: Duration,
    },
}

coord_core::declare! { "engine.";
    RunBlocked { reason, run, error } => "engine.run_blocked",
        "A run was set aside: its code and its history differ, or it took processes down.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("engine-run-blocked"));
    TurnFailed { fault, run, error } => "engine.turn_failed",
        "A turn of a run failed and will be tried again; the run stands until the code is mended.",
        Counter, Error, Rollback(MoreThan(3, FIFTEEN_MINUTES), Runbook("engine-turn-failed"));
    AttemptEnded { end, follows, task, error } => "engine.attempt_failed",
        "An attempt of an activity did not succeed.",
        Counter, Warn, Unmonitored("its workflow sees the last one as a failure, and which failure is an incident only the workflow knows");
    LeaseLost { kind, task } => "engine.lease_lost",
        "A task was somebody else's when its owner wrote: the write was refused, the work is repeated.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("engine-lease-lost"));
    TasksRecovered { tasks } => "engine.tasks_recovered",
        "Tasks were taken back from owners that were gone, or that held them for too long.",
        Counter, Warn, Unmonitored("recovery that works; what it cannot recover is set aside as engine.run_blocked");
    StoreFailed { error } => "engine.store_failed",
        "A call of the database failed, and is tried again.",
        Counter, Error, Page(MoreThan(20, FIVE_MINUTES), Runbook("engine-store-failed"));
    Commit { elapsed_ms } => "engine.commit",
        "Time of one transaction of the committer.",
        Duration, Debug, Unmonitored("slow commits are felt as slow turns, and the database has alarms of its own");
    Turn { elapsed_ms } => "engine.turn",
        "Time from the claim of a workflow task to its last commit.",
        Duration, Debug, Unmonitored("how long a turn takes depends on its local steps; a stuck one is taken back and counted as recovered");
}

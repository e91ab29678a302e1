//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;

use crate::limits::Limit;
use crate::model::{AttemptEnd, Cause, TaskKind};
use crate::store::{BlockedReason, Role};
use crate::wake;

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

/// What ended a wait for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbedBy {
    /// A hint, or the instant of which one told.
    Hint,
    /// A task that was known to be due later.
    Due,
    /// The time after which a look needs no reason.
    Time,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Tasks.
    Work,
    /// None.
    Nothing,
}

coord_core::labels! { ProbedBy { Hint => "hint", Due => "due", Time => "time" } }
coord_core::labels! { Found { Work => "work", Nothing => "nothing" } }
coord_core::labels! { TurnFault {
    Panicked => "panicked", Foreign => "foreign_await", Unreadable => "unreadable",
} }
coord_core::labels! { Limit {
    PendingActivities => "pending_activities", PendingChildren => "pending_children",
    PendingTimers => "pending_timers", PendingSignals => "pending_signals",
    PendingUpdates => "pending_updates", CommandBatch => "command_batch",
    PayloadBytes => "payload_bytes", MemoBytes => "memo_bytes",
    AttributeBytes => "search_attribute_bytes", HistoryEvents => "history_events",
} }
coord_core::labels! { Follows { Retry => "retry", End => "end" } }
coord_core::labels! { BlockedReason {
    Replay => "replay", Poison => "poison", Imported => "imported",
} }
coord_core::labels! { TaskKind { Workflow => "workflow", Activity => "activity" } }
coord_core::labels! { Cause {
    Schedule => "schedule", Trigger => "trigger", Backfill => "backfill",
} }
coord_core::labels! { Role {
    Recovery => "recovery", Scheduler => "scheduler", Retention => "retention",
} }
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
    RunRepaired {
        run: Detail,
    },
    RoleVacant {
        role: Role,
        age_s: u64,
    },
    RuntimeStalled {
        age_s: u64,
    },
    LimitNear {
        limit: Limit,
        about: Detail,
    },
    LimitExceeded {
        limit: Limit,
        about: Detail,
    },
    StoreFailed {
        error: Detail,
    },
    WakeLost {
        backend: wake::Kind,
        error: Detail,
    },
    WakeRestored {
        backend: wake::Kind,
    },
    WakeLostAge {
        backend: wake::Kind,
        age_s: u64,
    },
    WakeTried {
        backend: wake::Kind,
        elapsed_ms: Duration,
    },
    Probe {
        by: ProbedBy,
        found: Found,
    },
    Commit {
        elapsed_ms: Duration,
    },
    Turn {
        elapsed_ms: Duration,
    },
    ScheduleFired {
        cause: Cause,
        schedule: Detail,
    },
    ScheduleMissed {
        occurrences: u64,
        schedule: Detail,
    },
    ScheduleSkipped {
        occurrences: u64,
        schedule: Detail,
    },
    ScheduleFailed {
        schedule: Detail,
        namespace: Detail,
        error: Detail,
    },
    ScheduleOverdue {
        age_s: u64,
    },
    UnknownVariable {
        variable: Detail,
    },
    WithoutEffect {
        variable: Detail,
        reason: Detail,
    },
    NodesAlone {
        drivers: Detail,
    },
    CompatibilityBlocked {
        runs: u64,
    },
    CompatibilityBlockedAge {
        age_s: u64,
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
    RunRepaired { run } => "engine.run_repaired",
        "An open run had lost its workflow task, and got a new one: a row was removed behind the engine's back.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-run-repaired"));
    RoleVacant { role, age_s } => "engine.role_vacant",
        "How long nobody has held a role that somebody has to hold, in seconds, as this process sees it; zero when it is held.",
        Gauge, Warn, Page(Above(60, FIVE_MINUTES), Runbook("engine-role-vacant"));
    RuntimeStalled { age_s } => "engine.runtime_stalled",
        "How long the runtime of this process has not run its tasks, in seconds; zero when it does. It shows that it lives and keeps its leases meanwhile.",
        Gauge, Warn, Page(Above(30, FIVE_MINUTES), Runbook("engine-runtime-stalled"));
    LimitNear { limit, about } => "engine.limit_near",
        "A run comes near one of its limits.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("engine-limit"));
    LimitExceeded { limit, about } => "engine.limit_exceeded",
        "A run asked for more than a limit allows, and was refused: its workflow sees a failure.",
        Counter, Error, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-limit"));
    StoreFailed { error } => "engine.store_failed",
        "A call of the database failed, and is tried again.",
        Counter, Error, Page(MoreThan(20, FIVE_MINUTES), Runbook("engine-store-failed"));
    WakeLost { backend, error } => "engine.wake.lost",
        "Hints no longer pass between processes: each looks for the others' work once a second.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-wake-lost"));
    WakeRestored { backend } => "engine.wake.restored",
        "Hints pass between processes, for the first time or again.",
        Counter, Info, Unmonitored("the good news after engine.wake.lost");
    WakeLostAge { backend, age_s } => "engine.wake.lost_age",
        "How long hints have not passed through what is to carry them, in seconds; zero when they do.",
        Gauge, Warn, Ticket(Above(60, FIVE_MINUTES), Runbook("engine-wake-lost"));
    WakeTried { backend, elapsed_ms } => "engine.wake.tried",
        "Time from sending a hint of a process to its coming back to it.",
        Duration, Debug, Unmonitored("one that does not come back is counted as engine.wake.lost");
    Probe { by, found } => "engine.wake.probe",
        "A look for due tasks after a wait: what ended the wait, and whether there were any.",
        Counter, Debug, Unmonitored("how many looks were worth it and how many tasks no hint told of: for tuning");
    Commit { elapsed_ms } => "engine.commit",
        "Time of one transaction of the committer.",
        Duration, Debug, Unmonitored("slow commits are felt as slow turns, and the database has alarms of its own");
    Turn { elapsed_ms } => "engine.turn",
        "Time from the claim of a workflow task to its last commit.",
        Duration, Debug, Unmonitored("how long a turn takes depends on its local steps; a stuck one is taken back and counted as recovered");
    ScheduleFired { cause, schedule } => "engine.schedule.fired",
        "A schedule started a workflow.",
        Counter, Info, Unmonitored("schedules at work; what does not fire is engine.schedule.overdue, missed or failed");
    ScheduleMissed { occurrences, schedule } => "engine.schedule.missed",
        "Occurrences of a schedule did not fire: they were found later than its catch-up window allows.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-schedule-missed"));
    ScheduleSkipped { occurrences, schedule } => "engine.schedule.skipped",
        "Occurrences of a schedule did not fire: workflows that it had started were still open.",
        Counter, Info, Unmonitored("the policy that the schedule was given; whether that is an incident only its owner knows");
    ScheduleFailed { schedule, namespace, error } => "engine.schedule.failed",
        "What is due of a schedule could not be decided or started, and is tried again.",
        Counter, Error, Page(MoreThan(10, FIVE_MINUTES), Runbook("engine-schedule-failed"));
    ScheduleOverdue { age_s } => "engine.schedule.overdue",
        "How long the longest overdue occurrence has been due, in seconds; zero when none is by more than five.",
        Gauge, Warn, Page(Above(60, FIVE_MINUTES), Runbook("engine-schedule-overdue"));
    UnknownVariable { variable } => "engine.config.unknown_variable",
        "An environment variable has a prefix of the engine, but nobody reads it: a misspelt name.",
        Counter, Warn, Unmonitored("seen in the log at start by whoever changes the setting; nothing pages");
    WithoutEffect { variable, reason } => "engine.config.without_effect",
        "An environment variable is set that has no effect here.",
        Counter, Warn, Unmonitored("seen in the log at start by whoever changes the setting; nothing pages");
    NodesAlone { drivers } => "engine.config.nodes_alone",
        "Several nodes are to work together, and nothing that was set carries hints between them.",
        Counter, Warn, Unmonitored("hints save a second at most; seen in the log at start by whoever set it so");
    CompatibilityBlocked { runs } => "engine.compatibility.blocked",
        "How many runs have something to do and wait for a worker that supports their build.",
        Gauge, Warn, Unmonitored("some wait during every deploy; for how long is engine.compatibility.blocked_age");
    CompatibilityBlockedAge { age_s } => "engine.compatibility.blocked_age",
        "How long the first of them has waited for such a worker, in seconds; zero when none does.",
        Gauge, Warn, Page(Above(300, FIVE_MINUTES), Runbook("engine-compatibility-blocked"));
}

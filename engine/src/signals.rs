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
    /// A task that was handed over.
    Handed,
    /// A task that was known to be due later.
    Due,
    /// The time after which a look needs no reason.
    Time,
}

/// What a process asks of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// To carry out writes.
    Apply,
    /// Due tasks.
    Claim,
    /// Runs with their history.
    Load,
    /// More time for what it has.
    Renew,
    /// What nobody works on any more.
    Sweep,
    /// To be seen as alive.
    Heartbeat,
    /// What stands where.
    Census,
    /// What people want to know.
    Read,
    /// The rest.
    Other,
}

/// How a task was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By a look.
    Polled,
    /// By the write that made it.
    TakenAlong,
}

/// Whether a run was in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    /// It was.
    Hit,
    /// Its history was read.
    Miss,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its output.
    Completed,
    /// With a failure.
    Failed,
    /// As it was asked to.
    Cancelled,
    /// From outside.
    Terminated,
    /// Its time was over.
    TimedOut,
    /// As another run.
    ContinuedAsNew,
}

/// Whether a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is.
    Busy,
    /// It waits for a call.
    Idle,
}

/// Why a task was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenBack {
    /// Its owner was gone.
    OwnerGone,
    /// Its owner lives, and let its lease end.
    LeaseEnded,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Tasks.
    Work,
    /// None.
    Nothing,
}

coord_core::labels! { ProbedBy {
    Hint => "hint", Handed => "handed", Due => "due", Time => "time",
} }
coord_core::labels! { Found { Work => "work", Nothing => "nothing" } }
coord_core::labels! { Call {
    Apply => "apply", Claim => "claim", Load => "load", Renew => "renew", Sweep => "sweep",
    Heartbeat => "heartbeat", Census => "census", Read => "read", Other => "other",
} }
coord_core::labels! { How { Polled => "polled", TakenAlong => "taken_along" } }
coord_core::labels! { Cached { Hit => "hit", Miss => "miss" } }
coord_core::labels! { Ended {
    Completed => "completed", Failed => "failed", Cancelled => "cancelled",
    Terminated => "terminated", TimedOut => "timed_out", ContinuedAsNew => "continued_as_new",
} }
coord_core::labels! { Use { Busy => "busy", Idle => "idle" } }
coord_core::labels! { TakenBack { OwnerGone => "owner_gone", LeaseEnded => "lease_ended" } }
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
        reason: TakenBack,
        tasks: u64,
    },
    DeathFound {
        silent_ms: Duration,
        process: Detail,
    },
    DeclaredDead {
        process: Detail,
    },
    RunRepaired {
        lost: TaskKind,
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
    StoreCalled {
        call: Call,
        elapsed_ms: Duration,
    },
    StoreContended {
        error: Detail,
    },
    Connections {
        state: Use,
        connections: u64,
    },
    TasksClaimed {
        kind: TaskKind,
        how: How,
        tasks: u64,
    },
    PickedUp {
        kind: TaskKind,
        waited_ms: Duration,
    },
    TasksDone {
        kind: TaskKind,
        tasks: u64,
    },
    RunsStarted {
        runs: u64,
    },
    RunsClosed {
        how: Ended,
        runs: u64,
    },
    RunRead {
        cached: Cached,
    },
    RunsArchived {
        runs: u64,
    },
    ArchiveFailed {
        run: Detail,
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
    TasksHanded {
        kind: TaskKind,
        tasks: u64,
    },
    DispatchLost {
        error: Detail,
    },
    DispatchRestored {},
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
    TasksRecovered { reason, tasks } => "engine.tasks_recovered",
        "Tasks were taken back from owners that were gone, or that held them for too long.",
        Counter, Warn, Unmonitored("recovery that works; what it cannot recover is set aside as engine.run_blocked");
    DeathFound { silent_ms, process } => "engine.death_found",
        "A process was declared dead: how long after its last sign of life.",
        Duration, Warn, Unmonitored("recovery that works; how long it takes follows from the times that were set, and a role that nobody holds is engine.role_vacant");
    DeclaredDead { process } => "engine.declared_dead",
        "This process was declared dead, and lives: it lost what it had, and goes on under another name.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-declared-dead"));
    RunRepaired { lost, run } => "engine.run_repaired",
        "An open run had lost its workflow task or an activity's, and got a new one: a row was removed behind the engine's back.",
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
    StoreCalled { call, elapsed_ms } => "engine.store.called",
        "Time of one call of the database, with its tries.",
        Duration, Debug, Unmonitored("what a service feels of it is engine.task.picked_up and engine.commit, and databases have alarms of their own");
    StoreContended { error } => "engine.store.contended",
        "The database ended a transaction to resolve a deadlock or a conflict; it is tried again.",
        Counter, Info, Ticket(MoreThan(500, FIFTEEN_MINUTES), Runbook("engine-store-contended"));
    Connections { state, connections } => "engine.store.connections",
        "How many connections this process has to its database, as of its last heartbeat.",
        Gauge, Debug, Unmonitored("a pool that is used up shows as engine.store_failed, whose alarm pages");
    TasksClaimed { kind, how, tasks } => "engine.task.claimed",
        "Tasks were claimed by a look, or along with the write that made them.",
        Counter, Debug, Unmonitored("work being done; what nobody claims is engine.task.picked_up and the check task_transport");
    PickedUp { kind, waited_ms } => "engine.task.picked_up",
        "Time from when a task could be claimed to its claim.",
        Duration, Debug, Unmonitored("how soon work must begin only its owner knows; a queue that nobody serves is the check routing_health");
    TasksDone { kind, tasks } => "engine.task.done",
        "Turns of workflows and activities that ended.",
        Counter, Debug, Unmonitored("work being done; what fails is engine.turn_failed and engine.attempt_failed");
    RunsStarted { runs } => "engine.run.started",
        "Runs were started by this process.",
        Counter, Debug, Unmonitored("work coming in; how much is normal only the service knows");
    RunsClosed { how, runs } => "engine.run.closed",
        "Runs were closed by this process.",
        Counter, Debug, Unmonitored("how a run may end only its owner knows");
    RunRead { cached } => "engine.run.read",
        "A turn began with its run in memory, or with reading its history.",
        Counter, Debug, Unmonitored("for tuning: a run that is not in memory costs a read");
    RunsArchived { runs } => "engine.archive.done",
        "Histories of closed runs were handed over and removed here.",
        Counter, Info, Unmonitored("archives at work; what does not is engine.archive.failed");
    ArchiveFailed { run, error } => "engine.archive.failed",
        "The history of a closed run was not taken, so it stays here.",
        Counter, Error, Ticket(MoreThan(3, FIFTEEN_MINUTES), Runbook("engine-archive-failed"));
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
    TasksHanded { kind, tasks } => "engine.dispatch.handed",
        "Tasks were handed over to those who wait for them.",
        Counter, Debug, Unmonitored("work being handed out; what is not is engine.dispatch.lost, and what nobody takes engine.task.picked_up");
    DispatchLost { error } => "engine.dispatch.lost",
        "Tasks are no longer handed over: workers look for them as without that, once a second or when a hint tells them.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("engine-dispatch-lost"));
    DispatchRestored {} => "engine.dispatch.restored",
        "Tasks are handed over, for the first time or again.",
        Counter, Info, Unmonitored("the good news after engine.dispatch.lost");
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

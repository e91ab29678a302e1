//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{FencingToken, Name};

/// How a node learned that a tick is no longer its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its scan lease ended, or was taken.
    Lease,
    /// Redis refused to let it finish the tick.
    Refused,
    /// Redis did not answer until the lease was over.
    Unanswered,
}
coord_core::labels! { Loss { Lease => "lease", Refused => "refused", Unanswered => "unanswered" } }

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The handler said so.
    Refused,
    /// The handler panicked.
    Panicked,
}
coord_core::labels! { Fault { Refused => "refused", Panicked => "panicked" } }

/// Why a message was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Burial {
    /// Its last attempt failed.
    Exhausted,
    /// Its consumers vanished, or held it until its visibility ended, as often as it may be tried.
    Abandoned,
    /// The handler said that it can never be handled.
    Rejected,
    /// It is no message of this crate.
    Foreign,
}
coord_core::labels! { Burial {
    Exhausted => "exhausted", Abandoned => "abandoned", Rejected => "rejected", Foreign => "foreign",
} }

/// Where a message of a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Waiting,
    Delayed,
    InFlight,
    Dead,
}
coord_core::labels! { Place {
    Ready => "ready", Waiting => "waiting", Delayed => "delayed", InFlight => "in_flight",
    Dead => "dead",
} }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    TickFired {
        late_ms: Duration,
        job_type: Name,
        org: Name,
        instant: Detail,
        fence: FencingToken,
    },
    TickFinished {
        elapsed_ms: Duration,
        job_type: Name,
        org: Name,
        instant: Detail,
        added: Detail,
    },
    TickSuppressed {
        records: u64,
        job_type: Name,
        org: Name,
    },
    TickMissed {
        instants: u64,
        job_type: Name,
        org: Name,
    },
    TickCoalesced {
        instants: u64,
        job_type: Name,
        org: Name,
    },
    TickContended {
        job_type: Name,
        org: Name,
    },
    TickLost {
        cause: Loss,
        job_type: Name,
        org: Name,
        error: Detail,
    },
    TickScanFailed {
        job_type: Name,
        org: Name,
        error: Detail,
    },
    TickReleased {
        job_type: Name,
        org: Name,
    },
    TickClaimFailed {
        tenants: u64,
        error: Detail,
    },
    TickForeign {
        job_type: Name,
        org: Name,
    },
    TickAhead {
        ahead_ms: Duration,
        job_type: Name,
        org: Name,
    },
    TickOrgsFailed {
        error: Detail,
    },
    QueueDuplicate {
        messages: u64,
        queue: Name,
    },
    QueueFull {
        queue: Name,
        open: Detail,
    },
    QueueReclaimed {
        messages: u64,
        queue: Name,
    },
    QueueDeadLettered {
        cause: Burial,
        queue: Name,
        id: Detail,
        reason: Detail,
    },
    QueueDeadDropped {
        messages: u64,
        queue: Name,
    },
    QueueReplayed {
        messages: u64,
        queue: Name,
    },
    QueueHandled {
        elapsed_ms: Duration,
        queue: Name,
    },
    QueueFailed {
        cause: Fault,
        queue: Name,
        id: Name,
        error: Detail,
    },
    QueueLost {
        queue: Name,
        id: Name,
    },
    QueueUnsettled {
        messages: u64,
        queue: Name,
        error: Detail,
    },
    QueueReleased {
        messages: u64,
        queue: Name,
    },
    QueueReceiveFailed {
        queue: Name,
        error: Detail,
    },
    QueueDepth {
        place: Place,
        messages: u64,
        queue: Name,
    },
    QueueLag {
        lag_ms: Duration,
        queue: Name,
    },
}

coord_core::declare! { "fanout.";
    TickFired { late_ms, job_type, org, instant, fence } => "fanout.tick.fired",
        "A tick of a job and tenant began on this node, so long after its instant.",
        Duration, Info, Ticket(Slow(60_000, FIFTEEN_MINUTES), Runbook("tick-late"));
    TickFinished { elapsed_ms, job_type, org, instant, added } => "fanout.tick.finished",
        "A tick is done: its records are in the queue, after so long a scan.",
        Duration, Info, Unmonitored("the normal end; a scan that gets too slow shows in fanout.tick.fired as lateness");
    TickSuppressed { records, job_type, org } => "fanout.tick.suppressed",
        "So many records of a scan were in the queue already, within its deduplication window.",
        Counter, Info, Unmonitored("what the window is for: a repeated scan, or a record that is due at every tick");
    TickMissed { instants, job_type, org } => "fanout.tick.missed",
        "So many instants of a job and tenant did not run and will not: too late, or too many.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("tick-missed"));
    TickCoalesced { instants, job_type, org } => "fanout.tick.coalesced",
        "So many instants were late and are covered by the run of a later one, as the job asks for.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("tick-late"));
    TickContended { job_type, org } => "fanout.tick.contended",
        "A due tick was found with another node.",
        Counter, Debug, Unmonitored("normal wherever several nodes run the same jobs: one has the tick, the others find it so");
    TickLost { cause, job_type, org, error } => "fanout.tick.lost",
        "A node lost a tick before it was done; another one scans it again.",
        Counter, Warn, Ticket(MoreThan(5, FIFTEEN_MINUTES), Runbook("tick-lost"));
    TickScanFailed { job_type, org, error } => "fanout.tick.scan_failed",
        "A scan ended with an error, a panic or at its limit; the tick is tried again after a pause.",
        Counter, Error, Page(MoreThan(5, FIFTEEN_MINUTES), Runbook("tick-scan-failed"));
    TickReleased { job_type, org } => "fanout.tick.released",
        "A node that shuts down gave up a scan, for another node to do.",
        Counter, Info, Unmonitored("part of every deployment; a tick that nobody takes up shows as late or missed");
    TickClaimFailed { tenants, error } => "fanout.tick.claim_failed",
        "A claim for so many tenants got no answer or an error; it is repeated.",
        Counter, Warn, Unmonitored("redis.connection.failed and redis.command.refused page; ticks that fall behind show as late or missed");
    TickForeign { job_type, org } => "fanout.tick.foreign",
        "Something that is no state of a tick is stored in its place; the job does not run for this tenant.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("tick-foreign"));
    TickAhead { ahead_ms, job_type, org } => "fanout.tick.ahead",
        "The last tick lies in the future of the server's clock, by so much: it was set back.",
        Duration, Warn, Ticket(Slow(60_000, FIFTEEN_MINUTES), Runbook("tick-ahead"));
    TickOrgsFailed { error } => "fanout.tick.orgs_failed",
        "The list of tenants could not be had; the last one stays in use.",
        Counter, Warn, Ticket(MoreThan(5, FIFTEEN_MINUTES), Runbook("tick-orgs-failed"));
    QueueDuplicate { messages, queue } => "fanout.queue.duplicate",
        "So many messages were not enqueued, since their ids were enqueued within the window.",
        Counter, Debug, Unmonitored("suppressing them is what the ids are for; nobody has to act");
    QueueFull { queue, open } => "fanout.queue.full",
        "Messages were refused because too many are open.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("queue-full"));
    QueueReclaimed { messages, queue } => "fanout.queue.reclaimed",
        "So many deliveries were taken over, since they were not settled in time.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("queue-consumers-dying"));
    QueueDeadLettered { cause, queue, id, reason } => "fanout.queue.dead_lettered",
        "A message was given up and waits among the dead letters.",
        Counter, Error, Ticket(Any(FIFTEEN_MINUTES), Runbook("queue-dead-letters"));
    QueueDeadDropped { messages, queue } => "fanout.queue.dead_dropped",
        "So many of the oldest dead letters made room for newer ones: they are lost.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("queue-dead-letters"));
    QueueReplayed { messages, queue } => "fanout.queue.replayed",
        "So many dead letters were put back into the queue.",
        Counter, Info, Unmonitored("an operator asked for it and reads the answer");
    QueueHandled { elapsed_ms, queue } => "fanout.queue.handled",
        "A message was handled, after its handler took this long.",
        Duration, Debug, Unmonitored("handlers that are too slow for their queue show in fanout.queue.lag");
    QueueFailed { cause, queue, id, error } => "fanout.queue.failed",
        "An attempt at a message failed; it is retried while it has attempts.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("queue-handlers-failing"));
    QueueLost { queue, id } => "fanout.queue.lost",
        "A delivery was taken over while its handler was at work: the message is handled twice.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("queue-deliveries-lost"));
    QueueUnsettled { messages, queue, error } => "fanout.queue.unsettled",
        "The queue could not be told what came of so many deliveries: they are handled again.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("queue-unreachable"));
    QueueReleased { messages, queue } => "fanout.queue.released",
        "So many deliveries were handed back by a consumer that was shut down.",
        Counter, Info, Unmonitored("a clean shutdown; the next consumer gets them at once");
    QueueReceiveFailed { queue, error } => "fanout.queue.receive_failed",
        "A consumer could not ask its queue for messages; it goes on trying.",
        Counter, Warn, Page(MoreThan(20, FIVE_MINUTES), Runbook("queue-unreachable"));
    QueueDepth { place, messages, queue } => "fanout.queue.depth",
        "How many messages of the queue that reported last are in this place.",
        Gauge, Info, Unmonitored("a depth is normal as long as fanout.queue.lag is short");
    QueueLag { lag_ms, queue } => "fanout.queue.lag",
        "For how long the oldest ready message has been ready; zero when there is none.",
        Duration, Info, Page(Slow(60_000, FIFTEEN_MINUTES), Runbook("queue-lag"));
}

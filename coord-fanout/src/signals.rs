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
}

coord_core::declare! { "fanout.tick.";
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
}

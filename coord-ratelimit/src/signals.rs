//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Key, Name};

use crate::decision::By;

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
}
coord_core::labels! { Outcome { Allowed => "allowed", Denied => "denied" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Decided { outcome: Outcome, by: By },
    NeverAllowed { limit: Name, capacity: Detail },
    Degraded { limit: Key, error: Detail },
    Restored { outage_ms: Duration },
    Corrupt { error: Detail },
    Wait { elapsed_ms: Duration, limit: Key },
    Timeout { limit: Key },
}

coord_core::declare! { "redis.ratelimit.";
    Decided { outcome, by } => "redis.ratelimit.decided",
        "A limiter allowed or denied.",
        Counter, Debug, Unmonitored("denying is its work; redis.ratelimit.degraded tells when it decides without Redis");
    NeverAllowed { limit, capacity } => "redis.ratelimit.never_allowed",
        "A caller asked for more permits than its limit ever gives at once.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("ratelimit-never-allowed"));
    Degraded { limit, error } => "redis.ratelimit.degraded",
        "Redis could not be asked: from now on limiters decide by their policy, until it can.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("ratelimit-degraded"));
    Restored { outage_ms } => "redis.ratelimit.restored",
        "Limiters ask Redis again, after having decided without it for this long.",
        Duration, Info, Unmonitored("the end of what redis.ratelimit.degraded reports");
    Corrupt { error } => "redis.ratelimit.corrupt",
        "Something else than a limit is stored under a limit's key; it was left alone.",
        Counter, Error, Ticket(Any(FIFTEEN_MINUTES), Runbook("ratelimit-corrupt"));
    Wait { elapsed_ms, limit } => "redis.ratelimit.wait",
        "Time from the call to the permits of a caller that waits for them.",
        Duration, Debug, Unmonitored("redis.ratelimit.timeout is what callers feel");
    Timeout { limit } => "redis.ratelimit.timeout",
        "A caller that waits for permits did not get them within its wait.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("ratelimit-exhausted"));
}

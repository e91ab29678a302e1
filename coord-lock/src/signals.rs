//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{FencingToken, Key, Name};

use crate::claim::Released;
use crate::options::Order;

/// Why a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No renewal succeeded in time.
    Expired,
    /// The server said, before its time, that somebody else has it or nobody.
    Revoked,
}
coord_core::labels! { Loss { Expired => "expired", Revoked => "revoked" } }
coord_core::labels! { Released {
    Freed => "freed", Gone => "gone", HeldByOther => "held_by_other",
} }
coord_core::labels! { Order { Any => "any", Fifo => "fifo" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Unavailable {
        lock: Key,
        error: Detail,
    },
    Timeout {
        order: Order,
        lock: Key,
    },
    Lost {
        cause: Loss,
        lock: Key,
        fence: FencingToken,
    },
    Forced {
        lock: Key,
        fence: FencingToken,
        by: Name,
    },
    Wait {
        order: Order,
        elapsed_ms: Duration,
        lock: Key,
    },
    Held {
        elapsed_ms: Duration,
        lock: Key,
    },
    Released {
        outcome: Released,
        lock: Key,
    },
}

coord_core::declare! { "redis.lock.";
    Unavailable { lock, error } => "redis.lock.unavailable",
        "A lock could be neither granted nor refused, since Redis did not answer or refused to.",
        Counter, Error, Rollback(Any(FIVE_MINUTES), Runbook("lock-unavailable"));
    Timeout { order, lock } => "redis.lock.timeout",
        "A caller gave up: others held the lock for its whole wait.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("lock-contended"));
    Lost { cause, lock, fence } => "redis.lock.lost",
        "A lock was lost before its release.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lock-lost"));
    Forced { lock, fence, by } => "redis.lock.forced",
        "An operator ended somebody's lock.",
        Counter, Warn, Unmonitored("done on purpose, this line is the audit trail; redis.lock.lost tells of the owner");
    Wait { order, elapsed_ms, lock } => "redis.lock.wait",
        "Time from the first attempt to the grant.",
        Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
    Held { elapsed_ms, lock } => "redis.lock.held",
        "Time from the grant of a lock to its release or loss.",
        Duration, Debug, Unmonitored("how long is too long depends on the lock; redis.lock.timeout shows that others suffer");
    Released { outcome, lock } => "redis.lock.released",
        "A release was answered.",
        Counter, Debug, Unmonitored("a lock that was gone or taken is reported as redis.lock.lost");
}

//! Every signal this crate can emit.

use coord_core::signals::Detail;
use coord_core::{FencingToken, Key};

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No renewal succeeded in time.
    Expired,
    /// Its key is gone: expired, deleted or evicted.
    Gone,
    /// Another claim has it.
    Taken,
    /// Something that is no lease is stored there.
    Foreign,
}
coord_core::labels! { Loss {
    Expired => "expired", Gone => "gone", Taken => "taken", Foreign => "foreign",
} }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Lost {
        cause: Loss,
        lease: Key,
        fence: FencingToken,
    },
    RenewFailed {
        leases: u64,
        error: Detail,
    },
}

coord_core::declare! { "redis.resource_lease.";
    Lost { cause, lease, fence } => "redis.resource_lease.lost",
        "A held lease, which may be that of a lock or a tick, was lost before its release.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("resource-lease-lost"));
    RenewFailed { leases, error } => "redis.resource_lease.renew_failed",
        "A renewal got no answer about so many leases; it is repeated until their time runs out.",
        Counter, Warn, Unmonitored("redis.resource_lease.lost follows if it lasts; redis.command.timeout and .refused tell the cause");
}

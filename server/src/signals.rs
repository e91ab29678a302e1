//! Every signal this crate can emit.

use std::time::Duration;

/// Why clients did not get news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This node had more to tell than it could.
    Overrun,
    /// They did not reach Redis, and so no other node.
    Unpublished,
    /// They did not come from Redis.
    Interrupted,
    /// A client reads too slowly.
    SlowClient,
}
coord_core::labels! { Cause {
    Overrun => "overrun", Unpublished => "unpublished", Interrupted => "interrupted",
    SlowClient => "slow_client",
} }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Disconnected {},
    Reconnected { outage_ms: Duration },
    Missed { cause: Cause, missed: u64 },
}

coord_core::declare! { "server.", "redis.adapter.";
    Disconnected {} => "redis.adapter.disconnected",
        "News of other nodes no longer reach the Socket.IO clients of this one.",
        Counter, Error, Rollback(Any(FIVE_MINUTES), Runbook("realtime-disconnected"));
    Reconnected { outage_ms } => "redis.adapter.reconnected",
        "News of other nodes reach the Socket.IO clients of this one again, after this long.",
        Duration, Info, Unmonitored("the end of what redis.adapter.disconnected reports");
    Missed { cause, missed } => "server.realtime.missed",
        "So many news did not reach Socket.IO clients, at least; these are told to look for themselves.",
        Counter, Warn, Ticket(MoreThan(1000, FIFTEEN_MINUTES), Runbook("realtime-missed"));
}

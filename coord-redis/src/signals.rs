//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::Channel;
use coord_core::signals::Detail;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Command,
    Upkeep,
    Subscriber,
    Tracking,
}
coord_core::labels! { Purpose {
    Command => "command", Upkeep => "upkeep", Subscriber => "subscriber", Tracking => "tracking",
} }

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer closed it, or the network did.
    Closed,
    /// It did not answer its health check.
    Silent,
    /// The node said that it is no master any more.
    ReadOnly,
}
coord_core::labels! { Loss { Closed => "closed", Silent => "silent", ReadOnly => "readonly" } }

/// Why a node refused a command before execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    ReadOnly,
    Loading,
    MasterDown,
    ClusterDown,
    Busy,
    OutOfMemory,
    NoReplicas,
    NotPersisting,
    NotPermitted,
}
coord_core::labels! { Refusal {
    ReadOnly => "readonly", Loading => "loading", MasterDown => "masterdown",
    ClusterDown => "clusterdown", Busy => "busy", OutOfMemory => "oom",
    NoReplicas => "noreplicas", NotPersisting => "misconf", NotPermitted => "noperm",
} }

/// Why a subscription stopped receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// Its connection ended.
    Connection,
    /// Its slot moved to another node of the cluster.
    Moved,
}
coord_core::labels! { Interruption { Connection => "connection", Moved => "moved" } }

/// What a service keeps in Redis and cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Leases and locks.
    Leases,
    /// The last tick and the cooldown of a cron job.
    Ticks,
    /// Queues and replay logs.
    Streams,
}
coord_core::labels! { Kept { Leases => "leases", Ticks => "ticks", Streams => "streams" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    ConnectionLost {
        purpose: Purpose,
        cause: Loss,
        address: Detail,
    },
    ConnectionFailed {
        purpose: Purpose,
        error: Detail,
    },
    ConnectionRestored {
        purpose: Purpose,
        outage_ms: Duration,
        address: Detail,
    },
    CommandTimeout {
        purpose: Purpose,
        command: Detail,
    },
    CommandRefused {
        cause: Refusal,
        command: Detail,
        address: Detail,
    },
    ScriptSent {
        script: Detail,
    },
    SubscriptionDropped {
        cause: Interruption,
        channel: Channel,
    },
    SubscriptionResubscribed {
        gap_ms: Duration,
        channel: Channel,
    },
    SubscriptionLagged {
        missed: u64,
        channel: Channel,
    },
    ReleaseAbandoned {
        command: Detail,
    },
    ServerEvicts {
        kept: Kept,
        policy: Detail,
    },
    UnknownVariable {
        variable: Detail,
    },
}

coord_core::declare! { "redis.";
    ConnectionLost { purpose, cause, address } => "redis.connection.lost",
        "An established connection ended; the supervisor reconnects.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("redis-connection-unstable"));
    ConnectionFailed { purpose, error } => "redis.connection.failed",
        "An attempt to connect failed; the supervisor goes on trying.",
        Counter, Warn, Page(MoreThan(10, FIVE_MINUTES), Runbook("redis-unreachable"));
    ConnectionRestored { purpose, outage_ms, address } => "redis.connection.restored",
        "A connection is back, after this long without one.",
        Duration, Info, Unmonitored("the end of what redis.connection.lost and .failed report");
    CommandTimeout { purpose, command } => "redis.command.timeout",
        "A command was sent and not answered in time: its outcome is unknown.",
        Counter, Warn, Ticket(MoreThan(20, FIVE_MINUTES), Runbook("redis-slow"));
    CommandRefused { cause, command, address } => "redis.command.refused",
        "A node refused a command before execution (READONLY, LOADING, OOM and the like).",
        Counter, Warn, Page(MoreThan(20, FIVE_MINUTES), Runbook("redis-refuses-commands"));
    ScriptSent { script } => "redis.script.sent",
        "A script was sent whole, since the server did not know its digest.",
        Counter, Debug, Unmonitored("normal after a restart, a failover or SCRIPT FLUSH; costs one round trip");
    SubscriptionDropped { cause, channel } => "redis.subscription.dropped",
        "A subscription stopped receiving; what is published until it is back is missed.",
        Counter, Error, Rollback(Any(FIVE_MINUTES), Runbook("subscription-dropped"));
    SubscriptionResubscribed { gap_ms, channel } => "redis.subscription.resubscribed",
        "A subscription receives again, after a gap of this length.",
        Duration, Warn, Ticket(Slow(10_000, FIFTEEN_MINUTES), Runbook("subscription-gap"));
    SubscriptionLagged { missed, channel } => "redis.subscription.lagged",
        "A subscriber was too slow for its bounded buffer and missed this many messages.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("subscriber-too-slow"));
    ReleaseAbandoned { command } => "redis.release.abandoned",
        "A release in the background found no answer until its claim could no longer be alive.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("release-abandoned"));
    ServerEvicts { kept, policy } => "redis.server.evicts",
        "The server's maxmemory-policy can evict what must not vanish.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("redis-evicts"));
    UnknownVariable { variable } => "redis.config.unknown_variable",
        "An environment variable has our prefix, but nobody reads it: a misspelt name.",
        Counter, Warn, Unmonitored("seen in the log at start by whoever changes the setting; nothing pages");
}

//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Key, Name};

/// Where a value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the process.
    Near,
    /// In Redis.
    Redis,
}
coord_core::labels! { Source { Near => "near", Redis => "redis" } }

/// Whose load spared another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sparer {
    /// One of this process.
    Process,
    /// One of another process.
    Fleet,
}
coord_core::labels! { Sparer { Process => "process", Fleet => "fleet" } }

/// Why a load gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Error,
    Timeout,
    Panic,
}
coord_core::labels! { Failure { Error => "error", Timeout => "timeout", Panic => "panic" } }

/// Why a loaded value was handed out and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstored {
    /// The entry was deleted or set during the load.
    Undone,
    /// It has more bytes than the cache takes, or cannot be encoded.
    Unfit,
    /// Redis did not take it.
    Refused,
}
coord_core::labels! { Unstored { Undone => "undone", Unfit => "unfit", Refused => "refused" } }

/// Why a stored value cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Another format or schema: of another release.
    Outdated,
    /// Ours, but the codec does not understand it.
    Undecodable,
    /// Not written by a cache at all.
    Foreign,
}
coord_core::labels! { Unreadable {
    Outdated => "outdated", Undecodable => "undecodable", Foreign => "foreign",
} }

/// Why a near cache was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// The news of changes were interrupted.
    Interrupted,
    /// The server was flushed.
    Everything,
}
coord_core::labels! { Flush { Interrupted => "interrupted", Everything => "everything" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Hit {
        source: Source,
        hits: u64,
        cache: Name,
    },
    Miss {
        cache: Name,
    },
    Stale {
        entry: Key,
    },
    Load {
        elapsed_ms: Duration,
        entry: Key,
    },
    Spared {
        by: Sparer,
        entry: Key,
    },
    LoadFailed {
        cause: Failure,
        entry: Key,
        error: Detail,
    },
    NotStored {
        cause: Unstored,
        entry: Key,
        error: Detail,
    },
    Degraded {
        entry: Key,
        error: Detail,
    },
    Unreadable {
        cause: Unreadable,
        entry: Key,
    },
    NearFlushed {
        cause: Flush,
        cache: Name,
    },
    DeleteFailed {
        entries: Detail,
        error: Detail,
    },
}

coord_core::declare! { "redis.cache.";
    Hit { source, hits, cache } => "redis.cache.hit",
        "Values were found, in the process (told in batches) or in Redis.",
        Counter, Debug, Unmonitored("the normal case; what goes wrong is told by redis.cache.degraded and redis.cache.load_failed");
    Miss { cache } => "redis.cache.miss",
        "A value was not there and has to be loaded.",
        Counter, Debug, Unmonitored("which share of misses is normal depends on the cache; the dashboard shows it beside the hits");
    Stale { entry } => "redis.cache.stale",
        "A value was served after its TTL, within its stale window, while it is loaded anew.",
        Counter, Debug, Unmonitored("what stale_while_revalidate is for; redis.cache.load_failed tells when the loads fail");
    Load { elapsed_ms, entry } => "redis.cache.load",
        "How long a loader took.",
        Duration, Debug, Unmonitored("loaders differ, and a hung one is told by redis.cache.load_failed");
    Spared { by, entry } => "redis.cache.spared",
        "A caller got what somebody else was loading already, in this process or in another one.",
        Counter, Debug, Unmonitored("the purpose of the cache, counted to see that it is served");
    LoadFailed { cause, entry, error } => "redis.cache.load_failed",
        "A loader failed, hung or panicked: its callers got the error, or a stale value.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("cache-load-failed"));
    NotStored { cause, entry, error } => "redis.cache.not_stored",
        "A loaded value was handed out and not stored.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("cache-not-stored"));
    Degraded { entry, error } => "redis.cache.degraded",
        "Redis did not answer, so a value was loaded without the cache.",
        Counter, Error, Page(MoreThan(10, FIVE_MINUTES), Runbook("cache-degraded"));
    Unreadable { cause, entry } => "redis.cache.unreadable",
        "A stored value is of another release, broken, or not the cache's; it counts as a miss.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("cache-unreadable"));
    NearFlushed { cause, cache } => "redis.cache.near_flushed",
        "A near cache was emptied, since changes may have gone unheard, or the server was flushed.",
        Counter, Info, Unmonitored("it costs round trips, never truth; redis.connection.lost tells of connections that come and go");
    DeleteFailed { entries, error } => "redis.cache.delete_failed",
        "A deletion did not happen, or nobody knows: readers may be served the old value until its TTL.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("cache-delete-failed"));
}

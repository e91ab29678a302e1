//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, FencingToken, Key, Name, Result};

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
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

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was not executed.
    Unavailable,
    /// It was sent and not answered.
    Timeout,
    /// It can never succeed as it is: a missing permission, a reply of another form.
    Refused,
}
coord_core::labels! { Cause {
    Unavailable => "unavailable", Timeout => "timeout", Refused => "refused",
} }

impl Cause {
    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Timeout => Self::Timeout,
            _ => Self::Refused,
        }
    }
}

/// What was attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Claim,
    Inspect,
    List,
    Evict,
}
coord_core::labels! { Operation {
    Claim => "claim", Inspect => "inspect", List => "list", Evict => "evict",
} }

/// What a claim found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Claimed,
    Held,
}
coord_core::labels! { Outcome { Claimed => "claimed", Held => "held" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Claim {
        outcome: Outcome,
        elapsed_ms: Duration,
    },
    Unavailable {
        operation: Operation,
        cause: Cause,
        error: Detail,
    },
    Foreign {
        operation: Operation,
        error: Detail,
    },
    RemoveFailed {
        cause: Cause,
        lease: Key,
        error: Detail,
    },
    Evicted {
        lease: Key,
        fence: FencingToken,
        by: Name,
    },
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
    Claim { outcome, elapsed_ms } => "redis.resource_lease.claim",
        "A claim was answered, after this long.",
        Duration, Debug, Unmonitored("redis.resource_lease.unavailable tells of claims without an answer; being held is normal");
    Unavailable { operation, cause, error } => "redis.resource_lease.unavailable",
        "A call got no answer, or was refused: it is unknown who holds the lease.",
        Counter, Error, Page(MoreThan(5, FIVE_MINUTES), Runbook("resource-lease-unavailable"));
    Foreign { operation, error } => "redis.resource_lease.foreign",
        "Something that is no lease is stored under the key of one; it was left alone.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("resource-lease-foreign"));
    RemoveFailed { cause, lease, error } => "redis.resource_lease.remove_failed",
        "A release got no answer; it is repeated in the background, and others wait until then.",
        Counter, Error, Rollback(Any(FIVE_MINUTES), Runbook("resource-lease-remove-failed"));
    Evicted { lease, fence, by } => "redis.resource_lease.evicted",
        "An operator ended somebody's lease.",
        Counter, Warn, Unmonitored("done on purpose, this line is the audit trail; redis.resource_lease.lost tells of the holder");
    Lost { cause, lease, fence } => "redis.resource_lease.lost",
        "A held lease was lost before its release. Those of locks and ticks are told by their own signals.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("resource-lease-lost"));
    RenewFailed { leases, error } => "redis.resource_lease.renew_failed",
        "A renewal got no answer about so many leases; it is repeated until their time runs out.",
        Counter, Warn, Unmonitored("redis.resource_lease.lost, or the loss of the lock or tick it belongs to, follows if it lasts; redis.command.timeout and .refused tell the cause");
}

/// Emits that a call failed, if it did.
pub(crate) fn reported<T>(operation: Operation, result: Result<T>) -> Result<T> {
    if let Err(error) = &result {
        let detail = Detail::error(error);
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Invalid => {
                Signal::Unavailable {
                    operation,
                    cause: Cause::of(error),
                    error: detail,
                }
                .emit();
            }
            ErrorKind::Corrupt => Signal::Foreign {
                operation,
                error: detail,
            }
            .emit(),
            // The loss was emitted where it was found.
            ErrorKind::Lost | ErrorKind::Contended => {}
        }
    }
    result
}

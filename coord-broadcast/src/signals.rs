//! Every signal this crate can emit.

use coord_core::Channel;
use coord_core::signals::Detail;

/// What is known of a message that was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not.
    Refused,
    /// It may have been.
    Unknown,
}
coord_core::labels! { Outcome { Refused => "refused", Unknown => "unknown" } }

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Live,
    /// Out of the log.
    Replayed,
}
coord_core::labels! { Way { Live => "live", Replayed => "replayed" } }

/// Why a subscriber missed messages whose number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its subscription was interrupted.
    Interrupted,
    /// It was too slow for its buffer.
    Lagged,
    /// They have a sequence, but were never sent to it.
    Undelivered,
    /// They were not in the log, or not any more.
    Trimmed,
}
coord_core::labels! { Cause {
    Interrupted => "interrupted", Lagged => "lagged", Undelivered => "undelivered",
    Trimmed => "trimmed",
} }

/// Why nobody knows how much a subscriber missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The sequence of the topic began anew.
    NewEpoch,
    /// The sequence of the topic went back.
    WentBack,
    /// It subscribes to a pattern, and was interrupted.
    Pattern,
}
coord_core::labels! { Doubt {
    NewEpoch => "new_epoch", WentBack => "went_back", Pattern => "pattern",
} }

/// Why a message was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skip {
    /// It was not published by this crate.
    Foreign,
    /// It was published by another version of it.
    Version,
    /// Its body is not of the topic's type.
    Body,
}
coord_core::labels! { Skip { Foreign => "foreign", Version => "version", Body => "body" } }

/// Every signal this crate can emit.
pub(crate) enum Signal {
    Published {
        channel: Channel,
    },
    PublishFailed {
        outcome: Outcome,
        channel: Channel,
        error: Detail,
    },
    Received {
        way: Way,
        messages: u64,
        channel: Channel,
    },
    Missed {
        cause: Cause,
        missed: u64,
        channel: Channel,
    },
    GapUnknown {
        cause: Doubt,
        channel: Channel,
    },
    Skipped {
        cause: Skip,
        channel: Channel,
        error: Detail,
    },
    ReplayFailed {
        channel: Channel,
        error: Detail,
    },
}

coord_core::declare! { "redis.broadcast.";
    Published { channel } => "redis.broadcast.published",
        "A message was given its sequence and published.",
        Counter, Debug, Unmonitored("the traffic itself; redis.broadcast.publish_failed tells of what did not go out");
    PublishFailed { outcome, channel, error } => "redis.broadcast.publish_failed",
        "A message was not published, or nobody knows whether it was.",
        Counter, Error, Page(MoreThan(10, FIVE_MINUTES), Runbook("broadcast-publish-failed"));
    Received { way, messages, channel } => "redis.broadcast.received",
        "A subscriber was given messages, which are told in batches.",
        Counter, Debug, Unmonitored("the traffic itself; redis.broadcast.missed and .gap_unknown tell of what did not come");
    Missed { cause, missed, channel } => "redis.broadcast.missed",
        "A subscriber missed this many messages, and was told so.",
        Counter, Warn, Ticket(MoreThan(100, FIFTEEN_MINUTES), Runbook("broadcast-missed"));
    GapUnknown { cause, channel } => "redis.broadcast.gap_unknown",
        "A subscriber missed messages, and nobody knows how many; it was told so.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("broadcast-gap-unknown"));
    Skipped { cause, channel, error } => "redis.broadcast.skipped",
        "A message that a subscriber cannot read was skipped, or its body refused.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("broadcast-skipped"));
    ReplayFailed { channel, error } => "redis.broadcast.replay_failed",
        "An attempt to read missed messages from the log failed.",
        Counter, Warn, Ticket(MoreThan(20, FIFTEEN_MINUTES), Runbook("broadcast-replay-failed"));
}

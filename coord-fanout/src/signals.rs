//! Every signal this crate can emit.

use std::time::Duration;

use coord_core::Name;
use coord_core::signals::Detail;

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

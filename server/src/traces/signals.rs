//! Every signal about traces.

use coord_core::signals::Detail;

/// Why spans are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// More ended than could be sent.
    Full,
    /// The collector did not answer, or could not take them.
    Failed,
    /// The collector does not take such.
    Refused,
    /// The process ended before they could be sent.
    Ending,
}
coord_core::labels! { Dropped {
    Full => "full", Failed => "failed", Refused => "refused", Ending => "ending",
} }

/// Every signal about traces.
pub(crate) enum Signal {
    Lost {
        count: u64,
        cause: Dropped,
        error: Detail,
    },
    WithoutEffect {
        variable: Detail,
        reason: Detail,
    },
}

coord_core::declare! { "server.traces.";
    Lost { count, cause, error } => "server.traces.dropped",
        "Spans were dropped that the collector of traces did not take: traces have holes.",
        Counter, Warn, Ticket(Any(FIFTEEN_MINUTES), Runbook("server-traces-dropped"));
    WithoutEffect { variable, reason } => "server.traces.without_effect",
        "A variable of OpenTelemetry is set that has no effect here.",
        Counter, Warn, Unmonitored("seen in the log at start by whoever changes the setting; nothing pages");
}

//! What is proved of each row while it compiles.

use super::{Alarm, Argument, Declaration, Field, Kind, Level, Role, When};

/// [`BUCKETS`](super::BUCKETS) in milliseconds, as conditions name them.
pub(super) const BUCKETS_MS: [u64; 16] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

/// The shortest reason that can name an alarm or say why nobody could act.
const SHORTEST_REASON: usize = 20;

/// Names that the log line, Prometheus or the alerts already use for something else.
const RESERVED: &[&str] = &[
    "key",
    "level",
    "message",
    "target",
    "timestamp",
    "fields",
    "span",
    "spans",
    "trace_id",
    "le",
    "quantile",
    "job",
    "instance",
    "severity",
    "rollback",
];

/// A field whose role its type decides. The closure never runs: it lets the row learn the type.
#[doc(hidden)]
pub const fn field<S, T: Argument>(name: &'static str, _: fn(S) -> Option<T>) -> Field {
    Field {
        name,
        role: T::ROLE,
    }
}

/// The length of the metric's name for `key`.
#[doc(hidden)]
pub const fn metric_length(key: &str, kind: Kind) -> usize {
    key.len() + suffix(kind).len()
}

/// The metric's name for `key`, as bytes.
#[doc(hidden)]
pub const fn metric_name<const LENGTH: usize>(key: &str, kind: Kind) -> [u8; LENGTH] {
    let (key, suffix) = (key.as_bytes(), suffix(kind).as_bytes());
    let mut name = [0; LENGTH];
    let mut index = 0;
    while index < LENGTH {
        let byte = if index < key.len() {
            key[index]
        } else {
            suffix[index - key.len()]
        };
        name[index] = if byte == b'.' { b'_' } else { byte };
        index += 1;
    }
    name
}

/// The bytes of [`metric_name`] as text.
#[doc(hidden)]
pub const fn metric_str(name: &'static [u8]) -> &'static str {
    match std::str::from_utf8(name) {
        Ok(name) => name,
        Err(_) => panic!("a key is ASCII"),
    }
}

const fn suffix(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "_total",
        Kind::Gauge => "",
        Kind::Duration => "_seconds",
    }
}

/// Proves a row while it compiles.
#[doc(hidden)]
pub const fn checked(declaration: Declaration, prefixes: &[&str]) -> Declaration {
    assert!(
        starts_with_any(declaration.key, prefixes),
        "the key has another crate's prefix"
    );
    assert!(
        is_made_of(declaration.key, b"_."),
        "a key is lower-case words joined by dots and underscores"
    );
    assert!(!declaration.about.is_empty(), "a row says what happened");
    check_fields(declaration.fields);
    check_measure(declaration.kind, declaration.fields);
    check_alarm(&declaration);
    declaration
}

const fn check_alarm(declaration: &Declaration) {
    match declaration.alarm {
        Alarm::Page(when, runbook)
        | Alarm::Rollback(when, runbook)
        | Alarm::Ticket(when, runbook) => {
            assert!(
                !runbook.0.is_empty() && is_made_of(runbook.0, b"-"),
                "an alarm names its section of the runbook, in lower-case words joined by hyphens"
            );
            assert!(
                !matches!(declaration.level, Level::Debug),
                "a monitored signal is logged at Info or above, since Debug is off in production"
            );
            check_condition(when, declaration.kind);
        }
        Alarm::Unmonitored(reason) => {
            assert!(
                !matches!(declaration.level, Level::Error),
                "a signal at level Error must be monitored"
            );
            assert!(
                reason.len() >= SHORTEST_REASON,
                "the reason for no alarm is hollow: name the alarm that covers it, or why nobody could act"
            );
        }
    }
}

const fn check_condition(when: When, kind: Kind) {
    let fits = match when {
        When::Any(_) | When::MoreThan(..) => matches!(kind, Kind::Counter | Kind::Duration),
        When::Above(..) => matches!(kind, Kind::Gauge),
        When::Slow(..) => matches!(kind, Kind::Duration),
    };
    assert!(fits, "the condition does not fit the kind of signal");
    if let When::Slow(milliseconds, _) = when {
        assert!(
            is_telling_bucket(milliseconds),
            "the threshold of Slow is one of BUCKETS but the last: a histogram cannot tell others"
        );
    }
}

const fn is_telling_bucket(milliseconds: u64) -> bool {
    let mut index = 0;
    while index < BUCKETS_MS.len() - 1 {
        if BUCKETS_MS[index] == milliseconds {
            return true;
        }
        index += 1;
    }
    false
}

const fn check_fields(fields: &[Field]) {
    let mut index = 0;
    while index < fields.len() {
        let Field { name, role } = fields[index];
        assert!(
            !contains(RESERVED, name),
            "the name of the field is reserved: log lines or metrics use it for something else"
        );
        if let Role::Label(values) = role {
            check_values(values);
        }
        index += 1;
    }
}

const fn check_values(values: &[&str]) {
    let mut index = 0;
    while index < values.len() {
        assert!(
            !values[index].is_empty() && is_made_of(values[index], b"_-"),
            "the value of a label is lower-case words joined by underscores or hyphens"
        );
        let (earlier, _) = values.split_at(index);
        assert!(
            !contains(earlier, values[index]),
            "two variants have the same label value"
        );
        index += 1;
    }
}

const fn check_measure(kind: Kind, fields: &[Field]) {
    let (mut amounts, mut durations, mut index) = (0, 0, 0);
    while index < fields.len() {
        match fields[index].role {
            Role::Amount => amounts += 1,
            Role::Elapsed => {
                durations += 1;
                assert!(
                    ends_with(fields[index].name, "_ms"),
                    "the name of a duration ends in _ms, since the log line shows milliseconds"
                );
            }
            Role::Label(_) | Role::Detail => {}
        }
        index += 1;
    }
    match kind {
        Kind::Counter => assert!(
            amounts <= 1 && durations == 0,
            "a counter adds up one integer at most"
        ),
        Kind::Gauge => assert!(
            amounts == 1 && durations == 0,
            "a gauge shows exactly one integer"
        ),
        Kind::Duration => assert!(
            durations == 1 && amounts == 0,
            "a duration measures exactly one field of type Duration"
        ),
    }
}

/// Whether `text` holds only lower-case letters, digits and `joints`.
const fn is_made_of(text: &str, joints: &[u8]) -> bool {
    let (bytes, mut index) = (text.as_bytes(), 0);
    while index < bytes.len() {
        let mut known = matches!(bytes[index], b'a'..=b'z' | b'0'..=b'9');
        let mut joint = 0;
        while joint < joints.len() {
            known |= bytes[index] == joints[joint];
            joint += 1;
        }
        if !known {
            return false;
        }
        index += 1;
    }
    true
}

const fn contains(texts: &[&str], text: &str) -> bool {
    let mut index = 0;
    while index < texts.len() {
        if texts[index].len() == text.len()
            && range_equals(text.as_bytes(), texts[index].as_bytes(), 0)
        {
            return true;
        }
        index += 1;
    }
    false
}

const fn starts_with_any(key: &str, prefixes: &[&str]) -> bool {
    let mut index = 0;
    while index < prefixes.len() {
        if starts_with(key, prefixes[index]) {
            return true;
        }
        index += 1;
    }
    false
}

const fn starts_with(text: &str, start: &str) -> bool {
    let (text, start) = (text.as_bytes(), start.as_bytes());
    text.len() > start.len() && range_equals(text, start, 0)
}

const fn ends_with(text: &str, end: &str) -> bool {
    let (text, end) = (text.as_bytes(), end.as_bytes());
    text.len() > end.len() && range_equals(text, end, text.len() - end.len())
}

const fn range_equals(text: &[u8], part: &[u8], from: usize) -> bool {
    let mut index = 0;
    while index < part.len() {
        if text[from + index] != part[index] {
            return false;
        }
        index += 1;
    }
    true
}

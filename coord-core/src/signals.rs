//! The grammar of the observability contract: what a crate may emit, and what operators get of it.
//!
//! A crate writes a plain enum `Signal` (what its code may say) and one row a variant in
//! [`declare!`](crate::declare) (the key, what it means, its kind, level and alarm). Neither
//! compiles without the other. One `emit()` writes both the structured log line and the metric.
//!
//! The enum stays outside the macro on purpose: rustc silences `dead_code` for items that another
//! crate's macro spells, and that lint, denied, is the proof that every declared signal has an
//! emit site.
//!
//! ```
//! # #![deny(dead_code)]
//! use std::time::Duration;
//!
//! /// Why a lock was lost.
//! #[derive(Clone, Copy)]
//! pub(crate) enum Loss { Expired, Taken }
//! coord_core::labels! { Loss { Expired => "expired", Taken => "taken" } }
//!
//! /// Every signal this crate can emit.
//! pub(crate) enum Signal {
//!     Lost { cause: Loss, lock: coord_core::Name },
//!     Wait { elapsed_ms: Duration },
//! }
//! coord_core::declare! { "redis.lock.";
//!     Lost { cause, lock } => "redis.lock.lost", "A held lock expired or was taken.",
//!         Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lock-lost"));
//!     Wait { elapsed_ms } => "redis.lock.wait", "Time from the first attempt to the grant.",
//!         Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
//! }
//!
//! # fn main() -> Result<(), coord_core::Error> {
//! coord_core::signals::register(SIGNALS);
//! let lock = coord_core::Name::new("orders")?;
//! Signal::Lost { cause: Loss::Expired, lock: lock.clone() }.emit();
//! Signal::Lost { cause: Loss::Taken, lock }.emit();
//! Signal::Wait { elapsed_ms: Duration::from_millis(3) }.emit();
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Channel, FencingToken, Key, Name};

/// One declared signal: everything that operators and the generated files know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// The key, as log lines carry it: `redis.lock.lost`.
    pub key: &'static str,
    /// The metric's name: dots become underscores, with `_total` on a counter and `_seconds` on a
    /// duration.
    pub metric: &'static str,
    /// What happened, in a sentence.
    pub about: &'static str,
    /// Which kind of metric it is.
    pub kind: Kind,
    /// The level of its log line.
    pub level: Level,
    /// The fields of its log line, in order.
    pub fields: &'static [Field],
    /// Who is told, and when; or why nobody is.
    pub alarm: Alarm,
}

/// Which kind of metric a signal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Counts its emits, or adds up its integer field.
    Counter,
    /// Shows the last value of its integer field.
    Gauge,
    /// A histogram of its duration field, in seconds.
    Duration,
}

/// The level of a signal's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Every single step; off in production.
    Debug,
    /// Normal, and worth a line.
    Info,
    /// Degraded, and handled.
    Warn,
    /// Somebody must look: always monitored.
    Error,
}

/// One field of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the log line, and the label's name in the metric.
    pub name: &'static str,
    /// What it is, decided by its type.
    pub role: Role,
}

/// What a field is, decided by its type alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A closed set of values: a metric label, exported at zero from the start.
    Label(&'static [&'static str]),
    /// An integer that is counted or shown.
    Amount,
    /// A duration, in milliseconds in the log and seconds in the metric.
    Elapsed,
    /// A name, id or token: in the log only, never a label.
    Detail,
}

/// Who is told of a signal, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// Somebody is woken.
    Page(When, Runbook),
    /// Somebody is woken, and a deploy that trips it is rolled back.
    Rollback(When, Runbook),
    /// Somebody looks in working hours.
    Ticket(When, Runbook),
    /// Nobody is told, for this reason: the alarm that covers it, or why nobody could act.
    Unmonitored(&'static str),
}

/// The condition of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Emitted at least once in the window.
    Any(Window),
    /// Counted more than so often in the window.
    MoreThan(u64, Window),
    /// A gauge that stayed above the value for the whole window.
    Above(u64, Window),
    /// The 99th percentile of a duration above so many milliseconds in the window.
    Slow(u64, Window),
}

/// The span of time over which a condition is judged, in whole minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    minutes: u32,
}

impl Window {
    /// A window of `minutes`.
    pub const fn minutes(minutes: u32) -> Self {
        assert!(minutes > 0, "a window of no time can never hold anything");
        Self { minutes }
    }

    /// Its length in seconds.
    pub const fn as_secs(self) -> u32 {
        self.minutes * 60
    }
}

/// One minute.
pub const ONE_MINUTE: Window = Window::minutes(1);
/// Five minutes: two scrapes and a slow one fit in.
pub const FIVE_MINUTES: Window = Window::minutes(5);
/// Fifteen minutes.
pub const FIFTEEN_MINUTES: Window = Window::minutes(15);

/// The heading in `RUNBOOK.md` that says what to do: users see, first look, remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runbook(pub &'static str);

/// A type that can be a signal's field.
///
/// Closed enums get it from [`labels!`](crate::labels). Open text is no argument: a label with
/// unbounded values does not compile.
pub trait Argument {
    /// What a field of this type is.
    const ROLE: Role;
    /// The value as the log line carries it.
    type Logged<'a>: tracing::Value
    where
        Self: 'a;
    /// The value for the log line.
    fn logged(&self) -> Self::Logged<'_>;
    /// The value as a metric label.
    fn label(&self) -> Option<&'static str> {
        None
    }
    /// The value as the metric's measure.
    fn measure(&self) -> Option<Measure> {
        None
    }
}

/// What a signal adds to its metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// An integer to count or to show.
    Amount(u64),
    /// A duration to add to the histogram.
    Elapsed(Duration),
}

impl Argument for u64 {
    const ROLE: Role = Role::Amount;
    type Logged<'a> = u64;
    fn logged(&self) -> u64 {
        *self
    }
    fn measure(&self) -> Option<Measure> {
        Some(Measure::Amount(*self))
    }
}

impl Argument for Duration {
    const ROLE: Role = Role::Elapsed;
    type Logged<'a> = u64;
    fn logged(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
    fn measure(&self) -> Option<Measure> {
        Some(Measure::Elapsed(*self))
    }
}

/// Free text for the log line only: an error and its causes, an address, a setting.
#[derive(Debug, Clone)]
pub struct Detail(Arc<str>);

impl Detail {
    /// What `value` displays.
    pub fn new(value: impl fmt::Display) -> Self {
        Self(value.to_string().into())
    }

    /// An error followed by its causes, each after a colon.
    pub fn error(error: &(dyn std::error::Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let texts: Vec<_> = causes.map(ToString::to_string).collect();
        Self(texts.join(": ").into())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

macro_rules! details {
    ($($Type:ty),+) => {$(
        impl Argument for $Type {
            const ROLE: Role = Role::Detail;
            type Logged<'a> = tracing::field::DisplayValue<&'a Self>;
            fn logged(&self) -> Self::Logged<'_> {
                tracing::field::display(self)
            }
        }
    )+};
}
details!(Name, Key, Channel, FencingToken, Detail);

/// Makes a closed enum a metric label: each variant with its value.
///
/// The enum itself is written outside, so that rustc reports a value that nobody emits.
#[macro_export]
macro_rules! labels {
    ($Type:ident { $($Variant:ident => $value:literal),+ $(,)? }) => {
        impl $crate::signals::Argument for $Type {
            const ROLE: $crate::signals::Role = $crate::signals::Role::Label(&[$($value),+]);
            type Logged<'a> = &'static str;
            fn logged(&self) -> &'static str {
                match self {$( Self::$Variant => $value ),+}
            }
            fn label(&self) -> ::core::option::Option<&'static str> {
                ::core::option::Option::Some(self.logged())
            }
        }
    };
}

/// Gives every variant of the crate's `Signal` its row: key, meaning, kind, level and alarm.
///
/// See the [module](crate::signals) for an example. It adds `pub const SIGNALS` and
/// `Signal::emit`; the enum stays outside.
#[macro_export]
macro_rules! declare {
    ($($prefix:literal),+;
     $( $Variant:ident { $($field:ident),* $(,)? } => $key:literal, $about:literal,
        $kind:ident, $level:ident, $alarm:expr; )+) => {
        /// Every signal this crate can emit.
        pub const SIGNALS: &[$crate::signals::Declaration] = {
            #[allow(unused_imports)]
            use $crate::signals::{
                Alarm::*, FIFTEEN_MINUTES, FIVE_MINUTES, ONE_MINUTE, Runbook, When::*, Window,
            };
            const PREFIXES: &[&str] = &[$($prefix),+];
            &[$( $crate::signals::checked(
                $crate::signals::Declaration {
                    key: $key,
                    metric: {
                        const KIND: $crate::signals::Kind = $crate::signals::Kind::$kind;
                        const LENGTH: usize = $crate::signals::metric_length($key, KIND);
                        const NAME: [u8; LENGTH] = $crate::signals::metric_name($key, KIND);
                        $crate::signals::metric_str(&NAME)
                    },
                    about: $about,
                    kind: $crate::signals::Kind::$kind,
                    level: $crate::signals::Level::$level,
                    fields: &[$( $crate::signals::field(stringify!($field), |signal: Signal| {
                        #[allow(unreachable_patterns)]
                        match signal { Signal::$Variant { $field, .. } => Some($field), _ => None }
                    }) ),*],
                    alarm: $alarm,
                },
                PREFIXES,
            ) ),+]
        };

        /// One row a variant: a second row would be a second definition of the same name.
        #[allow(non_upper_case_globals)]
        const _: () = { $( const $Variant: () = (); )+ };

        impl Signal {
            pub(crate) fn emit(self) {
                #[allow(unused_imports)]
                use $crate::signals::Argument as _;
                match self {$(
                    Signal::$Variant { $($field),* } => {
                        $crate::__tracing::event!(
                            target: "coord",
                            $crate::signals::level!($level),
                            key = $key,
                            $( $field = $field.logged(), )*
                        );
                        const KIND: $crate::signals::Kind = $crate::signals::Kind::$kind;
                        const LENGTH: usize = $crate::signals::metric_length($key, KIND);
                        static NAME: [u8; LENGTH] = $crate::signals::metric_name($key, KIND);
                        $crate::signals::record(
                            $crate::signals::metric_str(&NAME),
                            KIND,
                            &[$( (stringify!($field), $field.label(), $field.measure()) ),*],
                        );
                    }
                )+}
            }
        }
    };
}

/// The `tracing` level of a declared level.
#[doc(hidden)]
#[macro_export]
macro_rules! __level {
    (Debug) => {
        $crate::__tracing::Level::DEBUG
    };
    (Info) => {
        $crate::__tracing::Level::INFO
    };
    (Warn) => {
        $crate::__tracing::Level::WARN
    };
    (Error) => {
        $crate::__tracing::Level::ERROR
    };
}
#[doc(hidden)]
pub use crate::__level as level;

/// Describes the metrics of `signals` and exports every counter at zero.
///
/// A counter that is born at one shows no increase, and the first lost lock would page nobody.
/// The services do this when they are made; call it again after installing a recorder later.
pub fn register(signals: &[Declaration]) {
    metrics::with_recorder(|recorder| {
        for declaration in signals {
            let (name, about) = (declaration.metric.into(), declaration.about.into());
            match declaration.kind {
                Kind::Counter => {
                    recorder.describe_counter(name, None, about);
                    for labels in label_sets(declaration.fields) {
                        let key = metrics::Key::from_parts(declaration.metric, labels);
                        recorder.register_counter(&key, &METADATA).increment(0);
                    }
                }
                Kind::Gauge => recorder.describe_gauge(name, None, about),
                Kind::Duration => {
                    recorder.describe_histogram(name, Some(metrics::Unit::Seconds), about);
                }
            }
        }
    });
}

/// Every combination of the label values of `fields`.
fn label_sets(fields: &[Field]) -> Vec<Vec<metrics::Label>> {
    let mut sets = vec![Vec::new()];
    for field in fields {
        let Role::Label(values) = field.role else {
            continue;
        };
        let extended = sets.iter().flat_map(|set| {
            values.iter().map(move |value| {
                let mut set = set.clone();
                set.push(metrics::Label::from_static_parts(field.name, value));
                set
            })
        });
        sets = extended.collect();
    }
    sets
}

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("coord", metrics::Level::INFO, None);

/// Adds one emit to its metric. Called by what [`declare!`](crate::declare) makes.
#[doc(hidden)]
pub fn record(
    metric: &'static str,
    kind: Kind,
    fields: &[(&'static str, Option<&'static str>, Option<Measure>)],
) {
    metrics::with_recorder(|recorder| {
        let labels: Vec<_> = fields
            .iter()
            .filter_map(|&(name, label, _)| Some(metrics::Label::from_static_parts(name, label?)))
            .collect();
        let key = metrics::Key::from_parts(metric, labels);
        let measure = fields.iter().find_map(|&(_, _, measure)| measure);
        match (kind, measure) {
            (Kind::Counter, Some(Measure::Amount(amount))) => {
                recorder.register_counter(&key, &METADATA).increment(amount);
            }
            (Kind::Counter, _) => recorder.register_counter(&key, &METADATA).increment(1),
            (Kind::Gauge, Some(Measure::Amount(amount))) => {
                recorder.register_gauge(&key, &METADATA).set(amount as f64);
            }
            (Kind::Duration, Some(Measure::Elapsed(elapsed))) => {
                recorder
                    .register_histogram(&key, &METADATA)
                    .record(elapsed.as_secs_f64());
            }
            // `checked` gave each kind its measure.
            (Kind::Gauge | Kind::Duration, _) => {}
        }
    });
}

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

/// The shortest reason that can name an alarm or say why nobody could act.
const SHORTEST_REASON: usize = 20;

/// Proves a row while it compiles.
#[doc(hidden)]
pub const fn checked(declaration: Declaration, prefixes: &[&str]) -> Declaration {
    assert!(
        starts_with_any(declaration.key, prefixes),
        "the key has another crate's prefix"
    );
    assert!(
        is_key(declaration.key),
        "a key is lower-case words joined by dots and underscores"
    );
    assert!(!declaration.about.is_empty(), "a row says what happened");
    check_measure(declaration.kind, declaration.fields);
    match declaration.alarm {
        Alarm::Page(when, runbook)
        | Alarm::Rollback(when, runbook)
        | Alarm::Ticket(when, runbook) => {
            assert!(
                !runbook.0.is_empty(),
                "an alarm names its section of the runbook"
            );
            assert!(
                fits(when, declaration.kind),
                "the condition does not fit the kind of signal"
            );
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
    declaration
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

const fn fits(when: When, kind: Kind) -> bool {
    match when {
        When::Any(_) | When::MoreThan(..) => matches!(kind, Kind::Counter | Kind::Duration),
        When::Above(..) => matches!(kind, Kind::Gauge),
        When::Slow(..) => matches!(kind, Kind::Duration),
    }
}

const fn is_key(key: &str) -> bool {
    let (bytes, mut index) = (key.as_bytes(), 0);
    while index < bytes.len() {
        if !matches!(bytes[index], b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.') {
            return false;
        }
        index += 1;
    }
    true
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

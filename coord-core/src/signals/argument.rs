//! What a signal's field may be, and what each type of field becomes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Role;
use crate::{Channel, FencingToken, Key, Name};

/// A type that can be a signal's field.
///
/// Closed enums get it from [`labels!`](crate::labels). Open text is no argument: a label with
/// unbounded values does not compile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a signal",
    note = "a label is a closed enum with `labels!`; free text for the log line is a `Detail`"
)]
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

//! The six kinds in which every call of the coord crates can fail.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// The result of a coord call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a failure means for the caller, sorted by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Not executed: nothing happened. Back off, or degrade as configured.
    Unavailable,
    /// Sent, not answered: it may have happened. Ask what happened before acting.
    Timeout,
    /// Another owner had it for the whole wait. Give up, or wait with jitter.
    Contended,
    /// You held it and no longer do. Stop the protected work now.
    Lost,
    /// Can never succeed as asked. Fix the call.
    Invalid,
    /// What is stored is not ours. Touch nothing.
    Corrupt,
}

impl ErrorKind {
    /// The kind as a lower-case word, as logs and labels carry it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Contended => "contended",
            Self::Lost => "lost",
            Self::Invalid => "invalid",
            Self::Corrupt => "corrupt",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A failed call: its kind, what was attempted, and the cause underneath.
///
/// An expected outcome ("somebody else holds it") is a value of the call's own type, not an error.
///
/// `{}` shows the kind and what was attempted, and leaves the cause to [`source`](StdError::source),
/// as whoever prints a chain of causes expects. `{:#}` shows all in one line, for a log that prints
/// no chains:
///
/// ```
/// use coord_core::Error;
///
/// let cause = std::io::Error::other("connection refused");
/// let error = Error::unavailable("connecting to redis at 10.0.0.7:6379").with_source(cause);
///
/// assert_eq!(error.to_string(), "unavailable: connecting to redis at 10.0.0.7:6379");
/// assert_eq!(
///     format!("{error:#}"),
///     "unavailable: connecting to redis at 10.0.0.7:6379: connection refused"
/// );
/// ```
#[derive(Debug, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind, self.message)?;
        if formatter.alternate() {
            let causes = std::iter::successors(self.source(), |cause| StdError::source(*cause));
            for cause in causes {
                write!(formatter, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl Error {
    /// An error of `kind`; `message` says what was attempted on what, in lower case.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Nothing happened; see [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The outcome is unknown; see [`ErrorKind::Timeout`].
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Timeout, message)
    }

    /// Others had it for the whole wait; see [`ErrorKind::Contended`].
    pub fn contended(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Contended, message)
    }

    /// It was held and no longer is; see [`ErrorKind::Lost`].
    pub fn lost(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Lost, message)
    }

    /// The call can never succeed as asked; see [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Something foreign is stored there; see [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// Keeps the cause underneath; its text is its own.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the failure means for the caller.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was attempted, without the kind in front.
    pub fn message(&self) -> &str {
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_kind_and_message_and_leaves_the_text_of_its_source_to_the_source() {
        let error = Error::timeout("claim of orders").with_source(std::io::Error::other("cut"));

        assert_eq!(error.to_string(), "timeout: claim of orders");
        assert_eq!(error.source().expect("kept").to_string(), "cut");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }

    #[test]
    fn an_error_in_one_line_tells_every_cause_once() {
        let cause = Error::invalid("authenticating").with_source(std::io::Error::other("no user"));
        let error = Error::unavailable("claim of orders").with_source(std::sync::Arc::new(cause));

        let line = "unavailable: claim of orders: invalid: authenticating: no user";
        assert_eq!(format!("{error:#}"), line);
    }
}

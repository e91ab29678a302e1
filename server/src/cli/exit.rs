//! How a command ends that did not do what it was asked.

use std::error::Error as StdError;
use std::process::ExitCode;

use coord_core::{Error, ErrorKind};

/// What the help says of them.
pub(super) const CODES: &str = "\
Exit codes:
  0  it was done
  1  it was looked at, and is not well: a check fails, a workflow failed or goes on, a history
     does not hold, hints do not pass
  2  it cannot be: wrong arguments, a wrong address, no schema, no rights, or what a workflow
     stands in refuses it
  3  there is no such workflow, schedule, lock or lease, or no file of that database
  4  the database, Redis or the node does not answer, and nothing happened
  5  no answer came, and it may have happened: look before you ask again
  6  others changed it at the same time, and nothing happened
  7  what is stored there is not of this program, and nothing was touched";

/// What `1` is for.
pub(super) const NOT_WELL: u8 = 1;

/// Why a command did not do what it was asked.
pub(super) enum Failure {
    /// There is no such thing.
    Missing(String),
    /// Everything else, sorted by what its caller does next.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Failure {
    pub(super) fn missing(what: &str, id: &dyn std::fmt::Display) -> Self {
        Self::Missing(format!("there is no {what} {id}"))
    }

    /// Says why on standard error.
    pub(super) fn print(&self) -> ExitCode {
        eprintln!("coord: {}", self.message());
        ExitCode::from(self.code())
    }

    fn message(&self) -> String {
        match self {
            Self::Missing(message) => message.clone(),
            Self::Failed(error) => told(error),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Missing(_) => 3,
            Self::Failed(error) => match error.kind() {
                ErrorKind::Invalid => 2,
                ErrorKind::Unavailable => 4,
                ErrorKind::Timeout => 5,
                ErrorKind::Contended | ErrorKind::Lost => 6,
                ErrorKind::Corrupt => 7,
            },
        }
    }
}

/// What failed and why, in one line: a cause that the text before it names already adds nothing.
pub(super) fn told(error: &Error) -> String {
    let mut text = error.message().to_owned();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = match next.downcast_ref::<Error>() {
            Some(ours) => ours.message().to_owned(),
            None => next.to_string(),
        };
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = Error::unavailable("connecting: connection refused");
        let error = Error::unavailable("listing runs").with_source(cause);

        assert_eq!(told(&error), "listing runs: connecting: connection refused");
        let again = Error::invalid("no such zone: Mars").with_source(Error::invalid("Mars"));
        assert_eq!(told(&again), "no such zone: Mars");
    }

    #[test]
    fn every_way_to_end_has_a_code_that_the_help_explains() {
        for kind in [
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::Contended,
            ErrorKind::Lost,
            ErrorKind::Invalid,
            ErrorKind::Corrupt,
        ] {
            let code = Failure::from(Error::new(kind, "it")).code();
            assert!(CODES.contains(&format!("\n  {code}  ")), "{kind}");
        }
    }
}

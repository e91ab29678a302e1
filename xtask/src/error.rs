//! How a task fails: sorted by the exit code, which is what a caller acts on.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// The outcome of a step of a task.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a task ended without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The task ran and found something wrong.
    Red(String),
    /// The task could not run: something it needs is missing, or it was asked for wrongly.
    Missing(String),
    /// A signal ended it, and what it had started was stopped.
    Interrupted(i32),
}

impl Failure {
    /// A file or folder that could not be read or written.
    pub(crate) fn file(action: &str, path: &Path, cause: &dyn fmt::Display) -> Self {
        Self::Missing(format!("cannot {action} {}: {cause}", path.display()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Red(_) => ExitCode::from(1),
            Self::Missing(_) => ExitCode::from(2),
            // Signal numbers are small, so the sum stays below 256, as shells have it.
            Self::Interrupted(signal) => ExitCode::from(128_u8.saturating_add(*signal as u8)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Red(what) | Self::Missing(what) => write!(out, "error: {what}"),
            Self::Interrupted(signal) => {
                write!(
                    out,
                    "interrupted by signal {signal}: everything started was stopped"
                )
            }
        }
    }
}

//! Why a value could not be had.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, ErrorKind};

/// Why [`get_or_fetch`](crate::Cache::get_or_fetch) has no value. All callers of one load share it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The loader returned this error.
    #[error("the loader failed")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
    /// The load took longer than the cache's load timeout, here or in the process that loads.
    #[error("the load took longer than {0:?}")]
    TimedOut(Duration),
    /// The loader panicked, or its runtime ended.
    #[error("the loader panicked or its runtime ended")]
    Panicked,
}

impl LoadError {
    /// The loader's own error, if it was an `E`.
    pub fn cause<E: StdError + 'static>(&self) -> Option<&E> {
        match self {
            Self::Failed(error) => error.downcast_ref(),
            Self::TimedOut(_) | Self::Panicked => None,
        }
    }

    /// What it means for the caller: `Timeout` for a load that took too long, the loader's own
    /// kind where it failed with a [`coord_core::Error`], and `Unavailable` otherwise.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TimedOut(_) => ErrorKind::Timeout,
            Self::Failed(_) => self
                .cause::<Error>()
                .map_or(ErrorKind::Unavailable, Error::kind),
            Self::Panicked => ErrorKind::Unavailable,
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::new(error.kind(), "loading a value for the cache").with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_error_becomes_the_kind_that_its_loader_gave() {
        let kind = |error: LoadError| Error::from(error).kind();
        let failed = |error: Error| LoadError::Failed(Arc::new(error));

        assert_eq!(kind(failed(Error::contended("a"))), ErrorKind::Contended);
        let other = LoadError::Failed(Arc::new(std::io::Error::other("disk")));
        assert_eq!(
            other.cause::<std::io::Error>().expect("kept").to_string(),
            "disk"
        );
        assert_eq!(kind(other), ErrorKind::Unavailable);
        let late = LoadError::TimedOut(Duration::from_secs(1));
        assert_eq!(kind(late), ErrorKind::Timeout);
    }
}

//! The client's errors as kinds.

use async_memcached::{Error as Vendor, ErrorKind, Status};
use coord_core::Error;

/// What went wrong with `what`.
pub(super) fn at(what: &'static str) -> impl Fn(Vendor) -> Error {
    move |cause| {
        let error = match &cause {
            // It was sent, or part of it, and nobody knows more.
            Vendor::Io(_) => Error::timeout(what),
            Vendor::Protocol(Status::Error(kind)) => match kind {
                ErrorKind::NonexistentCommand => {
                    Error::invalid(format!("{what}: the server is older than memcached 1.6"))
                }
                // All that a call of ours is refused for is what lies under its key.
                ErrorKind::Client(_) => Error::corrupt(what),
                ErrorKind::Server(_) => Error::unavailable(what),
                ErrorKind::KeyTooLong | ErrorKind::OpaqueTooLong => Error::invalid(what),
                ErrorKind::Generic(_) | ErrorKind::Protocol(_) => {
                    Error::timeout(format!("{what}: the answer does not read"))
                }
            },
            Vendor::ParseError(_) => Error::timeout(format!("{what}: the answer does not read")),
            // It was not sent, or was told to have done nothing.
            Vendor::Connect(_) | Vendor::ConnectionClosed | Vendor::Protocol(_) => {
                Error::unavailable(what)
            }
        };
        error.with_source(cause)
    }
}

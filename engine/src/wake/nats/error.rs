//! The client's errors as kinds.

use async_nats::client::{FlushError, PublishError, PublishErrorKind};
use async_nats::{ConnectError, ConnectErrorKind, ServerError, SubscribeError};
use coord_core::Error;

use super::{HEARING, SENDING};

pub(super) fn at_connect(cause: ConnectError) -> Error {
    const WHAT: &str = "connecting to NATS";
    let error = match cause.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            Error::invalid(format!(
                "{WHAT}: it does not let this user in, whom NATS_USER with NATS_PASSWORD, NATS_TOKEN or NATS_URL names"
            ))
        }
        ConnectErrorKind::ServerParse => Error::invalid(WHAT),
        ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Tls
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => Error::unavailable(WHAT),
    };
    error.with_source(cause)
}

pub(super) fn at_subscribe(cause: SubscribeError) -> Error {
    Error::unavailable(HEARING).with_source(cause)
}

pub(super) fn at_publish(cause: PublishError) -> Error {
    let error = match cause.kind() {
        PublishErrorKind::Send => Error::unavailable(SENDING),
        PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => {
            Error::invalid(SENDING)
        }
    };
    error.with_source(cause)
}

/// It is with the client, which may have sent it.
pub(super) fn at_flush(cause: FlushError) -> Error {
    Error::timeout(SENDING).with_source(cause)
}

/// What the server says of its own accord, such as that this user lacks a permission.
pub(super) fn refused(cause: &ServerError) -> Error {
    Error::unavailable("hearing hints from NATS: the server refuses").with_source(cause.to_string())
}

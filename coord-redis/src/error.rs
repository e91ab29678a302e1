//! The only place that reads the codes of Redis and the kinds of its client.

use coord_core::{Error, ErrorKind};
use redis::RedisError;

use crate::config::Address;
use crate::signals::Refusal;

/// What became of a command that did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The node refused it before execution; another node or another moment may take it.
    Refused(Refusal),
    /// The slot lives on another node, for good (`MOVED`) or for this one command (`ASK`).
    Elsewhere { address: Address, once: bool },
    /// The server does not know the script by its digest.
    UnknownScript,
    /// The connection ended while the reply was outstanding: it may have been executed.
    Dropped,
    /// No reply in time: it may have been executed.
    Unanswered,
    /// It will fail in the same way again.
    Final(ErrorKind),
}

/// Sorts a vendor error by what the caller does next. `scripted` says that a script was running.
pub(crate) fn failure(error: &RedisError, scripted: bool) -> Failure {
    if error.is_timeout() {
        return Failure::Unanswered;
    }
    let Some(code) = error.code() else {
        return match error.kind() {
            redis::ErrorKind::AuthenticationFailed | redis::ErrorKind::InvalidClientConfig => {
                Failure::Final(ErrorKind::Invalid)
            }
            // Broken streams, unparsable replies: the connection is of no more use.
            _ => Failure::Dropped,
        };
    };
    match code {
        "MOVED" | "ASK" => match error.redirect_node() {
            Some((node, _)) => Failure::Elsewhere {
                address: Address::from_node(node),
                once: code == "ASK",
            },
            None => Failure::Refused(Refusal::ClusterDown),
        },
        "NOSCRIPT" => Failure::UnknownScript,
        "READONLY" => Failure::Refused(Refusal::ReadOnly),
        "LOADING" => Failure::Refused(Refusal::Loading),
        "MASTERDOWN" => Failure::Refused(Refusal::MasterDown),
        "CLUSTERDOWN" | "TRYAGAIN" => Failure::Refused(Refusal::ClusterDown),
        "BUSY" | "UNKILLABLE" => Failure::Refused(Refusal::Busy),
        "OOM" => Failure::Refused(Refusal::OutOfMemory),
        "NOREPLICAS" => Failure::Refused(Refusal::NoReplicas),
        "MISCONF" => Failure::Refused(Refusal::NotPersisting),
        "NOPERM" => Failure::Refused(Refusal::NotPermitted),
        // The stream's consumer group is gone, or a blocked call was sent away: nothing was read.
        "NOGROUP" | "UNBLOCKED" if !scripted => Failure::Final(ErrorKind::Unavailable),
        "NOAUTH" | "WRONGPASS" | "CROSSSLOT" | "NOPROTO" => Failure::Final(ErrorKind::Invalid),
        "WRONGTYPE" => Failure::Final(ErrorKind::Corrupt),
        // A script may have written before it failed; a plain command that failed did nothing.
        _ if scripted => Failure::Final(ErrorKind::Timeout),
        _ => Failure::Final(ErrorKind::Invalid),
    }
}

/// Whether a refusal may pass within one deadline, so that waiting for it makes sense.
pub(crate) fn passes(refusal: Refusal) -> bool {
    match refusal {
        Refusal::ReadOnly
        | Refusal::Loading
        | Refusal::MasterDown
        | Refusal::ClusterDown
        | Refusal::Busy => true,
        Refusal::OutOfMemory
        | Refusal::NoReplicas
        | Refusal::NotPersisting
        | Refusal::NotPermitted => false,
    }
}

/// What a refusal means for the caller, and what to do about it.
pub(crate) fn refused(
    refusal: Refusal,
    what: &str,
    address: &Address,
    source: RedisError,
) -> Error {
    let (kind, why) = match refusal {
        Refusal::ReadOnly => (ErrorKind::Unavailable, "is a read-only replica"),
        Refusal::Loading => (ErrorKind::Unavailable, "is loading its data set"),
        Refusal::MasterDown => (ErrorKind::Unavailable, "has lost its master"),
        Refusal::ClusterDown => (ErrorKind::Unavailable, "does not serve this slot now"),
        Refusal::Busy => (
            ErrorKind::Unavailable,
            "is busy with a script of somebody else",
        ),
        Refusal::OutOfMemory => (ErrorKind::Unavailable, "is out of memory: raise maxmemory"),
        Refusal::NoReplicas => (
            ErrorKind::Unavailable,
            "has too few replicas for its min-replicas-to-write",
        ),
        Refusal::NotPersisting => (
            ErrorKind::Unavailable,
            "cannot persist and stops writes: look at its disk",
        ),
        Refusal::NotPermitted => (ErrorKind::Invalid, "does not permit it to this ACL user"),
    };
    Error::new(kind, format!("{what}: redis at {address} {why}")).with_source(source)
}

/// An error while a connection was being made: nothing was executed.
pub(crate) fn not_connected(what: &str, source: RedisError) -> Error {
    let kind = match failure(&source, false) {
        Failure::Final(kind) => kind,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, what.to_owned()).with_source(source)
}

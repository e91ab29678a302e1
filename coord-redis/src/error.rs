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
    Elsewhere {
        slot: u16,
        address: Address,
        once: bool,
    },
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
    let inner = error.detail().filter(|_| scripted);
    match inner
        .and_then(|message| code_within(code, message))
        .unwrap_or(code)
    {
        "MOVED" | "ASK" => match error.redirect_node() {
            Some((node, slot)) => Failure::Elsewhere {
                slot,
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
        // It will be forbidden again; and it is not repeated, since it may have written before.
        _ if scripted && is_forbidden_within(error) => Failure::Final(ErrorKind::Invalid),
        // A script may have written before it failed; a plain command that failed did nothing.
        _ if scripted => Failure::Final(ErrorKind::Timeout),
        _ => Failure::Final(ErrorKind::Invalid),
    }
}

/// What a script of Redis 6.2 says before the number of the line in which it failed.
const PLACE: &str = "@user_script:";

/// The code of a command that failed inside a script. Up to Redis 6.2 it stands in the message:
/// `ERR Error running script (call to f_0a…): @user_script:1: @user_script: 1: -OOM command not …`,
/// or `@user_script: 1: -OOM command not …` where the script returned what it caught.
///
/// Without it, a script at a replica or at a full server would end as one that may have written.
fn code_within<'a>(code: &str, message: &'a str) -> Option<&'a str> {
    let place = match code {
        "ERR" => message.rsplit_once(PLACE)?.1,
        PLACE => message,
        _ => return None,
    };
    let (line, said) = place.split_once(": ")?;
    line.trim_start().parse::<u32>().ok()?;
    let (code, _) = said.strip_prefix('-').unwrap_or(said).split_once(' ')?;
    let is_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then_some(code)
}

/// Whether a script ran into a command that the ACL user may not run. The servers have no code for
/// that, only these words: of Redis up to 7.0, and of later ones and Valkey.
fn is_forbidden_within(error: &RedisError) -> bool {
    let said = error.detail().unwrap_or_default();
    said.contains("The user executing the script can't ")
        || said.contains("ACL failure in script: ")
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

/// An error that no later attempt mends, of `what` was asked of the server.
pub(crate) fn final_error(kind: ErrorKind, what: String, source: RedisError) -> Error {
    let message = match remedy(&source) {
        Some(remedy) => format!("{what}: {remedy}"),
        None => what,
    };
    Error::new(kind, message).with_source(source)
}

/// What to do about an error of the configuration.
fn remedy(error: &RedisError) -> Option<&'static str> {
    if is_forbidden_within(error) {
        return Some("it does not permit the ACL user a command of its script");
    }
    match (error.code(), error.kind()) {
        (Some("NOAUTH"), _) => Some("it wants a user or password, which the Redis URL carries"),
        (Some("WRONGPASS"), _) | (_, redis::ErrorKind::AuthenticationFailed) => {
            Some("it refuses the user or password of the Redis URL")
        }
        _ => None,
    }
}

/// An error while a connection was being made: nothing was executed.
pub(crate) fn not_connected(what: &str, source: RedisError) -> Error {
    let kind = match failure(&source, false) {
        Failure::Final(kind) => kind,
        _ => ErrorKind::Unavailable,
    };
    final_error(kind, what.to_owned(), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_inside_a_script_is_found_where_redis_6_2_puts_it() {
        let called = "Error running script (call to f_0a9f75e9): ";
        for (said, code) in [
            (
                "@user_script:2: WRONGTYPE Operation against a key",
                Some("WRONGTYPE"),
            ),
            (
                "@user_script:1: @user_script: 1: -OOM command not allowed",
                Some("OOM"),
            ),
            (
                "@user_script:12: @user_script: 12: -READONLY You can't write",
                Some("READONLY"),
            ),
            // No code: the prose of an ACL, an error of the script itself, a number of Lua.
            (
                "@user_script:1: @user_script: 1: The user executing the script",
                None,
            ),
            ("@user_script:1: user_script:1: boom", None),
            ("@user_script:1: A value is nil", None),
            ("", None),
        ] {
            let message = format!("{called}{said}");
            assert_eq!(code_within("ERR", &message), code, "{said}");
        }
        let caught = "16: -OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(code_within("@user_script:", caught), Some("OOM"));
        assert_eq!(code_within("WRONGTYPE", "1: -OOM"), None);
    }

    #[test]
    fn what_an_acl_forbids_inside_a_script_is_invalid_in_the_words_of_every_server() {
        let within = |said: &str| {
            let kind = redis::ServerErrorKind::ResponseError.into();
            failure(&RedisError::from((kind, "", said.to_owned())), true)
        };
        for said in [
            "Error running script (call to f_0a): @user_script:1: @user_script: 1: The user \
             executing the script can't run this command or subcommand",
            "The user executing the script can't access at least one of the keys mentioned in the \
             command arguments script: 0a, on @user_script:1.",
            "ACL failure in script: User app has no permissions to run the 'time' command \
             script: 0a, on @user_script:1.",
        ] {
            let forbidden = within(said);
            assert!(
                matches!(forbidden, Failure::Final(ErrorKind::Invalid)),
                "{said}"
            );
        }
        let failed = within("user_script:1: boom script: 0a, on @user_script:1.");
        assert!(matches!(failed, Failure::Final(ErrorKind::Timeout)));
    }
}

//! What the AWS client says, sorted into our kinds. Nobody else reads a code of SQS.

use std::error::Error as StdError;
use std::io;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use coord_core::{Error, ErrorKind};

/// Refused before execution, for a reason that passes by itself: throttled, too much in flight, or
/// credentials that are being renewed.
const PASSING: &[&str] = &[
    "ExpiredToken",
    "ExpiredTokenException",
    "KMSThrottlingException",
    "KmsThrottled",
    "OverLimit",
    "RequestExpired",
    "RequestThrottled",
    "RequestThrottledException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// What `error` means of the call that was `doing` something.
///
/// What was never sent, or was refused for a while, is `Unavailable`. What SQS refuses for good is
/// `Invalid`. All else may have been executed: `Timeout`.
pub(super) fn sorted<E>(doing: &str, error: SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let (kind, what) = match &error {
        SdkError::ConstructionFailure(_) => (
            ErrorKind::Invalid,
            format!("{doing}: the client cannot make the request, look at its region and endpoint"),
        ),
        SdkError::DispatchFailure(_) if never_sent(&error) => (
            ErrorKind::Unavailable,
            format!("{doing}: the request could not be sent"),
        ),
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let code = answer.err().code().unwrap_or("without a code");
            (answered(status, code), refusal(doing, status, code))
        }
        _ => (
            ErrorKind::Timeout,
            format!("{doing}: sent, and not answered"),
        ),
    };
    Error::new(kind, what).with_source(error)
}

/// The kind of an answer that is an error.
fn answered(status: u16, code: &str) -> ErrorKind {
    let name = bare(code);
    if PASSING.contains(&name) || matches!(status, 429 | 503) {
        ErrorKind::Unavailable
    } else if status >= 500 || status == 408 {
        // It failed on the way, nobody knows how far.
        ErrorKind::Timeout
    } else {
        ErrorKind::Invalid
    }
}

/// The refusal in words, with what to do about those that are common.
fn refusal(doing: &str, status: u16, code: &str) -> String {
    let remedy = match bare(code) {
        "QueueDoesNotExist" | "NonExistentQueue" => {
            "; there is no queue of this URL, create it or correct the URL and the region"
        }
        "AccessDenied" | "AccessDeniedException" => {
            "; allow sqs:SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility and \
             GetQueueAttributes on both queues"
        }
        "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch" => {
            "; the credentials are not valid there"
        }
        _ => "",
    };
    format!("{doing}: refused with {code} ({status}){remedy}")
}

/// The code without what older protocols put before it.
fn bare(code: &str) -> &str {
    code.rsplit(['.', '#']).next().unwrap_or(code)
}

/// Whether one entry of a batch, which failed with this `code`, is to be sent again as it is.
pub(super) fn entry_passes(sender_fault: bool, code: &str) -> bool {
    !sender_fault || PASSING.contains(&bare(code))
}

/// Whether the connection was never there, or the request never ready (no credentials).
fn never_sent(error: &(dyn StdError + 'static)) -> bool {
    let mut io = false;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        io |= error.is::<io::Error>();
        next = error.source();
    }
    !io
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_sorted_by_what_it_says_of_the_execution() {
        for (status, code, kind) in [
            (400, "RequestThrottled", ErrorKind::Unavailable),
            (403, "ExpiredToken", ErrorKind::Unavailable),
            (
                400,
                "AWS.SimpleQueueService.OverLimit",
                ErrorKind::Unavailable,
            ),
            (503, "without a code", ErrorKind::Unavailable),
            (500, "InternalFailure", ErrorKind::Timeout),
            (502, "without a code", ErrorKind::Timeout),
            (
                400,
                "AWS.SimpleQueueService.NonExistentQueue",
                ErrorKind::Invalid,
            ),
            (403, "AccessDenied", ErrorKind::Invalid),
            (400, "SomethingNew", ErrorKind::Invalid),
        ] {
            assert_eq!(answered(status, code), kind, "{status} {code}");
        }
    }

    #[test]
    fn an_entry_is_sent_again_unless_it_is_wrong_itself() {
        assert!(entry_passes(false, "InternalError"));
        assert!(entry_passes(true, "RequestThrottled"));
        assert!(!entry_passes(true, "InvalidMessageContents"));
    }

    #[test]
    fn a_common_refusal_says_what_to_do() {
        let text = refusal(
            "receiving from a.fifo",
            400,
            "com.amazonaws.sqs#QueueDoesNotExist",
        );

        assert!(text.contains("create it"), "{text}");
    }
}

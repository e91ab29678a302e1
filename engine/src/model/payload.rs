//! What workflows, activities and signals hand to each other, and how they fail.

use std::fmt;
use std::sync::Arc;

use coord_core::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes that the engine does not look into, with the name of the codec that wrote them.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// Who can read it; `json` for what this crate writes.
    pub codec: Arc<str>,
    /// The encoded value.
    pub bytes: Arc<[u8]>,
}

/// The codec of typed inputs and results.
pub const JSON: &str = "json";

impl Payload {
    /// `value` as JSON.
    ///
    /// # Errors
    /// `Invalid` when it has no JSON form, such as a map whose keys are no strings.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Error::invalid("encoding a payload as json").with_source(error))?;
        Ok(Self {
            codec: JSON.into(),
            bytes: bytes.into(),
        })
    }

    /// The value that it holds.
    ///
    /// # Errors
    /// `Corrupt` when another codec wrote it, or when it is no `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        if &*self.codec != JSON {
            let message = format!("reading a payload of codec {} as json", self.codec);
            return Err(Error::corrupt(message));
        }
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let wanted = std::any::type_name::<T>();
            Error::corrupt(format!("reading a payload as {wanted}")).with_source(error)
        })
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes are the caller's business, and may be secret.
        write!(formatter, "{} bytes of {}", self.bytes.len(), self.codec)
    }
}

/// Why a workflow, an activity or a step failed: a JSON object that is passed on as it is.
///
/// Fields that this crate does not know survive, so that a failure of a worker in another language
/// reaches another such worker whole. It is no [`std::error::Error`], so that `?` turns any error
/// into one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What sort of failure it is, for code: the name under which a retry policy excludes it.
    #[serde(rename = "type", default = "application")]
    pub kind: String,
    /// What happened, for people.
    pub message: String,
    /// Whether trying again cannot help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_retryable: bool,
    /// What led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Failure>>,
    /// Every other field.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The sort of a failure that names none.
const APPLICATION: &str = "application";

fn application() -> String {
    APPLICATION.to_owned()
}

impl Failure {
    /// The sort of what ended because it was no longer wanted.
    pub const CANCELLED: &'static str = "cancelled";
    /// The sort of what took too long.
    pub const TIMED_OUT: &'static str = "timed_out";
    /// The sort of what somebody ended.
    pub const TERMINATED: &'static str = "terminated";
    /// The sort of what exceeds one of the [limits](crate::Limits).
    pub const LIMIT_EXCEEDED: &'static str = "limit_exceeded";
    /// The sort of a value that is too large to be stored.
    pub const PAYLOAD_TOO_LARGE: &'static str = "payload_too_large";
    /// The sort of what failed and could not be undone.
    pub const NOT_UNDONE: &'static str = "not_undone";
    /// The sort of what a workflow returns to go on as another run: no failure at all.
    pub const CONTINUES: &'static str = "continues_as_new";
    /// The sort of what panicked.
    pub const PANICKED: &'static str = "panicked";

    /// A failure that says `message`; trying again may help.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            kind: application(),
            message: message.into(),
            non_retryable: false,
            cause: None,
            more: Map::new(),
        }
    }

    /// The same failure as one of sort `kind`.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// The same failure as one that no retry mends.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.non_retryable = true;
        self
    }

    /// The same failure with what led to it.
    #[must_use]
    pub fn caused_by(mut self, cause: Self) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}

/// The most bytes of a failure as JSON: a database has to take it along with others, and whoever
/// reads it is served by its beginning.
const LONGEST_FAILURE: usize = 64 * 1024;
/// The most bytes of an error that is shown beside a task.
const LONGEST_SHOWN: usize = 8 * 1024;

impl Failure {
    /// The same failure, or the beginning of its message where the whole is too long to be stored.
    pub(crate) fn bounded(self) -> Self {
        let length = serde_json::to_vec(&self).map_or(usize::MAX, |json| json.len());
        if length <= LONGEST_FAILURE {
            return self;
        }
        // A character takes at most six bytes of JSON for each of its own.
        let most = LONGEST_FAILURE / 16;
        Self {
            kind: beginning(&self.kind, most),
            message: beginning(&self.message, most),
            non_retryable: self.non_retryable,
            cause: None,
            more: Map::new(),
        }
    }
}

/// An error as it is shown beside a task: any database takes it.
pub(crate) fn shown(error: &str) -> String {
    // PostgreSQL has no text with a zero character.
    beginning(error, LONGEST_SHOWN).replace('\0', "\u{FFFD}")
}

/// The first `most` bytes of `text`, and how long it was.
fn beginning(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    let beginning = &text[..end.unwrap_or(0)];
    format!("{beginning}… ({} bytes)", text.len())
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind, self.message)
    }
}

/// Any error becomes a failure that trying again may mend, with its causes in the message.
impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(coord_core::signals::Detail::error(&error).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_another_language_is_passed_on_whole() {
        let text =
            r#"{"type":"IOError","message":"no space","class":"App\\Disk","exception":{"line":7}}"#;
        let failure: Failure = serde_json::from_str(text).expect("a failure");

        let passed: Value = serde_json::to_value(&failure).expect("an object");

        assert_eq!(passed, serde_json::from_str::<Value>(text).expect("json"));
    }

    #[test]
    fn of_a_failure_that_is_too_long_the_beginning_stays() {
        let overhead = serde_json::to_vec(&Failure::new("")).expect("json").len();
        let longest = Failure::new("x".repeat(LONGEST_FAILURE - overhead));
        let control = Failure::new("ä\u{1}".repeat(LONGEST_FAILURE)).non_retryable();

        assert_eq!(longest.clone().bounded(), longest);
        let longer = Failure::new(format!("{}x", longest.message)).bounded();
        assert!(longer.message.starts_with("xxx") && longer.message.ends_with(" bytes)"));
        let bounded = control.bounded();
        assert!(bounded.non_retryable);
        assert!(serde_json::to_vec(&bounded).expect("json").len() <= LONGEST_FAILURE);
    }

    #[test]
    fn an_error_is_shown_without_what_a_database_does_not_take() {
        assert_eq!(shown("before\0after"), "before\u{FFFD}after");
    }

    #[test]
    fn a_payload_of_another_codec_is_not_guessed_at() {
        let payload = Payload {
            codec: "avro".into(),
            bytes: b"1".as_slice().into(),
        };

        let error = payload.read::<u32>().expect_err("another codec");

        assert_eq!(error.kind(), coord_core::ErrorKind::Corrupt);
    }
}

//! How values become payloads, and payloads become values again.

use std::fmt;
use std::sync::Arc;

use coord_core::signals::Detail;
use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::limits::{Limit, Limits};
use crate::model::{Attributes, Failure, JSON, Payload};
use crate::signals::Signal;

/// What is done to encoded values on their way into the database and back, such as encryption.
///
/// It sees the JSON of each input, result, signal and answer; names, ids, failures and memos go by.
/// Every process that works on the same runs needs the same one. What was written before a codec
/// was set is plain JSON, and stays readable.
pub trait Codec: Send + Sync + 'static {
    /// What stands beside the bytes that it wrote, so that nobody else guesses at them. Stored: a
    /// name never changes its meaning. Not `json`.
    fn name(&self) -> &'static str;

    /// What is stored in place of `json`.
    ///
    /// # Errors
    /// Whatever keeps it from encoding; inside of a workflow the turn is tried again.
    fn encode(&self, json: Vec<u8>) -> Result<Vec<u8>>;

    /// What it was given to encode.
    ///
    /// # Errors
    /// Whatever keeps it from decoding; inside of a workflow the turn is tried again.
    fn decode(&self, stored: &[u8]) -> Result<Vec<u8>>;
}

/// The codec and the limits of an engine.
#[derive(Clone, Default)]
pub(crate) struct Values {
    codec: Option<(Arc<str>, Arc<dyn Codec>)>,
    limits: Limits,
}

/// Why a value cannot become a payload, or a payload a value.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It never can: the same failure comes whenever it is tried.
    Value(Failure),
    /// The codec could not.
    Codec(Error),
}

impl Values {
    pub(crate) fn new(codec: Option<Arc<dyn Codec>>, limits: Limits) -> Self {
        Self {
            codec: codec.map(|codec| (codec.name().into(), codec)),
            limits,
        }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// `value` as it is stored.
    pub(crate) fn encode(&self, value: &impl Serialize) -> Result<Payload, Unfit> {
        let mut payload = Payload::json(value)
            .map_err(|error| Unfit::Value(Failure::from(error).non_retryable()))?;
        if let Some((name, codec)) = &self.codec {
            let stored = codec.encode(payload.bytes.to_vec()).map_err(Unfit::Codec)?;
            payload = Payload {
                codec: Arc::clone(name),
                bytes: stored.into(),
            };
        }
        let (length, most) = (payload.bytes.len(), self.limits.payload_bytes);
        self.measure(Limit::PayloadBytes, length).map_err(|_| {
            let message = format!("a payload has {length} bytes, more than {most}");
            let failure = Failure::new(message).of_kind(Failure::PAYLOAD_TOO_LARGE);
            Unfit::Value(failure.non_retryable())
        })?;
        Ok(payload)
    }

    /// Whether a memo is one that is stored.
    pub(crate) fn check_memo(&self, memo: &Map<String, Value>) -> Result<(), Failure> {
        if memo.is_empty() {
            return Ok(());
        }
        let json =
            serde_json::to_vec(memo).map_err(|error| Failure::from(error).non_retryable())?;
        self.measure(Limit::MemoBytes, json.len())
    }

    /// Whether search attributes are such that are stored.
    pub(crate) fn check_attributes(&self, attributes: &Attributes) -> Result<(), Failure> {
        self.measure(Limit::AttributeBytes, attributes.size())
    }

    /// Reports what comes near `limit`, and refuses what exceeds it.
    fn measure(&self, limit: Limit, length: usize) -> Result<(), Failure> {
        let most = limit.of(&self.limits);
        let about = || Detail::new(format!("{length} bytes"));
        if Limits::is_exceeded(most, length) {
            let about = about();
            Signal::LimitExceeded { limit, about }.emit();
            return Err(limit.exceeded(&self.limits));
        }
        if self.limits.is_beyond_near(most, length) {
            let about = about();
            Signal::LimitNear { limit, about }.emit();
        }
        Ok(())
    }

    /// The value of a payload; one of `()` may be missing.
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        payload: Option<&Payload>,
    ) -> Result<T, Unfit> {
        let value = |error: Error| Unfit::Value(Failure::from(error).non_retryable());
        let Some(payload) = payload else {
            return serde_json::from_str("null").map_err(|error| {
                value(Error::corrupt("reading a missing payload").with_source(error))
            });
        };
        match &self.codec {
            Some((name, codec)) if *name == payload.codec => {
                let bytes = codec.decode(&payload.bytes).map_err(Unfit::Codec)?;
                let plain = Payload {
                    codec: JSON.into(),
                    bytes: bytes.into(),
                };
                plain.read().map_err(value)
            }
            _ if &*payload.codec == JSON => payload.read().map_err(value),
            other => {
                // Another node may know it: nothing is decided by that it is not known here.
                let own = other.as_ref().map_or(JSON, |(name, _)| name);
                let message = format!(
                    "reading a payload of codec {}: this engine reads {JSON} and {own}",
                    payload.codec
                );
                Err(Unfit::Codec(Error::corrupt(message)))
            }
        }
    }
}

impl Values {
    /// As [`decode`](Self::decode), for who takes the payload as it is.
    pub(crate) fn read<T: DeserializeOwned>(&self, payload: Option<&Payload>) -> Result<T> {
        self.decode(payload).map_err(|unfit| match unfit {
            Unfit::Value(failure) => Error::corrupt(failure.message),
            Unfit::Codec(error) => error,
        })
    }
}

/// What was encoded before, for a call that may be made again.
pub(crate) fn encoded(value: &Result<Payload>) -> Result<Payload> {
    let again = |error: &Error| Error::new(error.kind(), error.to_string());
    value.as_ref().cloned().map_err(again)
}

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Value(failure) => Self::invalid(failure.to_string()),
            Unfit::Codec(error) => error,
        }
    }
}

/// For activities: what the codec could not, it may do at the next attempt.
impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Value(failure) => failure,
            Unfit::Codec(error) => Self::from(error),
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codec = self.codec.as_ref().map_or(JSON, |(name, _)| name);
        write!(formatter, "values as {codec}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Turns all bits around: enough to see that nothing goes by it.
    pub(crate) struct Inverted;

    impl Codec for Inverted {
        fn name(&self) -> &'static str {
            "inverted"
        }

        fn encode(&self, json: Vec<u8>) -> Result<Vec<u8>> {
            Ok(json.iter().map(|byte| !byte).collect())
        }

        fn decode(&self, stored: &[u8]) -> Result<Vec<u8>> {
            Ok(stored.iter().map(|byte| !byte).collect())
        }
    }

    fn inverted() -> Values {
        Values::new(Some(Arc::new(Inverted)), Limits::default())
    }

    #[test]
    fn what_a_codec_wrote_bears_its_name_and_comes_back() {
        let payload = inverted().encode(&"secret").expect("small");

        assert_eq!(&*payload.codec, "inverted");
        assert!(!payload.bytes.windows(6).any(|bytes| bytes == b"secret"));
        let value: String = inverted().decode(Some(&payload)).expect("its own");
        assert_eq!(value, "secret");
    }

    #[test]
    fn what_was_written_before_there_was_a_codec_stays_readable() {
        let plain = Values::default().encode(&7).expect("small");

        let value: u32 = inverted().decode(Some(&plain)).expect("json");

        assert_eq!(value, 7);
    }

    #[test]
    fn a_codec_that_is_not_known_here_is_named_and_decides_nothing() {
        let payload = inverted().encode(&7).expect("small");

        let unfit = Values::default().decode::<u32>(Some(&payload));

        let Err(Unfit::Codec(error)) = unfit else {
            panic!("{unfit:?}")
        };
        assert!(error.to_string().contains("inverted"), "{error}");
    }

    #[test]
    fn both_sides_of_the_largest_payload_hold() {
        let limits = Limits {
            payload_bytes: 10,
            ..Limits::default()
        };
        let values = Values::new(None, limits);

        assert!(values.encode(&"12345678").is_ok());
        let Err(Unfit::Value(failure)) = values.encode(&"123456789") else {
            panic!("it is too large")
        };
        assert_eq!(failure.kind, Failure::PAYLOAD_TOO_LARGE);
        assert!(failure.non_retryable);
    }

    #[test]
    fn both_sides_of_the_largest_memo_and_of_the_largest_attributes_hold() {
        let limits = Limits {
            memo_bytes: 11,
            attribute_bytes: 4,
            ..Limits::default()
        };
        let values = Values::new(None, limits);
        let memo = |text: &str| Map::from_iter([("a".to_owned(), text.into())]);
        let attributes = |text: &str| Attributes::new().with("a", text).expect("one");

        assert!(values.check_memo(&memo("123")).is_ok());
        let failure = values.check_memo(&memo("1234")).expect_err("too large");
        assert_eq!(failure.kind, Failure::LIMIT_EXCEEDED);
        assert!(values.check_attributes(&attributes("123")).is_ok());
        let failure = values.check_attributes(&attributes("1234"));
        assert_eq!(
            failure.expect_err("too large").kind,
            Failure::LIMIT_EXCEEDED
        );
    }
}

//! Values on the wire: plain JSON, or in the envelopes of the published SDKs.
//!
//! A workflow, signal, query or update of the engine takes one value. Callers send a list of
//! arguments: none of them is `null`, one is itself, and several are the list, as which a Rust tuple
//! reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::avro;

/// The codec of every envelope that is written.
pub(super) const CODEC: &str = "avro";

/// A value with the name of the codec that wrote it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub(super) struct Envelope {
    /// `avro`, or `json` for a blob that is the text of the value.
    pub(super) codec: String,
    /// The encoded value, in base64 for `avro`.
    pub(super) blob: String,
}

impl Envelope {
    pub(super) fn of(value: &Value) -> Self {
        Self {
            codec: CODEC.to_owned(),
            blob: avro::encode(value),
        }
    }

    fn open(&self) -> Result<Value, Problem> {
        match self.codec.as_str() {
            CODEC => avro::decode(&self.blob).map_err(|malformed| {
                let why = format!("the payload does not read: {}", malformed.why());
                Problem::unfit("invalid_payload", why)
            }),
            "json" => serde_json::from_str(&self.blob).map_err(|error| {
                let why = format!("the payload is no JSON: {error}");
                Problem::unfit("invalid_payload", why)
            }),
            other => {
                let why = format!("this node reads payloads of avro and json, not of {other:?}");
                Err(Problem::unfit("unsupported_payload_codec", why))
            }
        }
    }
}

/// Arguments as callers send them.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Arguments {
    /// The envelope of a list.
    Envelope(Envelope),
    /// The list.
    List(Vec<Value>),
}

/// The one value that `arguments` are.
pub(super) fn value(arguments: Option<Arguments>) -> Result<Value, Problem> {
    let mut list = match arguments {
        None => return Ok(Value::Null),
        Some(Arguments::List(list)) => list,
        Some(Arguments::Envelope(envelope)) => match envelope.open()? {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            one => vec![one],
        },
    };
    Ok(match list.len() {
        0 => Value::Null,
        1 => list.swap_remove(0),
        _ => Value::Array(list),
    })
}

/// The arguments that a stored value was sent as, or could have been.
pub(super) fn arguments(value: Value) -> Value {
    match value {
        Value::Null => Value::Array(Vec::new()),
        one => Value::Array(vec![one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(sent: Value) -> Result<Value, Problem> {
        value(Some(serde_json::from_value(sent).expect("arguments")))
    }

    #[test]
    fn arguments_become_one_value() {
        for (sent, expected) in [
            (json!([]), json!(null)),
            (json!([7]), json!(7)),
            (json!([[7]]), json!([7])),
            (json!([1, "a"]), json!([1, "a"])),
        ] {
            assert_eq!(read(sent.clone()).expect("a value"), expected);
            let envelope = json!({"codec": "avro", "blob": avro::encode(&sent)});
            assert_eq!(read(envelope).expect("a value"), expected);
            let envelope = json!({"codec": "json", "blob": sent.to_string()});
            assert_eq!(read(envelope).expect("a value"), expected);
        }
        assert_eq!(value(None).expect("a value"), json!(null));
    }

    #[test]
    fn an_envelope_that_does_not_read_is_a_problem() {
        for (codec, blob) in [("avro", "{}"), ("json", "{"), ("cloudpickle", "")] {
            assert!(
                read(json!({"codec": codec, "blob": blob})).is_err(),
                "{codec}"
            );
        }
    }
}

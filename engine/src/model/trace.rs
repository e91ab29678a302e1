//! How a trace is stored with what belongs to it.

use coord_core::TraceContext;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// As its text.
///
/// # Errors
/// Those of the serializer.
#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(super) fn serialize<S: Serializer>(
    trace: &Option<TraceContext>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    trace
        .as_ref()
        .map(TraceContext::to_string)
        .serialize(serializer)
}

/// A trace that does not read is none: it costs the trace, and not the run.
///
/// # Errors
/// Those of the deserializer.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<TraceContext>, D::Error> {
    let stored = Value::deserialize(deserializer)?;
    Ok(stored.as_str().and_then(TraceContext::from_text))
}

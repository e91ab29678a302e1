//! Search attributes on the wire: text, lists of text, numbers, truth values, and instants.

use coord_engine::model::{Attribute, Attributes};
use serde_json::{Map, Value};

use super::instant;
use super::problem::Problem;

/// What runs are found by, as the caller wrote it.
pub(super) fn read(named: &Map<String, Value>) -> Result<Attributes, Problem> {
    let mut attributes = Attributes::new();
    for (name, value) in named {
        let field = || format!("search_attributes.{name}");
        let value = attribute(value).ok_or_else(|| {
            let why = "it is to be text, a list of texts, a number, or true or false";
            Problem::field(&field(), why)
        })?;
        attributes = attributes
            .with(name, value)
            .map_err(|error| Problem::field(&field(), error.message()))?;
    }
    Ok(attributes)
}

/// A value of an attribute; `None` when it can be none.
pub(super) fn attribute(value: &Value) -> Option<Attribute> {
    Some(match value {
        Value::String(text) => Attribute::Keyword(text.clone()),
        Value::Bool(truth) => Attribute::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Attribute::Integer(whole),
            None => Attribute::Float(number.as_f64()?),
        },
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            Attribute::Keywords(texts.collect::<Option<_>>()?)
        }
        Value::Null | Value::Object(_) => return None,
    })
}

/// As the caller reads them.
pub(super) fn shown(attributes: &Attributes) -> Map<String, Value> {
    let shown = attributes.iter().map(|(name, value)| {
        let value = match value {
            Attribute::Keyword(text) => Value::from(text.clone()),
            Attribute::Keywords(texts) => Value::from(texts.clone()),
            Attribute::Integer(whole) => Value::from(*whole),
            Attribute::Float(number) => Value::from(*number),
            Attribute::Bool(truth) => Value::from(*truth),
            Attribute::Time(at) => instant::shown(*at).map_or(Value::Null, Value::from),
        };
        (name.to_owned(), value)
    });
    shown.collect()
}

//! What runs are found and described by.

use std::collections::BTreeMap;

use coord_core::{Error, Result};
use serde_json::{Map, Value};

use crate::model::{Attribute, Attributes, Timestamp};

/// A row of `workflow_attributes`: an attribute, or a part of one that is a list.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(in super::super) struct AttributeRow {
    pub(in super::super) run_id: String,
    pub(in super::super) name: String,
    pub(in super::super) place: i32,
    pub(in super::super) namespace: String,
    pub(in super::super) kind: String,
    pub(in super::super) text_value: Option<String>,
    pub(in super::super) integer_value: Option<i64>,
    pub(in super::super) float_value: Option<f64>,
}

/// A row of `workflow_memos`.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(in super::super) struct MemoRow {
    pub(in super::super) run_id: String,
    pub(in super::super) memo: String,
}

impl AttributeRow {
    /// The rows of `attributes`.
    pub(in super::super) fn of(namespace: &str, run: &str, attributes: &Attributes) -> Vec<Self> {
        let mut rows = Vec::new();
        for (name, attribute) in attributes.iter() {
            let row = Self {
                run_id: run.to_owned(),
                name: name.to_owned(),
                place: 0,
                namespace: namespace.to_owned(),
                kind: attribute.kind().to_owned(),
                text_value: None,
                integer_value: None,
                float_value: None,
            };
            match attribute {
                Attribute::Keywords(texts) => {
                    rows.extend((0..).zip(texts).map(|(place, text)| Self {
                        place,
                        text_value: Some(text.clone()),
                        ..row.clone()
                    }));
                }
                Attribute::Keyword(text) => rows.push(Self {
                    text_value: Some(text.clone()),
                    ..row
                }),
                Attribute::Float(number) => rows.push(Self {
                    float_value: Some(*number),
                    ..row
                }),
                _ => rows.push(Self {
                    integer_value: integer(attribute),
                    ..row
                }),
            }
        }
        rows
    }

    /// The attributes that these rows are, in the order of their places.
    pub(in super::super) fn attributes(rows: Vec<Self>) -> Result<Attributes> {
        let mut attributes = BTreeMap::new();
        for row in rows {
            let missing = || Error::corrupt(format!("reading attribute {}: no value", row.name));
            let text = row.text_value.clone().ok_or_else(missing);
            let integer = row.integer_value.ok_or_else(missing);
            let attribute = match row.kind.as_str() {
                "keyword" => Attribute::Keyword(text?),
                "integer" => Attribute::Integer(integer?),
                "bool" => Attribute::Bool(integer? != 0),
                "time" => Attribute::Time(Timestamp::from_micros(integer?)),
                "float" => Attribute::Float(row.float_value.ok_or_else(missing)?),
                "keywords" => {
                    let list = attributes.entry(row.name);
                    let list = list.or_insert_with(|| Attribute::Keywords(Vec::new()));
                    if let Attribute::Keywords(texts) = list {
                        texts.push(text?);
                    }
                    continue;
                }
                other => {
                    let message = format!("reading attribute {}: {other} is no kind", row.name);
                    return Err(Error::corrupt(message));
                }
            };
            attributes.insert(row.name, attribute);
        }
        Ok(Attributes::stored(attributes))
    }
}

/// The integer that stands for an attribute.
pub(in super::super) fn integer(attribute: &Attribute) -> Option<i64> {
    match attribute {
        Attribute::Integer(number) => Some(*number),
        Attribute::Bool(value) => Some(i64::from(*value)),
        Attribute::Time(instant) => Some(instant.as_micros()),
        Attribute::Keyword(_) | Attribute::Keywords(_) | Attribute::Float(_) => None,
    }
}

impl MemoRow {
    pub(in super::super) fn new(run: &str, memo: &Map<String, Value>) -> Result<Self> {
        let memo = serde_json::to_string(memo)
            .map_err(|error| Error::invalid("encoding a memo").with_source(error))?;
        Ok(Self {
            run_id: run.to_owned(),
            memo,
        })
    }

    pub(in super::super) fn memo(row: Option<Self>) -> Result<Map<String, Value>> {
        let Some(row) = row else {
            return Ok(Map::new());
        };
        serde_json::from_str(&row.memo)
            .map_err(|error| Error::corrupt("reading a memo").with_source(error))
    }
}

//! What describes a run to searches, and to people.

use std::collections::BTreeMap;

use coord_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Timestamp;

/// A value by which runs are found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// Text that is compared as a whole, byte by byte.
    Keyword(String),
    /// Several of them: a run is found by each.
    Keywords(Vec<String>),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// An instant.
    Time(Timestamp),
}

impl Attribute {
    /// As stored and as shown.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Keyword(_) => "keyword",
            Self::Keywords(_) => "keywords",
            Self::Integer(_) => "integer",
            Self::Float(_) => "float",
            Self::Bool(_) => "bool",
            Self::Time(_) => "time",
        }
    }

    /// How many bytes it counts as; `Err` says why it is none.
    fn size(&self) -> std::result::Result<usize, &'static str> {
        let size = match self {
            Self::Keyword(text) => text.len(),
            Self::Keywords(texts) if texts.is_empty() => return Err("is an empty list"),
            Self::Keywords(texts) => texts.iter().map(String::len).sum(),
            Self::Float(number) if !number.is_finite() => return Err("is no number"),
            Self::Integer(_) | Self::Float(_) | Self::Bool(_) | Self::Time(_) => size_of::<i64>(),
        };
        let texts = match self {
            Self::Keyword(text) => std::slice::from_ref(text),
            Self::Keywords(texts) => texts,
            _ => &[],
        };
        if texts.iter().any(|text| text.contains('\0')) {
            return Err("holds a zero character, which not every database can store");
        }
        if size > MAX_VALUE_BYTES {
            return Err("is longer than 2048 bytes");
        }
        Ok(size)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Keyword(text.to_owned())
    }
}

macro_rules! from {
    ($($Type:ty => $Kind:ident;)+) => {$(
        impl From<$Type> for Attribute {
            fn from(value: $Type) -> Self {
                Self::$Kind(value)
            }
        }
    )+};
}

from! {
    String => Keyword;
    Vec<String> => Keywords;
    i64 => Integer;
    f64 => Float;
    bool => Bool;
    Timestamp => Time;
}

/// The search attributes of a run, by name: at most 100, names of at most 128 bytes, values of at
/// most 2048, all together at most 40 KiB.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, Attribute>",
    into = "BTreeMap<String, Attribute>"
)]
pub struct Attributes(BTreeMap<String, Attribute>);

const MAX_ATTRIBUTES: usize = 100;
const MAX_NAME_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 2048;
const MAX_BYTES: usize = 40 * 1024;

impl Attributes {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// These, and `name`, in place of what it was before.
    ///
    /// # Errors
    /// `Invalid` when the name or the value is none, or when they are too many or too long.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Attribute>) -> Result<Self> {
        let (name, value) = (name.into(), value.into());
        let invalid = |why: &str| Err(Error::invalid(format!("search attribute {name:?} {why}")));
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return invalid("has no name of 1 to 128 bytes");
        }
        if let Err(why) = value.size() {
            return invalid(why);
        }
        if !self.0.contains_key(&name) && self.0.len() == MAX_ATTRIBUTES {
            return invalid("is one more than 100");
        }
        self.0.insert(name.clone(), value);
        if self.size() > MAX_BYTES {
            return invalid("brings them to more than 40 KiB");
        }
        Ok(self)
    }

    /// How many bytes their names and values have.
    pub(crate) fn size(&self) -> usize {
        let size = |(name, value): (&String, &Attribute)| name.len() + value.size().unwrap_or(0);
        self.0.iter().map(size).sum()
    }

    /// These without `name`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.get(name)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// What a store holds, which was checked before it came there.
    pub(crate) fn stored(attributes: BTreeMap<String, Attribute>) -> Self {
        Self(attributes)
    }
}

impl TryFrom<BTreeMap<String, Attribute>> for Attributes {
    type Error = Error;

    fn try_from(named: BTreeMap<String, Attribute>) -> Result<Self> {
        let with = |all: Self, (name, value)| all.with(name, value);
        named.into_iter().try_fold(Self::new(), with)
    }
}

impl From<Attributes> for BTreeMap<String, Attribute> {
    fn from(attributes: Attributes) -> Self {
        attributes.0
    }
}

/// What is shown of a run beside what it does.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Marks {
    /// What it is found by: all that it has from now on. `None` leaves them as they are.
    pub attributes: Option<Attributes>,
    /// What describes it to people, likewise.
    pub memo: Option<Map<String, Value>>,
}

impl Marks {
    /// Those of a run that begins: nothing where there is nothing.
    pub fn of_start(attributes: &Attributes, memo: &Map<String, Value>) -> Self {
        Self {
            attributes: (!attributes.is_empty()).then(|| attributes.clone()),
            memo: (!memo.is_empty()).then(|| memo.clone()),
        }
    }

    /// Whether they leave everything as it is.
    pub const fn is_empty(&self) -> bool {
        self.attributes.is_none() && self.memo.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_a_value_a_name_and_their_number_hold() {
        let with = |name: String, value: String| Attributes::new().with(name, value);

        assert!(with("a".to_owned(), "x".repeat(2048)).is_ok());
        assert!(with("a".to_owned(), "x".repeat(2049)).is_err());
        assert!(with("n".repeat(128), String::new()).is_ok());
        assert!(with("n".repeat(129), String::new()).is_err());
        assert!(with(String::new(), String::new()).is_err());
        let mut full = Attributes::new();
        for number in 0..100 {
            full = full.with(format!("a{number}"), true).expect("one of 100");
        }
        assert!(
            full.clone().with("a0", false).is_ok(),
            "in place of another"
        );
        assert!(full.with("a100", true).is_err());
    }

    #[test]
    fn all_together_have_a_size_and_what_is_read_is_checked_as_what_is_made() {
        // Nineteen of 2048 and four bytes each, and what is left of 40 KiB.
        let mut full = Attributes::new();
        for number in 10..29 {
            let value = "x".repeat(2048);
            full = full.with(format!("aa{number}"), value).expect("room");
        }
        let left = MAX_BYTES - full.size() - 1;

        assert!(full.clone().with("z", "x".repeat(left)).is_ok());
        assert!(full.with("z", "x".repeat(left + 1)).is_err());
        let read = |json: &str| serde_json::from_str::<Attributes>(json);
        assert!(read(r#"{"a":{"integer":1}}"#).is_ok());
        assert!(read(r#"{"":{"integer":1}}"#).is_err());
        let long = format!(r#"{{"a":{{"keyword":"{}"}}}}"#, "x".repeat(2049));
        assert!(read(&long).is_err());
    }

    #[test]
    fn what_a_database_could_not_give_back_is_refused() {
        let with = |value: Attribute| Attributes::new().with("a", value);

        assert!(with(Attribute::Float(f64::NAN)).is_err());
        assert!(with(Attribute::Keywords(Vec::new())).is_err());
        assert!(with(Attribute::Keyword("\0".to_owned())).is_err());
    }
}

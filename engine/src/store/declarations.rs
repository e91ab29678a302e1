//! The search attributes that a namespace declares.

use std::collections::BTreeMap;

use coord_core::{Error, Result};

use crate::model::Namespace;

/// How many search attributes a namespace declares at most: as many as a run may have.
pub(crate) const MAX_DECLARATIONS: u32 = 100;
/// The longest name, as for the attributes of runs.
const MAX_NAME_BYTES: usize = 128;

/// What the values of a search attribute are, as its namespace declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeKind {
    /// Text that is compared as a whole.
    Keyword,
    /// Text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// True or false.
    Bool,
    /// An instant.
    Datetime,
    /// Several keywords.
    KeywordList,
}

impl AttributeKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Keyword,
        Self::Text,
        Self::Int,
        Self::Double,
        Self::Bool,
        Self::Datetime,
        Self::KeywordList,
    ];

    /// As stored and as shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Text => "text",
            Self::Int => "int",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Datetime => "datetime",
            Self::KeywordList => "keyword_list",
        }
    }

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A search attribute to declare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub(crate) namespace: Namespace,
    pub(crate) name: String,
    pub(crate) kind: AttributeKind,
}

impl Declaration {
    /// Of `name`, in `namespace`.
    ///
    /// # Errors
    /// `Invalid` if the name does not begin with a letter, has anything but ASCII letters, digits
    /// and underscores, or is longer than 128 bytes.
    pub fn new(namespace: Namespace, name: impl Into<String>, kind: AttributeKind) -> Result<Self> {
        let name = name.into();
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if !name.starts_with(|it: char| it.is_ascii_alphabetic()) || !name.chars().all(is_part) {
            return Err(Error::invalid(
                "it begins with a letter and has letters, digits and underscores",
            ));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "it has at most {MAX_NAME_BYTES} bytes"
            )));
        }
        Ok(Self {
            namespace,
            name,
            kind,
        })
    }
}

/// The search attributes that a namespace declares, by name.
pub type Declarations = BTreeMap<String, AttributeKind>;

/// What became of a declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declared {
    /// It is made.
    Now,
    /// The name was declared before, as this.
    Before(AttributeKind),
    /// The namespace declares as many as it may: this number.
    Full(u32),
}

/// The rows `(name, kind)` of a namespace.
pub(super) fn from_rows(rows: Vec<(String, String)>) -> Result<Declarations> {
    let read = |(name, word): (String, String)| {
        let kind = AttributeKind::from_word(&word).ok_or_else(|| {
            Error::corrupt(format!(
                "the search attribute {name} is declared as {word:?}"
            ))
        })?;
        Ok((name, kind))
    };
    rows.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_a_declared_name_hold() {
        let declare = |name: &str| {
            Declaration::new(Namespace::default(), name, AttributeKind::Keyword).is_ok()
        };

        for name in ["a", "OrderStatus", "a_1", &"n".repeat(128)] {
            assert!(declare(name), "{name}");
        }
        for name in ["", "1a", "_a", "a b", "a-b", "ä", "aä", &"n".repeat(129)] {
            assert!(!declare(name), "{name}");
        }
    }

    #[test]
    fn a_kind_comes_back_from_its_word() {
        for kind in AttributeKind::ALL {
            assert_eq!(AttributeKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(AttributeKind::from_word("string"), None);
    }
}

//! What callers call things.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// The longest name in bytes: far above real identifiers, far below what slows a key lookup.
const MAX_NAME_BYTES: usize = 512;

/// What a caller calls a thing: a lock, a resource, a tenant, a subject, an owner.
///
/// Any text of 1 to 512 bytes. What would be special in a key is encoded when the key is made,
/// so two different names never share a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name `text`.
    ///
    /// # Errors
    /// `Invalid` when it is empty or longer than 512 bytes.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(Error::invalid("a name is empty"));
        }
        if text.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "a name has {} bytes, more than {MAX_NAME_BYTES}",
                text.len()
            )));
        }
        Ok(Self(text.into()))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_a_name_hold() {
        assert!(Name::new("").is_err());
        assert!(Name::new("x".repeat(512)).is_ok());
        assert!(Name::new("x".repeat(513)).is_err());
    }
}

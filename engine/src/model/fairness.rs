//! Whose share of a queue a task counts against.

use std::fmt;
use std::sync::Arc;

use coord_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::id;

/// The longest key in bytes.
const MAX_KEY_BYTES: usize = 64;

/// Who shares a queue with others: a tenant, a customer, a kind of job.
///
/// Opaque text of 1 to 64 bytes, compared byte by byte, under the rules of every id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FairnessKey(Arc<str>);

impl FairnessKey {
    /// The key `text`.
    ///
    /// # Errors
    /// `Invalid` when it is empty, too long, holds a control character or ends in a space.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        match id::refuse(&text, MAX_KEY_BYTES) {
            None => Ok(Self(text)),
            Some(why) => Err(Error::invalid(format!("a fairness key {why}"))),
        }
    }

    /// The key as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FairnessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for FairnessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl TryFrom<String> for FairnessKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<FairnessKey> for String {
    fn from(key: FairnessKey) -> Self {
        key.0.as_ref().to_owned()
    }
}

/// How large the share of a key is, beside those of others: 1 to 1000. 1 unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct FairnessWeight(u16);

impl FairnessWeight {
    /// The largest one.
    pub const MAX: u16 = 1000;

    /// The weight `number`.
    ///
    /// # Errors
    /// `Invalid` for 0 and above 1000.
    pub fn new(number: u16) -> Result<Self> {
        if (1..=Self::MAX).contains(&number) {
            return Ok(Self(number));
        }
        Err(Error::invalid(format!(
            "fairness weight {number} is not from 1 to {}",
            Self::MAX
        )))
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for FairnessWeight {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u16> for FairnessWeight {
    type Error = Error;

    fn try_from(number: u16) -> Result<Self> {
        Self::new(number)
    }
}

impl From<FairnessWeight> for u16 {
    fn from(weight: FairnessWeight) -> Self {
        weight.0
    }
}

/// Whose share of a queue the tasks of a run count against, within their priority.
///
/// Workers take due tasks of one priority from the keys in proportion to their weights, as long as
/// each of them has some: however much one of them has, it does not hold up the others. Tasks
/// without a key share as one more, of weight 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Fairness {
    /// Whose.
    pub key: FairnessKey,
    /// How large it is.
    #[serde(default)]
    pub weight: FairnessWeight,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_a_weight_and_of_a_key_hold() {
        assert_eq!(FairnessWeight::new(1).expect("the least").get(), 1);
        assert_eq!(FairnessWeight::new(1000).expect("the most").get(), 1000);
        assert!(FairnessWeight::new(0).is_err());
        assert!(FairnessWeight::new(1001).is_err());
        assert!(FairnessKey::new("k".repeat(64)).is_ok());
        assert!(FairnessKey::new("k".repeat(65)).is_err());
        assert!(FairnessKey::new("").is_err());
    }
}

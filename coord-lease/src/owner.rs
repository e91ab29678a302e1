//! Who claims: for those who find the lease held.

use std::collections::BTreeMap;

use coord_core::{Error, Name, Result};
use serde::{Deserialize, Serialize};

/// The most that an owner may say of itself, in bytes of the stored record: it travels with every
/// claim.
const MAX_BYTES: usize = 4096;

/// Who claims: a name, the process it runs in, and whatever else helps the one who finds the
/// lease held.
///
/// The name decides nothing: two processes of the same name are two owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    name: Name,
    host: String,
    pid: u32,
    metadata: BTreeMap<String, String>,
}

/// The record's form. It may gain fields: unknown ones are skipped, missing ones have defaults.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    host: std::borrow::Cow<'a, str>,
    #[serde(default)]
    pid: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: std::borrow::Cow<'a, BTreeMap<String, String>>,
}

impl Owner {
    /// `name` in this process, on this host.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            metadata: BTreeMap::new(),
        }
    }

    /// Adds what the one who finds the lease held should know: a version, a task, a region.
    ///
    /// # Errors
    /// `Invalid` when all of it together takes more than 4 KiB.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self> {
        self.metadata.insert(key.to_owned(), value.to_owned());
        if self.encode().len() > MAX_BYTES {
            return Err(Error::invalid(format!(
                "the metadata of owner {} has more than {MAX_BYTES} bytes with {key}",
                self.name
            )));
        }
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The host it runs on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its process id on that host.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it said of itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The last argument of a grant: what a record stores.
    pub fn encode(&self) -> String {
        let stored = Stored {
            name: self.name.as_str().into(),
            host: self.host.as_str().into(),
            pid: self.pid,
            metadata: std::borrow::Cow::Borrowed(&self.metadata),
        };
        serde_json::to_string(&stored).expect("text, numbers and maps of text are JSON")
    }

    /// Nothing for what no owner stored.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let stored: Stored<'_> = serde_json::from_str(text).ok()?;
        Some(Self {
            name: Name::new(stored.name).ok()?,
            host: stored.host.into_owned(),
            pid: stored.pid,
            metadata: stored.metadata.into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner::new(Name::new("node: \"1\"").expect("a valid name"))
    }

    #[test]
    fn an_owner_is_read_back_as_it_was_stored() {
        let owner = owner().with("task", "a:b\n").expect("short");

        assert_eq!(Owner::decode(&owner.encode()), Some(owner));
    }

    #[test]
    fn an_owner_of_a_later_version_is_read_and_something_else_is_not() {
        let later = Owner::decode(r#"{"name":"n","zone":"eu"}"#).expect("it has a name");

        assert_eq!((later.name().as_str(), later.pid()), ("n", 0));
        for text in ["", "{}", "n", "[1]", r#"{"name":""}"#] {
            assert_eq!(Owner::decode(text), None, "{text}");
        }
    }

    #[test]
    fn metadata_is_taken_up_to_its_limit_and_refused_above_it() {
        let rest = MAX_BYTES - owner().with("k", "").expect("short").encode().len();

        assert!(owner().with("k", &"v".repeat(rest)).is_ok());
        let refused = owner().with("k", &"v".repeat(rest + 1));
        assert!(refused.is_err());
    }
}

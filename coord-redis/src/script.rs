//! Lua scripts: by digest, and whole when the server does not know the digest.

use std::sync::OnceLock;

use coord_core::Key;

use crate::Command;

/// A Lua script; each crate keeps its own in `lua/`, as statics.
///
/// It is called by its digest (`EVALSHA`) and sent whole (`EVAL`) when the server does not know
/// it: two round trips after a restart, and no right to `SCRIPT LOAD` is needed. A script reads
/// and checks everything before its first write, since Lua has no rollback.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    /// The script `name` (for messages) with its source.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            digest: OnceLock::new(),
        }
    }

    /// A call of the script on `keys`, which share a hash tag; arguments are added to it.
    pub fn call(&'static self, keys: &[&Key]) -> Command {
        Command::script(self, keys)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
    }

    pub(crate) fn digest(&self) -> &str {
        self.digest
            .get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }
}

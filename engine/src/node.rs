//! The part of a process in its fleet.

use std::time::Duration;

use coord_core::{Error, Result};

use crate::model::NodeName;

/// The shortest bound of a local step's lease: a lease is renewed twice before it ends.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// What a process is told about itself.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What people call it; a name of its own when nobody said.
    pub(crate) name: Option<NodeName>,
    /// Whether its name has one process at a time.
    pub(crate) exclusive: bool,
    /// Whether it may be the one that looks after the others.
    pub(crate) recovers: bool,
    /// How long the lease of a local step is at most.
    pub(crate) local_lease: Option<Duration>,
    /// Whether its workers leave runs alone that began with other code.
    pub(crate) pins: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            name: None,
            exclusive: false,
            recovers: true,
            local_lease: None,
            pins: true,
        }
    }
}

impl Node {
    pub(crate) fn check(&self) -> Result<()> {
        if self.local_lease.is_some_and(|lease| lease < SHORTEST_LEASE) {
            return Err(Error::invalid(
                "the lease of a local step lasts for at least a second",
            ));
        }
        Ok(())
    }
}

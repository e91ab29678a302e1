//! What was written in a transaction of the caller.

use std::sync::Arc;

use crate::engine::{Core, Told};

/// What happens if the caller's transaction is committed.
///
/// Until then nobody sees it. Afterwards [`committed`](Self::committed) tells the workers of this
/// process at once; without it they find out at their next look, within seconds. When the
/// transaction is rolled back it is to be dropped: nothing has happened.
#[must_use = "call `committed` after the commit, so that workers begin at once"]
pub struct Uncommitted<T> {
    value: T,
    core: Arc<Core>,
    told: Told,
}

impl<T> Uncommitted<T> {
    pub(super) const fn new(value: T, core: Arc<Core>, told: Told) -> Self {
        Self { value, core, told }
    }

    /// What it will be once it is committed.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// To be called after the commit: tells the workers, and gives what is there now.
    pub fn committed(self) -> T {
        self.core.tell(&self.told);
        self.value
    }
}

//! Which locks the current task holds by way of `with_lock`: to take one of them again would wait
//! for itself.

use coord_core::{Error, Key, Result};

use crate::locks::Id;

tokio::task_local! {
    static HELD: Vec<(Id, Key)>;
}

/// # Errors
/// `Invalid` when this task is inside a `with_lock` of the same lock.
pub(crate) fn refuse(id: &Id, lock: &Key) -> Result<()> {
    let held = |held: &Vec<(Id, Key)>| held.iter().any(|(by, key)| by == id && key == lock);
    if HELD.try_with(held).unwrap_or(false) {
        return Err(Error::invalid(format!(
            "the lock {lock}: this task has it already, and would wait for itself"
        )));
    }
    Ok(())
}

/// Runs `body` as one that has the lock.
pub(crate) async fn within<T>(id: Id, lock: Key, body: impl Future<Output = T>) -> T {
    let mut held = HELD.try_with(Clone::clone).unwrap_or_default();
    held.push((id, lock));
    HELD.scope(held, body).await
}

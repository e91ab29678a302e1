//! Distributed locks.

mod claim;
mod lock;
mod locks;
mod options;
mod reentry;
mod scripts;
mod signals;
mod wait;

pub use claim::Released;
pub use coord_lease::{Holder, Owner};
pub use lock::Lock;
pub use locks::{Locks, TryAcquire};
pub use options::{LockOptions, Order};
pub use signals::SIGNALS;

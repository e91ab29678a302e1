//! Resource leases on Redis: ownership that ends by itself.

mod batch;
mod claim;
mod engine;
pub mod format;
mod hold;
mod holder;
mod lease;
mod leases;
mod owner;
mod schedule;
mod signals;

pub use claim::{Claim, Pending};
pub use hold::{Grant, Hold};
pub use holder::{Holder, Record};
pub use lease::{Lease, RemoveResult};
pub use leases::Leases;
pub use owner::Owner;
pub use signals::SIGNALS;

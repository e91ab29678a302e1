//! Resource leases on Redis: ownership that ends by itself.

mod engine;
pub mod format;
mod hold;
mod holder;
mod leases;
mod owner;
mod schedule;
mod signals;

pub use hold::{Grant, Hold};
pub use holder::{Holder, Record};
pub use leases::Leases;
pub use owner::Owner;
pub use signals::SIGNALS;

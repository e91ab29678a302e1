//! x
pub mod client;
mod clock;
mod committer;
mod engine;
pub mod flow;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod model;
mod signals;
pub mod store;
pub mod transition;
mod wake;
pub mod worker;

pub use engine::Engine;
pub use signals::SIGNALS;

//! How all benchmarks count, compare and print.

pub mod machine;
pub mod peer;
pub mod results;
pub mod round;
pub mod statistics;
pub mod table;

/// What goes wrong in a benchmark ends it.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

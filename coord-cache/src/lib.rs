//! A cache on Redis.

mod batch;
mod breaker;
mod cache;
mod codec;
mod entry;
mod envelope;
mod error;
mod flight;
mod freshness;
mod load;
mod near;
mod options;
mod refresh;
mod scripts;
mod signals;
mod wait;

pub use cache::Cache;
pub use codec::{Codec, Json, Raw};
pub use error::LoadError;
pub use options::{CacheOptions, Life};
pub use signals::SIGNALS;

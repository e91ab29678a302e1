//! Own servers, for tests that break them.
//!
//! Each listens on a free loopback port, keeps its files in a folder of its own and ends when it
//! is dropped, at the latest with the test process. Nothing is kept on disk unless asked for.
//!
//! The binary is `COORD_TEST_REDIS_BIN`, else `redis-server` or `valkey-server` on `PATH`, in
//! `/usr/local/bin` or in `/usr/sbin`. A wrapper script must `exec` it.

mod admin;
mod binary;
mod builder;
mod monitor;
mod process;
mod redis;
mod tls;

pub use builder::RedisBuilder;
pub use monitor::Monitor;
pub use redis::RedisServer;

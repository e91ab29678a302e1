//! Own servers, for tests that break them.
//!
//! Each listens on a free loopback port, keeps its files in a folder of its own and ends when it
//! is dropped, at the latest with the test process. Nothing is kept on disk unless asked for.
//!
//! The binary is `COORD_TEST_REDIS_BIN`, else `redis-server` or `valkey-server` on `PATH`, in
//! `/usr/local/bin` or in `/usr/sbin`. A wrapper script must `exec` it.
//!
//! memcached and NATS are what `COORD_TEST_MEMCACHED_BIN` and `COORD_TEST_NATS_BIN` name, or what is
//! installed.
//!
//! With the feature `sqs` there is `SqsServer`, which needs Node instead.
//!
//! With the feature `docker` and `COORD_TEST_DOCKER=1`, a [`RedisServer`] is a container. TLS,
//! loading servers, replicas, [`Cluster`] and [`Sentinel`] still take a binary and are missing
//! without one, because a container shares neither files nor loopback addresses with the test. Nor
//! does a container end with a test process that is killed.

mod admin;
mod binary;
mod builder;
mod cluster;
#[cfg(feature = "docker")]
mod container;
mod daemon;
mod deployment;
mod launch;
mod memcached;
mod monitor;
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod redis;
mod run;
mod sentinel;
#[cfg(feature = "sqs")]
mod sqs;
mod tls;

pub use binary::since;
pub use builder::RedisBuilder;
pub use cluster::Cluster;
pub use deployment::Deployment;
pub use memcached::MemcachedServer;
pub use monitor::Monitor;
pub use nats::{LOGIN as NATS_LOGIN, NatsServer};
#[cfg(feature = "postgres")]
pub use postgres::PostgresDatabase;
pub use redis::RedisServer;
pub use sentinel::Sentinel;
#[cfg(feature = "sqs")]
pub use sqs::{Armed, SqsFault, SqsServer};

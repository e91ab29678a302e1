//! The environment variables the harness reads, all of them here.

use std::path::PathBuf;

/// The shared server of a test run.
pub(crate) const REDIS_URL: &str = "COORD_TEST_REDIS_URL";
/// The `redis-server` or `valkey-server` to start.
pub(crate) const REDIS_BIN: &str = "COORD_TEST_REDIS_BIN";
/// The PostgreSQL server on which tests make their databases.
#[cfg(feature = "postgres")]
pub(crate) const PG_URL: &str = "COORD_TEST_PG_URL";
/// The `memcached` to start.
pub(crate) const MEMCACHED_BIN: &str = "COORD_TEST_MEMCACHED_BIN";
/// The `nats-server` to start.
pub(crate) const NATS_BIN: &str = "COORD_TEST_NATS_BIN";
/// How the servers stand to each other that tests share: `standalone`, `cluster` or `sentinel`.
pub(crate) const TOPOLOGY: &str = "COORD_TEST_TOPOLOGY";
/// `1`: start containers where there is no binary.
#[cfg(feature = "docker")]
pub(crate) const DOCKER: &str = "COORD_TEST_DOCKER";
/// `1`: a test whose needs cannot be met passes, and is counted as skipped.
pub(crate) const ALLOW_SKIP: &str = "COORD_TEST_ALLOW_SKIP";
/// Where a run leaves what its runner counts.
pub(crate) const OBSERVED_DIR: &str = "COORD_TEST_OBSERVED_DIR";

/// The value of `name`; an empty one counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "the harness runs below the crates under test, whose `Env` it must not borrow"
)]
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether `name` is set to `1`.
pub(crate) fn is_on(name: &str) -> bool {
    text(name).as_deref() == Some("1")
}

/// The folders of `PATH`.
pub(crate) fn path() -> Vec<PathBuf> {
    text("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect())
}

//! Which server binary there is.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{child::between_forks, env, need::Missing};

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// A server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// Valkey counts on from Redis 7.2, so one number does for both.
    pub(super) major: u32,
}

/// The binary to start, looked for once.
pub(super) fn find() -> Result<&'static Binary, Missing> {
    static FOUND: OnceLock<Option<Binary>> = OnceLock::new();
    let found = FOUND.get_or_init(|| candidates().into_iter().find_map(probe));
    found.as_ref().ok_or_else(|| {
        let named = env::text(env::REDIS_BIN)
            .map_or_else(String::new, |named| format!("{named} does not start; "));
        Missing::new(
            "a redis-server or valkey-server",
            format!(
                "{named}install one, set {} to its path, or build the tests with the feature \
                 `docker` and set COORD_TEST_DOCKER=1",
                env::REDIS_BIN
            ),
        )
    })
}

/// Whether the servers here know what came with version `major` of Redis.
///
/// # Errors
/// [`Missing`] when they are older, or there are none; `what` is a noun phrase.
pub fn since(major: u32, what: &str) -> Result<(), Missing> {
    if find()?.major >= major {
        return Ok(());
    }
    let remedy = format!("take Redis {major} or newer, or Valkey");
    Err(Missing::new(what, remedy))
}

/// A binary that was named is the only candidate.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::text(env::REDIS_BIN) {
        return vec![named.into()];
    }
    let folders = env::path()
        .into_iter()
        .chain(["/usr/local/bin".into(), "/usr/sbin".into()]);
    let folders: Vec<PathBuf> = folders.collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .collect()
}

fn probe(path: impl AsRef<Path>) -> Option<Binary> {
    let path = path.as_ref().to_path_buf();
    let answer = between_forks(|| Command::new(&path).arg("--version").output()).ok()?;
    let major = major(&String::from_utf8_lossy(&answer.stdout))?;
    Some(Binary { path, major })
}

/// Reads `Redis server v=7.0.15 sha=...`.
fn major(version: &str) -> Option<u32> {
    version.split_once("v=")?.1.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_tell_their_version() {
        assert_eq!(
            major("Redis server v=7.0.15 sha=00000000:0 bits=64"),
            Some(7)
        );
        assert_eq!(
            major("Valkey server v=8.1.1 sha=00000000:0 bits=64"),
            Some(8)
        );
        assert_eq!(major("no such option"), None);
    }

    #[test]
    fn what_does_not_start_is_no_server() {
        assert_eq!(probe("/nonexistent/redis-server"), None);
    }
}

//! What a test needs from its machine, and what becomes of it where that is missing.
//!
//! A missing server fails the test with what to do about it. With `COORD_TEST_ALLOW_SKIP=1` the
//! test passes instead, and `skipped` in the folder `COORD_TEST_OBSERVED_DIR` gets a line
//! `<test> TAB <what is missing>`, so that a runner can count and print what was not tested.
//!
//! # Examples
//! ```no_run
//! use coord_tests::{need, need::{shared_redis_url, unique}};
//!
//! async fn two_clients_share_one_counter() {
//!     let url = need!(shared_redis_url().await);
//!     let prefix = unique("counter");
//!     // ...
//! }
//! ```

use std::{
    fmt,
    fs::OpenOptions,
    hash::{BuildHasher, RandomState},
    io::Write,
    path::PathBuf,
};

use crate::{env, recorder, servers::Deployment};

/// Something that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    what: String,
    remedy: String,
}

impl Missing {
    /// `what` is a noun phrase, `remedy` a whole clause that says how to get it.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this test needs {}: {}", self.what, self.remedy)
    }
}

impl std::error::Error for Missing {}

/// Unwraps a `Result<_, Missing>` in a test that returns nothing.
///
/// What is missing fails the test, or ends it early where skipping is allowed.
#[macro_export]
macro_rules! need {
    ($needed:expr) => {
        match $needed {
            Ok(had) => had,
            Err(missing) => {
                $crate::need::fail_unless_skippable(&missing, concat!(file!(), ":", line!()));
                return;
            }
        }
    };
}

/// The rest of [`need!`]: records the skip of the test at `place`, where skipping is allowed.
///
/// # Panics
/// Where it is not.
#[track_caller]
pub fn fail_unless_skippable(missing: &Missing, place: &str) {
    assert!(
        env::is_on(env::ALLOW_SKIP),
        "{missing}\n{}=1 skips what cannot be tested here",
        env::ALLOW_SKIP
    );
    let current = std::thread::current();
    // The name of the test, but where the runner has it run on the main thread.
    let test = current
        .name()
        .filter(|name| *name != "main")
        .unwrap_or(place);
    eprintln!("skipped {test}: {missing}");
    if let Some(folder) = env::text(env::OBSERVED_DIR) {
        record(
            &PathBuf::from(folder).join("skipped"),
            &format!("{test}\t{}\n", missing.what),
        );
    }
}

/// Records that the running test takes any topology.
pub(crate) fn record_deployed() {
    let current = std::thread::current();
    let test = current.name().filter(|name| *name != "main");
    if let (Some(test), Some(folder)) = (test, env::text(env::OBSERVED_DIR)) {
        record(
            &PathBuf::from(folder).join("deployed"),
            &format!("{}\t{test}\n", recorder::program()),
        );
    }
}

fn record(file: &PathBuf, line: &str) {
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        // One write, so that the lines of tests that run at once do not mix.
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!(
            "a skip that nobody can count is a failure: {}: {error}",
            file.display()
        );
    }
}

/// The URL of a Redis for a test that looks into none: that of [`Deployment::shared`].
///
/// Where the run is for a single server and `COORD_TEST_REDIS_URL` is set, it is that one.
///
/// # Errors
/// [`Missing`] when there is neither.
///
/// # Cancel safety
/// Safe.
pub async fn shared_redis_url() -> Result<String, Missing> {
    recorder::recorder();
    match env::text(env::REDIS_URL) {
        Some(url) if env::text(env::TOPOLOGY).is_none() => {
            record_deployed();
            Ok(url)
        }
        _ => Ok(Deployment::shared().await?.url()),
    }
}

/// `name` with a random tail: a key prefix, or a name, that no other test and no earlier run has.
pub fn unique(name: &str) -> String {
    // The standard library seeds every `RandomState` differently.
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_prefixes_of_one_name_differ() {
        assert_ne!(unique("lease"), unique("lease"));
        assert!(unique("lease").starts_with("lease-"));
    }

    #[test]
    fn a_missing_server_is_named_with_its_remedy() {
        let missing = Missing::new("a cluster", "install one");

        assert_eq!(
            missing.to_string(),
            "this test needs a cluster: install one"
        );
    }

    #[test]
    fn skips_are_recorded_one_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");

        record(&file, "first\ta server\n");
        record(&file, "second\ta server\n");

        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "first\ta server\nsecond\ta server\n"
        );
    }

    #[tokio::test]
    async fn the_shared_server_answers_every_test() {
        let first = crate::need!(shared_redis_url().await);
        let second = crate::need!(shared_redis_url().await);

        assert_eq!(first, second);
    }
}

//! `cargo xtask test`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs::{self, ALLOW_SKIP, Gap};
use crate::workspace::Workspace;
use crate::{env, matrix};

/// The folder into which each test process writes the signal keys it saw, and into whose file
/// [`SKIPPED`] each test that skips itself writes a line.
pub(crate) const OBSERVED: &str = "COORD_TEST_OBSERVED_DIR";

/// Lines of a test's name, a tab, and what it wanted.
pub(crate) const SKIPPED: &str = "skipped";

/// The package that has the features of what the tests need.
pub(crate) const TESTS: &str = "coord-tests";

/// Run every test, with the servers that the tests need.
///
/// The tests need a Redis server and, to break servers on purpose, a Redis binary. In this order:
/// what `COORD_TEST_REDIS_URL` and `COORD_TEST_REDIS_BIN` name; the server on port 6379 and the
/// redis-server or valkey-server in PATH; Docker, as far as containers go; as root on Debian or
/// Ubuntu the package redis-tools. What is started here ends with this command, however it ends.
///
/// The engine is tested on `SQLite`, on `PostgreSQL` and on `MariaDB` or `MySQL`. In this order: what
/// `COORD_TEST_PG_URL` and `COORD_TEST_MYSQL_URL` name; the servers on ports 5432 and 3306, if they
/// let postgres and root in without a password; servers that are installed, which are then started
/// on free ports; Docker; on Debian the packages, which are only unpacked.
///
/// Then its suite runs twice more, on servers of our own: behind `PgBouncer`, and on a `MariaDB`
/// that refuses changes behind a snapshot.
///
/// Hints between processes are tested through memcached and NATS, each test with a server of its own:
/// the programs that `COORD_TEST_MEMCACHED_BIN` and `COORD_TEST_NATS_BIN` name, that are installed, or
/// on Debian those of the packages, which are only unpacked.
///
/// The queue on Amazon SQS is tested on an emulator that takes Node with npm, those in PATH or of a
/// Python package.
///
/// `COORD_TEST_SERVERS_FROM` leaves one way alone to what nobody named: `here`, `docker`, `package`.
///
/// A test that cannot be run for want of a server makes the end red, unless
/// `COORD_TEST_ALLOW_SKIP=1` is set; either way the end says which, and how many.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Afterwards run the suites again on a cluster, behind sentinels, and on other servers.
    ///
    /// Tests that need a Redis, but not one server of their own, run on a cluster of three masters
    /// and behind sentinels after a failover. All run on the oldest Redis and the newest Valkey that
    /// are supported, and on what else can be had; the engine's suite runs on other versions of its
    /// databases, and on those in Docker. The end is a table with a row for each.
    #[arg(long)]
    matrix: bool,
    /// Arguments for `cargo test`, for instance `-- -p coord-lock -- --nocapture`.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let provided = needs::provide(workspace, interrupts)?;
    for line in &provided.found {
        println!("xtask: {line}");
    }
    let may_skip = env::is_on(ALLOW_SKIP);
    if !provided.gaps.is_empty() && !may_skip {
        return Err(Failure::Missing(described(&provided.gaps)));
    }
    for gap in provided.gaps.iter().chain(&provided.partial) {
        println!("xtask: going on without {}", gap.what);
    }

    let observed = workspace.emptied("observed")?;
    let mut command = workspace.cargo();
    command.args(cargo_arguments(&args.arguments, &provided.features));
    provided.tell(&mut command);
    command.env(OBSERVED, &observed);
    if !provided.partial.is_empty() {
        // Here they skip themselves; what that means is said at the end.
        command.env(ALLOW_SKIP, "1");
    } else if provided.gaps.is_empty() {
        // Everything is there, so a test that skips itself would be hiding something.
        command.env_remove(ALLOW_SKIP);
    }
    let (start, mut counts) = (Instant::now(), Counts::default());
    let status = interrupts.run_heard(&mut command, |line| counts.hear(line))?;

    let skipped = lines_of(&observed.join(SKIPPED))?;
    let gaps: Vec<_> = provided.gaps.iter().chain(&provided.partial).collect();
    if may_skip || !skipped.is_empty() {
        println!("xtask: {}", skip_report(&gaps, &skipped));
    }
    let first = Outcome {
        counts,
        skipped: skipped.len(),
        is_green: status.success(),
    };
    let took = start.elapsed();
    let wanted = matrix::Wanted {
        arguments: &args.arguments,
        features: &provided.features,
        engine: is_tested("coord-engine", &args.arguments),
        all: args.matrix,
        may_skip,
    };
    let rows = matrix::run((first, took), &wanted, workspace, interrupts);
    if !status.success() {
        return Err(Failure::Red(format!(
            "cargo test ended with {status}; what failed stands above"
        )));
    }
    if !skipped.is_empty() && !may_skip {
        return Err(Failure::Missing(described(&provided.partial)));
    }
    rows
}

/// What became of a run of the tests.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) skipped: usize,
    pub(crate) is_green: bool,
}

/// How many tests ran, as their programs say at their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Counts {
    /// Adds up `test result: ok. 12 passed; 0 failed; …`; other lines say nothing.
    pub(crate) fn hear(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|result| result.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((count, "passed")) => self.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => self.failed += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// `--workspace` unless the caller picks packages, which it would overrule. Features go with the
/// package that has them.
fn cargo_arguments(arguments: &[OsString], features: &[&str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["test".into()];
    if !picks(arguments) {
        all.push("--workspace".into());
    }
    for feature in features {
        let package = feature.split('/').next().unwrap_or(feature);
        if is_tested(package, arguments) {
            all.extend(["--features".into(), feature.into()]);
        }
    }
    all.extend_from_slice(arguments);
    all
}

/// The caller's arguments for cargo itself.
fn own(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    own.filter_map(|argument| argument.to_str())
}

/// Whether the caller picks packages.
fn picks(arguments: &[OsString]) -> bool {
    own(arguments).any(|argument| {
        ["-p", "--package"].contains(&argument)
            || argument.starts_with("--package=")
            || (argument.starts_with("-p") && !argument.starts_with("--"))
    })
}

/// Whether a package is tested: all are, unless the caller picks others.
fn is_tested(package: &str, arguments: &[OsString]) -> bool {
    !picks(arguments) || own(arguments).any(|argument| argument.ends_with(package))
}

fn described(gaps: &[Gap]) -> String {
    let mut text = "the tests need what this machine does not have".to_string();
    for gap in gaps {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n{gap}");
    }
    let _ = write!(
        text,
        "\n\nor skip the tests that need it, counted at the end: {ALLOW_SKIP}=1"
    );
    text
}

/// The lines of a file; none if it is not there.
pub(crate) fn lines_of(file: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(Failure::file("read", file, &cause)),
    }
}

fn skip_report(gaps: &[&Gap], tests: &[String]) -> String {
    if gaps.is_empty() {
        return "nothing was skipped: everything the tests need is here".into();
    }
    let mut text = format!("{} tests skipped, for want of {}:", tests.len(), gaps.len());
    for gap in gaps {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", gap.what);
    }
    for test in tests {
        let _ = write!(text, "\n  skipped: {test}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn every_package_is_tested_unless_some_are_picked() {
        for picked in [
            &["-p", "a"][..],
            &["-pa"],
            &["--package=a"],
            &["--lib", "--package", "a"],
        ] {
            let called = cargo_arguments(&arguments(picked), &[]);
            assert!(!called.contains(&"--workspace".into()), "{picked:?}");
        }
        for all in [&[][..], &["--lib"], &["--", "-p"], &["--profile", "x"]] {
            let called = cargo_arguments(&arguments(all), &[]);
            assert_eq!(called[..2], arguments(&["test", "--workspace"]));
            assert_eq!(called[2..], arguments(all));
        }
    }

    #[test]
    fn features_go_with_the_package_that_has_them() {
        for (words, expected) in [
            (&[][..], true),
            (&["-p", "coord-tests"], true),
            (&["-pcoord-tests"], true),
            (&["-p", "coord-lock"], false),
            (&["-p", "coord-lock", "--", "coord-tests"], false),
        ] {
            let features = ["coord-tests/docker", "coord-engine/mysql"];
            let called = cargo_arguments(&arguments(words), &features);
            assert_eq!(called.contains(&features[0].into()), expected, "{words:?}");
            let all = words.is_empty();
            assert_eq!(called.contains(&features[1].into()), all, "{words:?}");
        }
    }

    #[test]
    fn the_counts_of_all_programs_are_added_up() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s",
            "test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            counts.hear(line);
        }

        let (passed, failed) = (12, 3);
        assert_eq!(counts, Counts { passed, failed });
    }

    #[test]
    fn the_skip_report_counts_and_names() {
        let gap = Gap {
            what: "a server",
            tried: Vec::new(),
            ways: &[],
        };

        let text = skip_report(&[&gap], &["one".into(), "two".into()]);

        assert!(
            text.starts_with("2 tests skipped, for want of 1:"),
            "{text}"
        );
        assert!(text.contains("skipped: two"), "{text}");
    }
}

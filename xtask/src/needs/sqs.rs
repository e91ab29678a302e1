//! What the tests have from npm, which they install and start with Node: what stands in for Amazon
//! SQS, and a client of Socket.IO.

use std::path::Path;
use std::process::Command;

use super::ways::Way;
use super::{Gap, Provided};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use crate::{binaries, env};

/// The tests of it are compiled only with this feature, whose tree of crates is large.
const FEATURE: &str = "coord-tests/sqs";

/// What both are installed and run with.
const PROGRAMS: [&str; 2] = ["node", "npm"];

/// The oldest Node that our scripts run on.
const OLDEST: (u32, u32) = (20, 6);

const PATH: &str = "PATH";

const WAYS: &[&str] = &[
    "install Node 20.6 or newer, with npm; packages of a system are often older",
    "put both programs into PATH, if they are installed elsewhere",
    "install python3 with venv: it then gets a package that carries both (not on every system)",
];

/// Finds Node and npm, or gets them from a Python package that carries both, which `PATH` then has
/// first: a system's own packages are often too old, and npm's is hundreds of them.
///
/// # Errors
/// `Missing` if the way to servers that was chosen is none; `Interrupted`.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided {
        features: vec![FEATURE],
        ..Provided::default()
    };
    let mut tried = Vec::new();
    match Way::Here.is_open()?.and_then(|()| versions(None)) {
        Ok(versions) => {
            provided.found.push(said(&versions, "in PATH"));
            return Ok(provided);
        }
        Err(reason) => tried.push(reason),
    }
    let got = match Way::Package.is_open()? {
        Ok(()) => binaries::node(workspace, interrupts),
        Err(reason) => Err(Failure::Missing(reason)),
    };
    match got {
        Ok(folder) => match versions(Some(&folder)) {
            Ok(versions) => {
                provided.found.push(said(&versions, "got for it"));
                let mut path = folder.into_os_string();
                path.push(":");
                path.push(env::value(PATH).unwrap_or_default());
                provided.set.push((PATH, path));
                return Ok(provided);
            }
            Err(reason) => tried.push(reason),
        },
        Err(Failure::Missing(reason)) => tried.push(reason),
        Err(failure) => return Err(failure),
    }
    provided.gaps.push(Gap {
        what: "Node with npm, for the tests of the queue on Amazon SQS and of Socket.IO",
        tried,
        ways: WAYS,
    });
    Ok(provided)
}

fn said([node, npm]: &[String; 2], how: &str) -> String {
    format!(
        "what stands in for Amazon SQS and a client of Socket.IO run with node {node} and npm {npm}, {how}"
    )
}

/// What both programs say of themselves, those of a folder or those in `PATH`.
fn versions(folder: Option<&Path>) -> std::result::Result<[String; 2], String> {
    let version = |program: &str| {
        let path = folder.map_or_else(|| program.into(), |folder| folder.join(program));
        version(&path).map_err(|reason| format!("{program}: {reason}"))
    };
    let [node, npm] = PROGRAMS;
    let (node, npm) = (version(node)?, version(npm)?);
    if is_old(&node) {
        let (major, minor) = OLDEST;
        return Err(format!("node is {node}, older than {major}.{minor}"));
    }
    Ok([node, npm])
}

/// Whether Node says that it is too old; `v20.6.0` is how it says its version.
fn is_old(version: &str) -> bool {
    let mut numbers = version
        .trim_start_matches('v')
        .split('.')
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < OLDEST,
        _ => false,
    }
}

fn version(program: &Path) -> std::result::Result<String, String> {
    let answer = Command::new(program).arg("--version").output();
    let answer = answer.map_err(|cause| cause.to_string())?;
    if answer.status.success() {
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    } else {
        Err(format!("ends with {}", answer.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_no_reason_to_panic() {
        assert!(version(Path::new("/nonexistent/node")).is_err());
    }

    #[test]
    fn the_oldest_node_does_and_the_one_before_it_does_not() {
        for (version, old) in [
            ("v20.6.0", false),
            ("v20.5.9", true),
            ("v18.20.4", true),
            ("v22.0.0", false),
        ] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }
}

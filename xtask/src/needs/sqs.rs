//! What stands in for Amazon SQS: an emulator that the tests install and start with Node.

use std::process::Command;

use super::{Gap, Provided};
use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// The tests of it are compiled only with this feature, whose tree of crates is large.
const FEATURE: &str = "coord-tests/sqs";

/// What the emulator is installed and run with.
const PROGRAMS: [&str; 2] = ["node", "npm"];

const WAYS: &[&str] = &[
    "install Node 20.6 or newer, with npm; packages of a system are often older",
    "put both programs into PATH, if they are installed elsewhere",
];

/// Finds Node and npm. Which version does is for the tests to say, as is what npm can install.
///
/// # Errors
/// None: what is not there is a gap.
#[expect(
    clippy::unnecessary_wraps,
    reason = "other needs fail where what the caller names does not work"
)]
pub(super) fn provide(_: &Workspace, _: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided {
        features: vec![FEATURE],
        ..Provided::default()
    };
    let mut tried = Vec::new();
    for program in PROGRAMS {
        match version(program) {
            Ok(version) => provided.found.push(format!(
                "what stands in for Amazon SQS runs with {program} {version}, in PATH"
            )),
            Err(reason) => tried.push(format!("{program}: {reason}")),
        }
    }
    if !tried.is_empty() {
        provided.gaps.push(Gap {
            what: "Node with npm, for the tests of the queue on Amazon SQS",
            tried,
            ways: WAYS,
        });
    }
    Ok(provided)
}

fn version(program: &str) -> std::result::Result<String, String> {
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
        assert!(version("/nonexistent/node").is_err());
    }
}

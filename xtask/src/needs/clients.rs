//! What the clients and checkers that others wrote for the HTTP interface run with: Python. The tests
//! get them from its package index themselves.

use std::process::Command;

use super::{Gap, Provided};
use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

const WAYS: &[&str] =
    &["install python3 with venv: on Debian and its kin, the packages python3 and python3-venv"];

/// Looks whether there is a Python that makes environments of its own.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the rows of the table are of one form, and others can fail"
)]
pub(super) fn provide(_: &Workspace, _: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided::default();
    match version() {
        Ok(version) => {
            let found = format!("clients of the HTTP interface run with {version}");
            provided.found.push(found);
        }
        Err(reason) => provided.gaps.push(Gap {
            what: "python3 with venv, for the tests of the HTTP interface by other people's clients",
            tried: vec![reason],
            ways: WAYS,
        }),
    }
    Ok(provided)
}

fn version() -> std::result::Result<String, String> {
    let script = "import ensurepip, venv, platform; print('Python', platform.python_version())";
    let answer = Command::new("python3").args(["-c", script]).output();
    let answer = answer.map_err(|cause| format!("python3: {cause}"))?;
    if answer.status.success() {
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&answer.stderr);
        let last = said.trim().lines().last().unwrap_or_default();
        Err(format!("python3: {last}"))
    }
}

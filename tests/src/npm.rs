//! What the tests have from npm: it is installed once beside what cargo builds, and needs no network
//! after that.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{child::between_forks, folder, need::Missing};

const MANIFEST: &str = include_str!("../npm/package.json");
const LOCK: &str = include_str!("../npm/package-lock.json");

/// The oldest Node that can replace a module it does not have, as our scripts do.
const NODE: (u32, u32) = (20, 6);

/// Installs what is in the lock file if it is not there, and puts the script `text` beside it as
/// `name`; returns where.
pub(crate) fn script(name: &str, text: &str) -> Result<PathBuf, Missing> {
    let node = run(Command::new("node").arg("--version"));
    if !node.as_deref().is_ok_and(is_new_enough) {
        let (major, minor) = NODE;
        let found = node.unwrap_or_else(|error| error);
        let remedy = format!(
            "install Node {major}.{minor} or newer, with npm ({})",
            found.trim()
        );
        return Err(Missing::new("Node", remedy));
    }
    // One installation at a time, whichever process begins.
    let folder = folder::beside_builds("npm");
    let lock = File::create(folder.join("lock")).expect("an own folder can be written");
    lock.lock().expect("an own file can be locked");
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(LOCK) {
        write(&folder, "package.json", MANIFEST);
        write(&folder, "package-lock.json", LOCK);
        let npm = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        run(Command::new("npm").args(npm).current_dir(&folder)).map_err(|error| {
            let remedy = format!("npm cannot install it; with a network it could ({error})");
            Missing::new("what the tests have from npm", remedy)
        })?;
        write(&folder, "installed", LOCK);
    }
    write(&folder, name, text);
    Ok(folder.join(name))
}

fn write(folder: &Path, name: &str, text: &str) {
    let (file, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
    written.expect("an own folder can be written");
}

/// What a command printed, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = between_forks(|| command.output()).map_err(|error| error.to_string())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if status.success() {
        Ok(text(stdout))
    } else {
        Err(text(stderr))
    }
}

/// Reads `v20.20.2`.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    number().zip(number()).is_some_and(|found| found >= NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_new_enough("v20.6.0\n"));
        assert!(is_new_enough("v100.0.0"));
        for old in ["v20.5.1", "v9.11.2", "", "node"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}

//! What is audited: archives, and the checksums that the lock file records of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::env;
use crate::error::{Failure, Result};
use crate::workspace::Workspace;

/// The ending of an archive that Cargo downloads.
const ARCHIVE: &str = "crate";

/// The longest name of a workflow, in bytes.
const LONGEST: usize = 255;

/// The archives to audit.
pub(crate) struct Input {
    /// The folders to scan.
    pub(crate) folders: Vec<PathBuf>,
    /// `name-version` of every archive in them that is audited.
    pub(crate) records: BTreeSet<String>,
    /// What the lock file records of each package it lists: `name-version` to SHA-256.
    checksums: BTreeMap<String, String>,
    lock_file: PathBuf,
}

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Input {
    /// Reads the lock file and lists the archives.
    ///
    /// # Errors
    /// `Missing` if the lock file or a folder cannot be read, or there is nothing to audit.
    pub(crate) fn find(
        folder: Option<&Path>,
        lock_file: Option<&Path>,
        workspace: &Workspace,
    ) -> Result<Self> {
        let lock_file = lock_file.map_or_else(|| workspace.root.join("Cargo.lock"), Path::to_owned);
        let checksums = checksums(&lock_file)?;
        let (folders, takes_unlisted) = match folder {
            Some(folder) => (vec![folder.to_owned()], true),
            // Other projects of the same user share the cache.
            None => (registry_cache()?, false),
        };
        let mut records = BTreeSet::new();
        for folder in &folders {
            records.extend(archives(folder)?);
        }
        if !takes_unlisted {
            records.retain(|record| checksums.contains_key(record));
        }
        let folders: Vec<PathBuf> = folders
            .iter()
            .map(|folder| {
                fs::canonicalize(folder)
                    .map_err(|cause| Failure::file("read the folder", folder, &cause))
            })
            .collect::<Result<_>>()?;
        if records.is_empty() {
            return Err(Failure::Missing(format!(
                "no archive to audit: {} holds no .{ARCHIVE} file{}",
                list(&folders),
                if takes_unlisted {
                    ""
                } else {
                    " that Cargo.lock lists; run cargo fetch first"
                }
            )));
        }
        Ok(Self {
            folders,
            records,
            checksums,
            lock_file,
        })
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "auditing {} archives in {} against {}",
            self.records.len(),
            list(&self.folders),
            self.lock_file.display()
        )
    }

    /// Writes what is to be audited where the nodes read it, each archive with its checksum: what
    /// Cargo downloads meanwhile is not of this run.
    ///
    /// # Errors
    /// `Missing` if the file cannot be written.
    pub(crate) fn write_index(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("checksums.json");
        let checksum = |record: &String| (record.clone(), self.checksums.get(record));
        let index: BTreeMap<_, _> = self.records.iter().map(checksum).collect();
        let text = serde_json::json!(index).to_string();
        fs::write(&path, text).map_err(|cause| Failure::file("write", &path, &cause))?;
        Ok(path)
    }
}

fn list(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    names.join(", ")
}

fn checksums(lock_file: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(lock_file)
        .map_err(|cause| unusable("read the lock file", lock_file, &cause))?;
    let lock: LockFile = toml::from_str(&text)
        .map_err(|cause| unusable("understand the lock file", lock_file, &cause))?;
    let listed = lock.package.into_iter().filter_map(|package| {
        Some((
            format!("{}-{}", package.name, package.version),
            package.checksum?,
        ))
    });
    Ok(listed.collect())
}

/// The folders into which Cargo downloads, one a registry.
fn registry_cache() -> Result<Vec<PathBuf>> {
    let home = env::value("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::value("HOME").map(|home| PathBuf::from(home).join(".cargo")))
        .ok_or_else(|| {
            Failure::Missing(
                "neither CARGO_HOME nor HOME is set: name a folder with --input".into(),
            )
        })?;
    let cache = home.join("registry").join("cache");
    let mut folders = Vec::new();
    for entry in entries(&cache)? {
        if entry.is_dir() {
            folders.push(entry);
        }
    }
    folders.sort();
    Ok(folders)
}

fn archives(folder: &Path) -> Result<Vec<String>> {
    let is_archive = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ARCHIVE);
    let paths = entries(folder)?.into_iter().filter(is_archive);
    paths.map(|path| record(&path)).collect()
}

/// The record of an archive: its file's name without the ending, which is also the name of its
/// workflow.
fn record(path: &Path) -> Result<String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let is_name = |stem: &&str| {
        let length = 1..=LONGEST;
        length.contains(&stem.len()) && !stem.contains(char::is_control) && !stem.ends_with(' ')
    };
    stem.filter(is_name).map(str::to_owned).ok_or_else(|| {
        Failure::Missing(format!(
            "cannot audit {}: a workflow cannot be called like it (1 to {LONGEST} bytes of text \
             without control characters, no space at the end); rename the file",
            path.display()
        ))
    })
}

/// What cannot be audited, or audited against.
fn unusable(action: &str, path: &Path, cause: &dyn fmt::Display) -> Failure {
    Failure::Missing(format!(
        "cannot {action} {}: {cause}\n\
         mend it, or name a folder of .{ARCHIVE} archives with --input and the Cargo.lock that \
         lists them with --lock-file",
        path.display()
    ))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |cause: std::io::Error| unusable("read the folder", folder, &cause);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_a_checksum_are_not_downloaded_and_not_listed() {
        let folder = std::env::temp_dir().join(format!("xtask-lock-{}", std::process::id()));
        let text = "version = 4\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\
                    [[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        fs::write(&folder, text).expect("a writable temporary folder");

        let listed = checksums(&folder);

        fs::remove_file(&folder).expect("just written");
        assert_eq!(
            listed.expect("valid"),
            BTreeMap::from([("serde-1.0.0".into(), "ab".into())])
        );
    }

    #[test]
    fn a_lock_file_that_is_none_is_named() {
        let failure = checksums(Path::new("Cargo.toml.none")).expect_err("it is not there");

        assert!(failure.to_string().contains("Cargo.toml.none"), "{failure}");
    }
}

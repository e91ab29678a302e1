//! The archives, and what the lock file records of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coord_core::{Error, Name, Result};
use sha2::{Digest as _, Sha256};

use crate::said::{Event, say};
use crate::shared::Entries;

/// The archives are scanned in groups, by the first letter of their names; each has its own tick.
pub(crate) const GROUPS: &[&str] = &["a-f", "g-m", "n-s", "t-z"];

/// The ending of an archive.
const ARCHIVE: &str = "crate";

/// `name-version` to SHA-256, of the archives of one group that are to be audited. What the lock
/// file does not list has none.
pub(crate) type Recorded = BTreeMap<String, Option<String>>;

/// The folders to scan, and what to hold their archives against.
pub(crate) struct Archives {
    index: PathBuf,
    entries: Entries,
    folders: Vec<PathBuf>,
}

impl Archives {
    pub(crate) fn new(index: &Path, entries: Entries, folders: &[PathBuf]) -> Self {
        Self {
            index: index.to_owned(),
            entries,
            folders: folders.to_owned(),
        }
    }

    /// What the lock file records of the archives of a group.
    pub(crate) async fn recorded(&self, group: &'static str) -> Result<Arc<Recorded>> {
        let index = self.index.clone();
        self.entries
            .get(group, move || async move { read(&index, group) })
            .await
    }

    /// The archives of one group as they are on disk now.
    pub(crate) async fn of_group(&self, group: &'static str) -> Result<Vec<Name>> {
        let recorded = self.recorded(group).await?;
        let mut found = Vec::new();
        for folder in &self.folders {
            let unreadable = |error: io::Error| {
                Error::unavailable(format!("reading the folder {}", folder.display()))
                    .with_source(error)
            };
            for entry in fs::read_dir(folder).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let is_archive = path.extension().is_some_and(|ending| ending == ARCHIVE);
                let Some(record) = path.file_stem().and_then(|stem| stem.to_str()) else {
                    continue;
                };
                if is_archive && recorded.contains_key(record) {
                    found.push(Name::new(record)?);
                }
            }
        }
        Ok(found)
    }

    /// The SHA-256 of an archive, in hexadecimal digits.
    pub(crate) fn sha256(&self, record: &str) -> io::Result<String> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for folder in &self.folders {
            match hash(&folder.join(format!("{record}.{ARCHIVE}"))) {
                Ok(sha256) => return Ok(sha256),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    let mut text = String::new();
    for byte in hasher.finalize() {
        write!(text, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(text)
}

/// The part of the index that concerns a group.
fn read(index: &Path, group: &str) -> Result<Recorded> {
    say(&Event::Loaded { group });
    let unreadable = || format!("reading the index {}", index.display());
    let text = fs::read(index).map_err(|error| Error::invalid(unreadable()).with_source(error))?;
    let all: Recorded = serde_json::from_slice(&text)
        .map_err(|error| Error::invalid(unreadable()).with_source(error))?;
    let ours = |(record, _): &(String, Option<String>)| group_of(record) == group;
    Ok(all.into_iter().filter(ours).collect())
}

/// The group of this name.
pub(crate) fn group(name: &str) -> Result<&'static str> {
    let group = GROUPS.iter().find(|group| **group == name);
    group
        .copied()
        .ok_or_else(|| Error::invalid(format!("{name:?} is no group of archives")))
}

/// The group of an archive.
pub(crate) fn group_of(record: &str) -> &'static str {
    match record
        .bytes()
        .next()
        .map(|first| first.to_ascii_lowercase())
    {
        Some(b'a'..=b'f') => GROUPS[0],
        Some(b'g'..=b'm') => GROUPS[1],
        Some(b'n'..=b's') => GROUPS[2],
        _ => GROUPS[3],
    }
}

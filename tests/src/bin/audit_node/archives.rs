//! The archives, what the lock file records of them, and the report that all nodes write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coord_cache::Cache;
use coord_core::{Error, FencingToken, Name, Result};
use coord_fanout::Message;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::said::{Event, say};

/// The archives are scanned in groups, by the first letter of their names; each has its own tick.
pub(crate) const GROUPS: &[&str] = &["a-f", "g-m", "n-s", "t-z"];

/// The ending of an archive.
const ARCHIVE: &str = "crate";

/// What became of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Intact,
    Mismatch,
    Unlisted,
    Unreadable,
}

/// What a check found.
pub(crate) struct Checked {
    pub(crate) verdict: Verdict,
    pub(crate) sha256: Option<String>,
}

/// `name-version` to SHA-256, of the archives of one group.
pub(crate) type Entries = BTreeMap<String, String>;

/// The folders to scan, and the checksums to hold their archives against.
pub(crate) struct Archives {
    index: PathBuf,
    entries: Cache<Entries>,
    folders: Vec<PathBuf>,
    takes_unlisted: bool,
}

impl Archives {
    pub(crate) fn new(
        index: &Path,
        entries: Cache<Entries>,
        folders: Vec<PathBuf>,
        takes_unlisted: bool,
    ) -> Self {
        Self {
            index: index.to_owned(),
            entries,
            folders,
            takes_unlisted,
        }
    }

    /// What the lock file records of a group: read once for all nodes, and then from the cache.
    pub(crate) async fn entries(&self, group: &'static str) -> Result<Arc<Entries>> {
        let index = self.index.clone();
        let read = move || async move { read(&index, group) };
        let entries = self.entries.get_or_fetch(&Name::new(group)?, read).await?;
        Ok(entries.unwrap_or_default())
    }

    /// The archives of one group as they are on disk now, one message each.
    pub(crate) async fn of_group(&self, group: &'static str) -> Result<Vec<Message>> {
        let entries = self.entries(group).await?;
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
                let listed = self.takes_unlisted || entries.contains_key(record);
                if is_archive && listed && group_of(record) == group {
                    found.push(Message::new(Name::new(record)?, record));
                }
            }
        }
        Ok(found)
    }

    /// Holds one archive against what is recorded of its group.
    pub(crate) fn check(&self, record: &str, entries: &Entries) -> Checked {
        let Ok(sha256) = self.sha256(record) else {
            return Checked {
                verdict: Verdict::Unreadable,
                sha256: None,
            };
        };
        let verdict = match entries.get(record) {
            None => Verdict::Unlisted,
            Some(recorded) if *recorded == sha256 => Verdict::Intact,
            Some(_) => Verdict::Mismatch,
        };
        Checked {
            verdict,
            sha256: Some(sha256),
        }
    }

    fn sha256(&self, record: &str) -> io::Result<String> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for folder in &self.folders {
            match File::open(folder.join(format!("{record}.{ARCHIVE}"))) {
                Ok(mut archive) => {
                    let mut hasher = Sha256::new();
                    io::copy(&mut archive, &mut hasher)?;
                    let mut text = String::new();
                    for byte in hasher.finalize() {
                        write!(text, "{byte:02x}").map_err(io::Error::other)?;
                    }
                    return Ok(text);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The record that a message names.
pub(crate) fn record(message: &Message) -> Result<String> {
    String::from_utf8(message.body.clone())
        .map_err(|_| Error::corrupt(format!("the message {} names no record", message.id)))
}

/// The part of the index that concerns a group.
fn read(index: &Path, group: &str) -> Result<Entries> {
    say(&Event::Loaded { group });
    let unreadable = || format!("reading the index {}", index.display());
    let text = fs::read(index).map_err(|error| Error::invalid(unreadable()).with_source(error))?;
    let all: Entries = serde_json::from_slice(&text)
        .map_err(|error| Error::invalid(unreadable()).with_source(error))?;
    let ours = |(record, _): &(String, String)| group_of(record) == group;
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

/// The file that all nodes write to, one at a time.
pub(crate) struct Report {
    node: u8,
    path: PathBuf,
}

/// One line of the report.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line {
    node: u8,
    record: String,
    verdict: Verdict,
}

#[derive(Serialize)]
struct Fenced<'a> {
    fence: u64,
    #[serde(flatten)]
    line: &'a Line,
}

impl Report {
    pub(crate) fn new(node: u8, path: &Path) -> Self {
        Self {
            node,
            path: path.to_owned(),
        }
    }

    pub(crate) fn line(&self, record: &str, verdict: Verdict) -> Line {
        Line {
            node: self.node,
            record: record.to_owned(),
            verdict,
        }
    }

    /// Every verdict that was written until now.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, Verdict>> {
        let unreadable = || format!("reading {}", self.path.display());
        let text = match fs::read_to_string(&self.path) {
            // Nobody has written to it yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|error| Error::unavailable(unreadable()).with_source(error))?,
        };
        // A line that is being written is not one yet.
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let lines = whole.map(|line| {
            let line: Line = serde_json::from_str(line)
                .map_err(|error| Error::corrupt(unreadable()).with_source(error))?;
            Ok((line.record, line.verdict))
        });
        lines.collect()
    }

    /// Appends a line in one write, with the fencing token under which it was written.
    pub(crate) fn append(&self, line: &Line, fence: FencingToken) -> Result<()> {
        let fenced = Fenced {
            fence: fence.get(),
            line,
        };
        let text =
            serde_json::to_string(&fenced).expect("a line has no part that JSON cannot have");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
            .map_err(|error| {
                Error::unavailable(format!("writing to {}", self.path.display())).with_source(error)
            })
    }
}

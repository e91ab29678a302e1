//! The archives, what is known of them, and the report that all nodes write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use coord_core::{Error, FencingToken, Name, Result};
use coord_fanout::Message;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The archives are scanned in groups, by the first letter of their names; each has its own tick.
pub(crate) const GROUPS: &[&str] = &["a-f", "g-m", "n-s", "t-z"];

/// The ending of an archive.
const ARCHIVE: &str = "crate";

/// What became of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// The folders to scan and the checksums to hold their archives against.
pub(crate) struct Archives {
    /// `name-version` to SHA-256.
    index: BTreeMap<String, String>,
    folders: Vec<PathBuf>,
    takes_unlisted: bool,
}

impl Archives {
    pub(crate) fn new(index: &Path, folders: Vec<PathBuf>, takes_unlisted: bool) -> Result<Self> {
        let unreadable = || format!("reading the index {}", index.display());
        let text =
            fs::read(index).map_err(|error| Error::invalid(unreadable()).with_source(error))?;
        let index = serde_json::from_slice(&text)
            .map_err(|error| Error::invalid(unreadable()).with_source(error))?;
        Ok(Self {
            index,
            folders,
            takes_unlisted,
        })
    }

    /// The archives of one group as they are on disk now, one message each.
    pub(crate) fn of_group(&self, group: &str) -> Result<Vec<Message>> {
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
                let listed = self.takes_unlisted || self.index.contains_key(record);
                if is_archive && listed && group_of(record) == group {
                    found.push(Message::new(Name::new(record)?, record));
                }
            }
        }
        Ok(found)
    }

    /// Holds one archive against the index.
    pub(crate) fn check(&self, record: &str) -> Checked {
        let Ok(sha256) = self.sha256(record) else {
            return Checked {
                verdict: Verdict::Unreadable,
                sha256: None,
            };
        };
        let verdict = match self.index.get(record) {
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

fn group_of(record: &str) -> &'static str {
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
#[derive(Serialize)]
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

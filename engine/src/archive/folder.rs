//! An archive in the file system.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use coord_core::{Error, ErrorKind, Result};

use super::Archive;
use crate::model::{History, Namespace};
use crate::store::Reply;

/// Keeps each history as a file `<namespace>/<run>.json` below a folder, such as one of a shared or
/// backed-up file system. What a name cannot have there is written as `%` and two digits.
///
/// A file appears under its name only when all of it is on the disk.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The archive below `folder`, which is made if it is not there.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }
}

impl Archive for Folder {
    fn keep<'a>(&'a self, namespace: &'a Namespace, history: &'a History) -> Reply<'a, String> {
        Box::pin(async move {
            let folder = self.0.join(file_name(namespace.as_str()));
            let name = format!("{}.json", file_name(history.run().as_str()));
            let document = history.to_json()?;
            let written = tokio::task::spawn_blocking(move || write(&folder, &name, &document));
            let path = written.await.map_err(|died| {
                Error::unavailable("keeping a history: the thread that writes it ended")
                    .with_source(died)
            })??;
            Ok(path.display().to_string())
        })
    }
}

/// `name` as the name of a file: what is neither a letter, a digit nor one of `-_.` is written as its
/// bytes, and so is a dot in the first place.
fn file_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (place, byte) in name.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_')
            || (byte == b'.' && place > 0);
        if is_plain {
            text.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn write(folder: &Path, name: &str, document: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    // Of two that write the same one, each has a file of its own until its end.
    let draft = folder.join(format!(".{name}.{:016x}", rand::random::<u64>()));
    let written = write_whole(folder, &draft, &path, document);
    if written.is_err() {
        // What is left behind harms nobody.
        _ = fs::remove_file(&draft);
    }
    written.map_err(|error| {
        let kind = match error.kind() {
            // Longer than the file system takes.
            io::ErrorKind::InvalidFilename => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("writing {}", path.display())).with_source(error)
    })?;
    Ok(path)
}

fn write_whole(folder: &Path, draft: &Path, path: &Path, document: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = File::create_new(draft)?;
    file.write_all(document.as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    // The new name is on the disk when the folder is.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_into_its_folder() {
        assert_eq!(file_name("01J-a_b.c"), "01J-a_b.c");
        assert_eq!(file_name("../etc"), "%2E.%2Fetc");
        assert_eq!(file_name(".."), "%2E.");
        assert_eq!(file_name("a b\u{fc}%"), "a%20b%C3%BC%25");
    }

    #[test]
    fn a_file_is_whole_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("n");

        let first = write(&inside, "r.json", "one").expect("written");
        let second = write(&inside, "r.json", "two").expect("written");

        assert_eq!(first, second);
        assert_eq!(fs::read_to_string(&second).expect("read"), "two");
        let files = fs::read_dir(&inside).expect("read");
        assert_eq!(files.count(), 1, "no draft is left");
        let under_a_file = write(&second, "r.json", "three").expect_err("no folder");
        assert_eq!(under_a_file.kind(), ErrorKind::Unavailable);
    }
}

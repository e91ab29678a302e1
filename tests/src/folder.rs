//! Folders for the files of servers, which do not pile up when test processes are killed.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
    sync::LazyLock,
};

use tempfile::TempDir;

const PREFIX: &str = "coord-tests-";
const LOCK: &str = "lock";

/// A new folder, removed when it is dropped, or by a later test process if nobody drops it.
pub(crate) fn new() -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("server-")
        .tempdir_in(ROOT.folder.path());
    folder.expect("the folder for temporary files can be written")
}

/// A folder beside what cargo builds, which stays there for later runs.
pub(crate) fn beside_builds(name: &str) -> std::path::PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    // Tests lie in target/PROFILE/deps, binaries in target/PROFILE.
    let profile = program.ancestors().find(|folder| {
        let parent = folder.parent();
        parent.is_some_and(|parent| parent.join("CACHEDIR.TAG").exists())
    });
    let target = profile
        .and_then(Path::parent)
        .expect("cargo marks its folder");
    let folder = target.join(name);
    fs::create_dir_all(&folder).expect("cargo's folder can be written");
    folder
}

/// The folder of this process, which nothing drops at its end.
struct Root {
    folder: TempDir,
    // Locked for as long as this process lives.
    _lock: File,
}

static ROOT: LazyLock<Root> = LazyLock::new(|| {
    remove_abandoned(&std::env::temp_dir());
    create(&std::env::temp_dir()).expect("the folder for temporary files can be written")
});

fn create(parent: &Path) -> io::Result<Root> {
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
    let early = folder.path().join("early");
    let lock = File::create(&early)?;
    lock.lock()?;
    // Under its name it has never been seen unlocked.
    fs::rename(early, folder.path().join(LOCK))?;
    Ok(Root {
        folder,
        _lock: lock,
    })
}

/// Removes the folders of processes that no longer hold their lock.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            continue;
        };
        match lock.try_lock() {
            // Another process may be removing it as well.
            Ok(()) => drop(fs::remove_dir_all(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_once_its_process_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let Root {
            folder,
            _lock: lock,
        } = create(parent.path()).unwrap();
        let folder = folder.keep();

        remove_abandoned(parent.path());
        assert!(folder.exists());

        drop(lock);
        remove_abandoned(parent.path());
        assert!(!folder.exists());
    }
}

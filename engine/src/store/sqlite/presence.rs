//! Whether another process uses the same file.
//!
//! Every process holds a shared lock of the operating system beside the database. One that can have
//! it alone for a moment has proved that no other lives: what its predecessors had leased is free
//! at once. Whoever comes, or asks, holds the gate meanwhile, so that nobody comes in between.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The shared lock of this process. Without locks, as on some network file systems, there is none,
/// and nothing is proved.
#[derive(Debug)]
pub(super) struct Presence {
    gate: PathBuf,
    alive: File,
    asked: AtomicBool,
}

/// The proof that this process is alone, while it lasts.
pub(super) struct Alone<'a> {
    alive: &'a File,
    _gate: File,
}

impl Presence {
    /// Comes to the database at `path`. Waits for those who are at the gate, for the time of one
    /// transaction.
    pub(super) fn enter(path: &Path) -> Option<Self> {
        let gate = beside(path, "-gate");
        let open = open(&gate)?;
        open.lock().ok()?;
        let alive = self::open(&beside(path, "-alive"))?;
        alive.lock_shared().ok()?;
        Some(Self {
            gate,
            alive,
            asked: AtomicBool::new(false),
        })
    }

    /// Proves that no other process lives, or not. Only once: after that, the others may be
    /// incarnations of this very process.
    pub(super) fn prove(&self) -> Option<Alone<'_>> {
        if self.asked.swap(true, Ordering::AcqRel) {
            return None;
        }
        let gate = open(&self.gate)?;
        // Somebody at the gate is somebody else.
        gate.try_lock().ok()?;
        self.alive.unlock().ok()?;
        let alone = self.alive.try_lock().is_ok();
        let alone_or_back = Alone {
            alive: &self.alive,
            _gate: gate,
        };
        alone.then_some(alone_or_back)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Nobody else has it exclusively: who asks for that is at the gate, and that is us. Where a
        // lock that was there before cannot be had again, the next proof of somebody fails to see
        // this process; its heartbeats then say that it lives.
        _ = self.alive.unlock();
        _ = self.alive.lock_shared();
    }
}

fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).ok()
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(what);
    name.into()
}

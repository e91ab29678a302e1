//! A server as a child process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tempfile::TempDir;

use super::admin::Admin;
use crate::{child::Child, need::Missing, wait};

/// A loaded machine starts a server in well under a second.
const START_WITHIN: Duration = Duration::from_secs(20);
/// A server with nothing to save stops at once.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Why a server did not come up.
pub(super) enum Failure {
    /// Somebody else was faster on its port.
    PortTaken,
    /// This machine has no server that can do this.
    Missing(Missing),
    /// What its log says.
    Refused(String),
}

/// A server process that can be started again the way it was.
pub(super) struct Process {
    binary: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) admin: Admin,
    folder: TempDir,
    child: Mutex<Option<Arc<Child>>>,
}

impl Process {
    pub(super) fn new(binary: PathBuf, admin: Admin, folder: TempDir) -> Self {
        Self {
            binary,
            args: Vec::new(),
            admin,
            folder,
            child: Mutex::new(None),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server and waits until it answers, if only with its `INFO`.
    pub(super) async fn launch(&self) -> Result<(), Failure> {
        let child = self.spawn();
        let up = wait::poll(START_WITHIN, || async {
            if child.exit().is_some() {
                return Some(false);
            }
            // Whoever else listens on this port has another process id.
            let answers = self.admin.info("process_id").await.ok()? == child.pid().to_string();
            answers.then_some(true)
        });
        if up.await == Some(true) {
            Ok(())
        } else {
            Err(failure(self.log()))
        }
    }

    fn spawn(&self) -> Arc<Child> {
        let log = File::create(self.log_file()).expect("an own folder can be written");
        let mut command = Command::new(&self.binary);
        command
            .args(&self.args)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log);
        let (child, _) = Child::spawn(command).expect("a binary that told its version starts");
        let child = Arc::new(child);
        *self.lock() = Some(Arc::clone(&child));
        child
    }

    pub(super) async fn kill(&self) {
        let child = self.lock().take();
        if let Some(child) = child {
            child.kill().await;
        }
    }

    pub(super) async fn stop(&self) {
        let child = self.running();
        child.terminate();
        let exit = child.wait(STOP_WITHIN).await;
        assert!(
            exit.is_some(),
            "not stopped by SIGTERM:
{}",
            self.log()
        );
        self.lock().take();
    }

    pub(super) async fn pause(&self) {
        self.running().pause().await;
    }

    pub(super) async fn resume(&self) {
        self.running().resume().await;
    }

    /// What the server wrote since it was last started.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("log")
    }

    fn running(&self) -> Arc<Child> {
        self.lock()
            .clone()
            .expect("the server was killed or stopped, and not restarted")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Child>>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the log of a server that did not come up.
fn failure(log: String) -> Failure {
    if log.contains("Address already in use") {
        Failure::PortTaken
    } else if log.contains(">>> 'tls-port") || log.contains("Failed finding TLS support") {
        Failure::Missing(Missing::new(
            "a server with TLS",
            "take one that was built with it",
        ))
    } else {
        Failure::Refused(log)
    }
}

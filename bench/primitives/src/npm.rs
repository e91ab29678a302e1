//! The peers from npm: a Node.js process that runs what it is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::Result;

/// A process that has the peers loaded. It ends with this.
pub(crate) struct Npm {
    pipes: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    _child: Child,
}

impl Npm {
    /// Installs the peers if they are not there, and starts the process; says why it cannot.
    pub(crate) async fn start() -> std::result::Result<Self, String> {
        let folder = folder();
        for tool in ["node", "npm"] {
            let version = Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .status()
                .await;
            if !version.is_ok_and(|status| status.success()) {
                return Err(format!("{tool} is not there"));
            }
        }
        if !is_installed(&folder) {
            eprintln!("bench: installing the npm peers");
            let install = Command::new("npm")
                // They bring no code of their own to run at installation.
                .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
                .current_dir(&folder)
                .stdout(Stdio::null())
                .status()
                .await;
            if !install.is_ok_and(|status| status.success()) {
                return Err("npm ci failed".to_owned());
            }
        }
        let child = Command::new("node")
            .arg("peers.mjs")
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(|error| format!("node does not start: {error}"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or("node has no pipes")?;
        Ok(Self {
            pipes: Mutex::new((input, BufReader::new(output).lines())),
            _child: child,
        })
    }

    /// Has it run `task`, and gives its answer.
    pub(crate) async fn run<T: DeserializeOwned>(&self, task: &impl Serialize) -> Result<T> {
        let (input, output) = &mut *self.pipes.lock().await;
        let mut line = serde_json::to_vec(task)?;
        line.push(b'\n');
        input.write_all(&line).await?;
        input.flush().await?;
        let answer = output.next_line().await?.ok_or("node ended")?;
        let answer: Value = serde_json::from_str(&answer)?;
        if let Some(error) = answer.get("error") {
            return Err(format!("node: {error}").into());
        }
        Ok(serde_json::from_value(answer)?)
    }
}

/// Whether what is installed is what the lock file names now: npm writes its copy when it is done.
fn is_installed(folder: &Path) -> bool {
    let changed = |file: &str| fs::metadata(folder.join(file)).and_then(|file| file.modified());
    let installed = changed("node_modules/.package-lock.json");
    let wanted = changed("package-lock.json");
    installed.is_ok_and(|installed| wanted.is_ok_and(|wanted| wanted <= installed))
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "npm"].iter().collect()
}

//! The node processes and what they say.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::workspace::Workspace;

use super::input::Input;
use super::tally::Tally;

/// The binary of the package `coord-tests` that is one node.
const NODE: &str = "audit-node";

/// How long a node may take to drain after SIGTERM.
const DRAIN: Duration = Duration::from_secs(10);

/// One line of a node's output, as JSON.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is connected and takes part.
    Up,
    /// It won the tick of a group of archives.
    Ticked { group: String },
    /// It scanned the group and enqueued what was new.
    Scanned { added: usize, duplicates: usize },
    /// It read what the lock file records of a group.
    Loaded { group: String },
    /// It has begun with a record.
    Taken { record: String },
    /// It has to wait for a record's turn under the limit of reads.
    Waited,
    /// It has finished with a record.
    Checked {
        record: String,
        verdict: Verdict,
        attempt: u32,
        found: Option<String>,
    },
    /// It knows so many verdicts, its own and those that it was told.
    Known { verdicts: usize },
    /// It saw that another node's lease has ended.
    Gone { node: u8 },
    /// Something went wrong that it goes on after.
    Failed { message: String },
    /// It has drained.
    Down,
}

/// What became of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It is what the lock file records.
    Intact,
    /// Its SHA-256 is another.
    Mismatch,
    /// The lock file does not list it.
    Unlisted,
    /// It could not be read.
    Unreadable,
}

/// What one node said.
pub(crate) struct Said {
    pub(crate) node: u8,
    pub(crate) event: Event,
}

/// Builds the node.
///
/// # Errors
/// `Red` if it does not build; `Interrupted`.
pub(crate) fn build(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args([
        "build",
        "--quiet",
        "--package",
        "coord-tests",
        "--bin",
        NODE,
    ]);
    let status = interrupts.run(&mut command)?;
    if !status.success() {
        return Err(Failure::Red(format!(
            "the node does not build: cargo ended with {status}"
        )));
    }
    Ok(workspace.target.join("debug").join(NODE))
}

/// The nodes of a run. Dropping it ends them.
pub(crate) struct Nodes {
    children: Vec<Child>,
    said: Receiver<Said>,
    purge: Command,
}

impl Nodes {
    /// Starts `count` nodes, numbered from 1.
    ///
    /// # Errors
    /// `Missing` if one cannot be started.
    pub(crate) fn start(
        program: &Path,
        count: u8,
        redis: &str,
        input: &Input,
        index: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let prefix = format!("coord-demo-{}", std::process::id());
        let command = |name: &str| {
            let mut command = Command::new(program);
            command
                .arg(name)
                .env("COORD_REDIS_URL", redis)
                .env("COORD_REDIS_PREFIX", &prefix);
            command
        };
        let (say, said) = channel();
        let mut nodes = Self {
            children: Vec::new(),
            said,
            purge: command("purge"),
        };
        for node in 1..=count {
            let log = folder.join(format!("node-{node}.log"));
            let errors =
                File::create(&log).map_err(|cause| Failure::file("write", &log, &cause))?;
            let mut command = command("run");
            command
                .arg(node.to_string())
                .arg(index)
                .arg(folder.join("report.jsonl"));
            command.arg(if input.takes_unlisted {
                "all"
            } else {
                "listed"
            });
            command.args(&input.folders);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(errors);
            let mut child = process::spawn_bound(&mut command)
                .map_err(|cause| Failure::file("start", program, &cause))?;
            let output = child.stdout.take();
            nodes.children.push(child);
            if let Some(output) = output {
                let say = say.clone();
                listen(node, output, say);
            }
        }
        Ok(nodes)
    }

    /// The next thing a node says; nothing when none says anything for a moment.
    pub(crate) fn next(&mut self) -> Option<Said> {
        self.said.recv_timeout(process::POLL).ok()
    }

    /// Fails when a node has ended that nobody killed.
    ///
    /// # Errors
    /// `Red` naming the node.
    pub(crate) fn check(&mut self, killed: Option<u8>) -> Result<()> {
        for (node, child) in (1..).zip(&mut self.children) {
            if Some(node) != killed
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(Failure::Red(format!(
                    "node {node} ended with {status}; its log is target/demo/node-{node}.log"
                )));
            }
        }
        Ok(())
    }

    /// Kills a node, as the system would for want of memory: no warning, nothing to hold on to.
    ///
    /// # Errors
    /// `Missing` if the system refuses.
    pub(crate) fn kill(&mut self, node: u8) -> Result<()> {
        let child = &mut self.children[usize::from(node) - 1];
        child
            .kill()
            .map_err(|cause| Failure::Missing(format!("cannot kill node {node}: {cause}")))?;
        // Reaped, so that it is not taken for one that ended by itself.
        child
            .wait()
            .map(drop)
            .map_err(|cause| Failure::Missing(format!("cannot wait for node {node}: {cause}")))
    }

    /// Asks all nodes to drain and waits for them; what they still say is noted.
    ///
    /// # Errors
    /// `Red` if one does not end in order; `Interrupted`.
    pub(crate) fn stop(&mut self, tally: &mut Tally, interrupts: &mut Interrupts) -> Result<()> {
        for child in &self.children {
            process::signal_group(child, Signal::SIGTERM);
        }
        let deadline = Instant::now() + DRAIN;
        while self
            .children
            .iter_mut()
            .any(|child| matches!(child.try_wait(), Ok(None)))
        {
            interrupts.check()?;
            if Instant::now() > deadline {
                return Err(Failure::Red(format!(
                    "a node did not drain within {} s of SIGTERM",
                    DRAIN.as_secs()
                )));
            }
            if let Some(Said { node, event }) = self.next() {
                tally.note(node, &event, Instant::now());
            }
        }
        while let Some(Said { node, event }) = self.next() {
            tally.note(node, &event, Instant::now());
        }
        Ok(())
    }

    /// Removes the keys of the run.
    ///
    /// # Errors
    /// `Red` if they could not be removed; `Interrupted`.
    pub(crate) fn purge(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        let status = interrupts.run(&mut self.purge)?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Red(format!(
                "the keys of the run were not removed: {status}"
            )))
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            process::end_within(child, Duration::ZERO);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread ends with the output of its node, which ends with `Nodes`"
)]
fn listen(node: u8, output: ChildStdout, say: Sender<Said>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(io::Result::ok) {
            let event = serde_json::from_str(&line).unwrap_or_else(|cause| Event::Failed {
                message: format!("says what is no event ({cause}): {line}"),
            });
            if say.send(Said { node, event }).is_err() {
                // Nobody listens any more: the run is over.
                return;
            }
        }
    });
}

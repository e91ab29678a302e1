//! The node processes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::workspace::Workspace;

use super::database::{self, Database};
use super::input::Input;
use super::said::{Event, Said};
use super::tally::Tally;

/// The binary of the package `coord-tests` that is one node.
const NODE: &str = "audit-node";

/// How long a node may take to drain after SIGTERM.
const DRAIN: Duration = Duration::from_secs(20);

/// What a node wrote last is in its pipe for so long at most before it is heard.
const HEARD: Duration = Duration::from_millis(100);

/// What a node logs when a call of its database fails and is tried again.
const REFUSED: &str = "engine.store_failed";

/// Lines of a node's log that a failure shows.
const SHOWN: usize = 3;

/// Builds the node, with the driver of the database.
///
/// # Errors
/// `Red` if it does not build; `Interrupted`.
pub(crate) fn build(
    workspace: &Workspace,
    database: &Database,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args([
        "build",
        "--quiet",
        "--package",
        "coord-tests",
        "--bin",
        NODE,
    ]);
    if let Some(feature) = database.feature {
        command.args(["--features", feature]);
    }
    let status = interrupts.run(&mut command)?;
    if !status.success() {
        return Err(Failure::Red(format!(
            "the node does not build: cargo ended with {status}"
        )));
    }
    Ok(workspace.target.join("debug").join(NODE))
}

/// What all nodes of a run are told.
pub(crate) struct Plan<'run> {
    /// The run, apart from all others in the database and in Redis.
    pub(crate) run: String,
    pub(crate) nodes: u8,
    pub(crate) database: &'run Database,
    pub(crate) redis: Option<&'run str>,
    pub(crate) input: &'run Input,
    /// What the lock file records.
    pub(crate) index: &'run Path,
    /// How long a dead one keeps its tasks, if that is not left to them.
    pub(crate) lease_seconds: Option<u64>,
    /// Whether each serves the control plane.
    pub(crate) serves: bool,
    /// Where the logs go.
    pub(crate) folder: &'run Path,
}

/// The nodes of a run. Dropping it ends them.
pub(crate) struct Nodes<'run> {
    program: PathBuf,
    plan: Plan<'run>,
    children: Vec<Child>,
    said: Receiver<Said>,
}

impl<'run> Nodes<'run> {
    /// Starts the nodes, numbered from 1.
    ///
    /// # Errors
    /// `Missing` if one cannot be started.
    pub(crate) fn start(program: PathBuf, plan: Plan<'run>) -> Result<Self> {
        let (say, said) = channel();
        let mut nodes = Self {
            program,
            plan,
            children: Vec::new(),
            said,
        };
        for node in 1..=nodes.plan.nodes {
            let mut child = nodes.start_one(node)?;
            let output = child.stdout.take();
            nodes.children.push(child);
            if let Some(output) = output {
                listen(node, output, say.clone());
            }
        }
        Ok(nodes)
    }

    /// What they were told.
    pub(crate) fn plan(&self) -> &Plan<'run> {
        &self.plan
    }

    fn start_one(&self, node: u8) -> Result<Child> {
        let Plan { input, index, .. } = self.plan;
        let log = self.log(node);
        let errors = File::create(&log).map_err(|cause| Failure::file("write", &log, &cause))?;
        let mut command = self.command("run");
        command
            .args(["--node", &node.to_string()])
            .args(["--nodes", &self.plan.nodes.to_string()])
            .args(["--run", &self.plan.run])
            .arg("--index")
            .arg(index);
        if self.plan.redis.is_none() {
            command.arg("--without-redis");
        }
        if let Some(seconds) = self.plan.lease_seconds {
            command.args(["--lease-seconds", &seconds.to_string()]);
        }
        if self.plan.serves {
            // A port that is free.
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.arg("--").args(&input.folders);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        process::spawn_bound(&mut command)
            .map_err(|cause| Failure::file("start", &self.program, &cause))
    }

    fn command(&self, task: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(task)
            .env(database::VARIABLE, &self.plan.database.url)
            .env("COORD_REDIS_PREFIX", &self.plan.run);
        if let Some(redis) = self.plan.redis {
            command.env("COORD_REDIS_URL", redis);
        }
        command
    }

    fn log(&self, node: u8) -> PathBuf {
        self.plan.folder.join(format!("node-{node}.log"))
    }

    /// The next thing a node says; nothing when none says anything for a moment.
    pub(crate) fn next(&mut self) -> Option<Said> {
        self.said.recv_timeout(process::POLL).ok()
    }

    /// Fails when a node has ended that nobody killed.
    ///
    /// # Errors
    /// Naming the node and what it logged last: `Missing` if it never took part, `Red` otherwise.
    pub(crate) fn check(&mut self, tally: &Tally) -> Result<()> {
        for (node, child) in (1..).zip(&mut self.children) {
            if Some(node) != tally.killed()
                && let Ok(Some(status)) = child.try_wait()
            {
                let log = self.plan.folder.join(format!("node-{node}.log"));
                let what = format!("node {node} ended with {status}{}", end_of(&log));
                return Err(if tally.was_up(node) {
                    Failure::Red(what)
                } else {
                    Failure::Missing(format!("{what}\nits database: {}", self.plan.database))
                });
            }
        }
        Ok(())
    }

    /// What the nodes logged last.
    pub(crate) fn logged(&self) -> String {
        let nodes = 1..=self.plan.nodes;
        nodes.map(|node| end_of(&self.log(node))).collect()
    }

    /// The last call of the database that failed, as a node logged it.
    pub(crate) fn trouble(&self) -> Option<String> {
        let nodes = 1..=self.plan.nodes;
        let mut trouble = nodes.filter_map(|node| {
            let text = fs::read_to_string(self.log(node)).ok()?;
            Some(format!("node {node} logged {}", trouble_in(&text)?))
        });
        trouble.next_back()
    }

    /// Kills the node if it has records in its hands, as the system would for want of memory: no
    /// warning, nothing to hold on to. Whether it did.
    ///
    /// The node stands still while what it said is heard, so that what is in its hands is certain.
    ///
    /// # Errors
    /// `Missing` if the system refuses.
    pub(crate) fn kill(&mut self, node: u8, tally: &mut Tally, spare_idle: bool) -> Result<bool> {
        process::signal_group(self.child(node), Signal::SIGSTOP);
        let until = Instant::now() + HEARD;
        while Instant::now() < until {
            self.note_next(tally);
        }
        if spare_idle && tally.in_hands(node) == 0 {
            process::signal_group(self.child(node), Signal::SIGCONT);
            return Ok(false);
        }
        let refused =
            |cause: io::Error| Failure::Missing(format!("cannot kill node {node}: {cause}"));
        let killed = Instant::now();
        self.child(node).kill().map_err(refused)?;
        // Reaped, so that it is not taken for one that ended by itself.
        self.child(node).wait().map_err(refused)?;
        while !tally.has_ended(node) {
            self.note_next(tally);
        }
        tally.note_kill(node, killed);
        Ok(true)
    }

    fn child(&mut self, node: u8) -> &mut Child {
        &mut self.children[usize::from(node) - 1]
    }

    fn note_next(&mut self, tally: &mut Tally) {
        if let Some(said) = self.next() {
            tally.note(&said, Instant::now());
        }
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
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        while self.children.iter_mut().any(runs) {
            interrupts.check()?;
            if Instant::now() > deadline {
                return Err(Failure::Red(format!(
                    "a node did not drain within {} s of SIGTERM{}",
                    DRAIN.as_secs(),
                    self.logged()
                )));
            }
            self.note_next(tally);
        }
        while let Some(said) = self.next() {
            tally.note(&said, Instant::now());
        }
        Ok(())
    }

    /// What the database holds of the run, as one more process reads it.
    ///
    /// # Errors
    /// `Red` if it cannot be read.
    pub(crate) fn recorded(&self) -> Result<Vec<Event>> {
        let mut command = self.command("recorded");
        let read = command.args(["--run", &self.plan.run]).output();
        let read = read.map_err(|cause| Failure::file("start", &self.program, &cause))?;
        if !read.status.success() {
            return Err(Failure::Red(format!(
                "what {} holds cannot be read: {}",
                self.plan.database,
                String::from_utf8_lossy(&read.stderr).trim()
            )));
        }
        let text = String::from_utf8_lossy(&read.stdout);
        let events = text.lines().map(|line| {
            serde_json::from_str(line).map_err(|cause| {
                Failure::Red(format!("the node says what is no event ({cause}): {line}"))
            })
        });
        events.collect()
    }

    /// Removes the keys of the run.
    ///
    /// # Errors
    /// `Red` if they could not be removed; `Interrupted`.
    pub(crate) fn purge(&self, interrupts: &mut Interrupts) -> Result<()> {
        if self.plan.redis.is_none() {
            return Ok(());
        }
        let status = interrupts.run(&mut self.command("purge"))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Red(format!(
                "the keys of the run, which begin with {}, were not removed: {status}",
                self.plan.run
            )))
        }
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            process::end_within(child, Duration::ZERO);
        }
    }
}

/// The last line of a log about a database that refuses.
fn trouble_in(log: &str) -> Option<&str> {
    log.lines()
        .rfind(|line| line.contains(REFUSED))
        .map(str::trim)
}

/// The last lines of a log, and where it is.
fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN)..].join("\n  ");
    format!("\n{} ends with:\n  {last}", log.display())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread ends with the output of its node, which ends with `Nodes`"
)]
fn listen(node: u8, output: ChildStdout, say: Sender<Said>) {
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(io::Result::ok);
        let events = lines.map(|line| {
            serde_json::from_str(&line).unwrap_or_else(|cause| Event::Failed {
                message: format!("says what is no event ({cause}): {line}"),
            })
        });
        for event in events.chain([Event::Ended]) {
            if say.send(Said { node, event }).is_err() {
                // Nobody listens any more: the run is over.
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_database_that_refuses_the_last_word_is_found() {
        let log = "WARN key=\"engine.store_failed\" error=\"the first\"\n\
                   WARN key=\"engine.store_failed\" error=\"database or disk is full\"\n\
                   WARN key=\"engine.limit_near\"\n";

        let trouble = trouble_in(log).expect("it refuses");

        assert!(trouble.contains("disk is full"), "{trouble}");
        assert_eq!(trouble_in("WARN key=\"engine.limit_near\"\n"), None);
    }
}

//! The nodes: processes of `coord serve`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::server::{free_port, tail};

use super::wrk::Load;

/// As many as the files of deploy/ have.
pub(super) const COUNT: usize = 3;

/// How long a node may take to be ready: the first one makes the schema.
const START: Duration = Duration::from_mins(1);

/// How long a node may take to end: as long as orchestrators wait before they kill.
const GRACE: Duration = Duration::from_secs(30);

/// How long a node has to be ready before the next one is told to end. The nginx of deploy/ leaves
/// one out for five seconds after it could not be reached; until then the others have to be there.
const SETTLED: Duration = Duration::from_secs(8);

/// The most rows that one page of a list has.
const PAGE: &str = "1000";

/// What the nodes stand on.
pub(super) struct Place<'run> {
    pub(super) coord: &'run Path,
    pub(super) database: &'run str,
    pub(super) redis: String,
    pub(super) folder: &'run Path,
}

/// The running nodes. Dropping it ends them.
pub(super) struct Nodes<'run> {
    place: &'run Place<'run>,
    addresses: Vec<SocketAddr>,
    children: Vec<Child>,
    tokens: PathBuf,
    token: String,
}

/// How the restart of a node went.
pub(super) struct Restart {
    /// From the signal to the end of the process.
    pub(super) ended_after: Duration,
    /// From the signal to the moment when it takes traffic again.
    pub(super) ready_after: Duration,
}

impl<'run> Nodes<'run> {
    /// Starts them, and waits until all of them are ready.
    ///
    /// # Errors
    /// `Missing` if one does not come up; `Interrupted`.
    pub(super) fn start(place: &'run Place<'run>, interrupts: &mut Interrupts) -> Result<Self> {
        let token = secret();
        let tokens = place.folder.join("tokens.json");
        let known = json!({"tokens": [{"name": "load", "role": "operator", "token": token}]});
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&tokens)
            .and_then(|file| Ok(serde_json::to_writer(file, &known)?));
        written.map_err(|cause| Failure::file("write", &tokens, &cause))?;
        let mut nodes = Self {
            place,
            addresses: Vec::new(),
            children: Vec::new(),
            tokens,
            token,
        };
        for node in 0..COUNT {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            nodes.addresses.push(address);
            let child = nodes.start_one(node)?;
            nodes.children.push(child);
        }
        for node in 0..COUNT {
            nodes.until_ready(node, interrupts)?;
        }
        Ok(nodes)
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// What callers show.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    fn start_one(&self, node: usize) -> Result<Child> {
        let log = self.log(node);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|cause| Failure::file("write", &log, &cause))?;
        let mut command = self.command();
        command
            .arg("serve")
            .env("APP_NAME", format!("node-{}", node + 1))
            .env("COORD_LISTEN", self.addresses[node].to_string())
            .env("COORD_TOKENS_FILE", &self.tokens)
            .env("CACHE_DRIVER", "redis")
            .env("DW_V2_MULTI_NODE", "true")
            .stdout(Stdio::null())
            .stderr(output);
        process::spawn_bound(&mut command)
            .map_err(|cause| Failure::file("start", self.place.coord, &cause))
    }

    /// A call of coord that knows where it is, and nothing else.
    fn command(&self) -> Command {
        let mut command = Command::new(self.place.coord);
        command
            .env_clear()
            .env("DATABASE_URL", self.place.database)
            .env("COORD_REDIS_URL", &self.place.redis)
            .stdin(Stdio::null());
        command
    }

    fn log(&self, node: usize) -> PathBuf {
        self.place.folder.join(format!("node-{}.log", node + 1))
    }

    fn until_ready(&mut self, node: usize, interrupts: &mut Interrupts) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            interrupts.check()?;
            if let Ok(Some(status)) = self.children[node].try_wait() {
                return Err(self.failed(node, &format!("ended with {status}")));
            }
            let url = format!("http://{}", self.addresses[node]);
            let mut asked = self.command();
            asked
                .args(["health", "--ready", "--node", &url])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if interrupts.run(&mut asked)?.success() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!("is not ready within {} s", START.as_secs());
                return Err(self.failed(node, &what));
            }
            thread::sleep(process::POLL);
        }
    }

    fn failed(&self, node: usize, what: &str) -> Failure {
        let said = tail(&self.log(node));
        Failure::Red(format!("node {} {what}; it logged:\n{said}", node + 1))
    }

    /// Ends a node as a roll-out does, starts it again, and lets it settle.
    ///
    /// # Errors
    /// `Red` if it does not end in order or does not come back; `Interrupted`.
    pub(super) fn restart(
        &mut self,
        node: usize,
        load: &mut Load,
        interrupts: &mut Interrupts,
    ) -> Result<Restart> {
        let told = Instant::now();
        process::signal_group(&self.children[node], Signal::SIGTERM);
        let status = self.until_ended(node, interrupts)?;
        if !status.success() {
            return Err(self.failed(node, &format!("was told to end, and ended with {status}")));
        }
        let ended_after = told.elapsed();
        self.children[node] = self.start_one(node)?;
        self.until_ready(node, interrupts)?;
        let ready_after = told.elapsed();
        load.go_on(SETTLED, interrupts)?;
        Ok(Restart {
            ended_after,
            ready_after,
        })
    }

    fn until_ended(&mut self, node: usize, interrupts: &mut Interrupts) -> Result<ExitStatus> {
        let deadline = Instant::now() + GRACE;
        loop {
            interrupts.check()?;
            if let Ok(Some(status)) = self.children[node].try_wait() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let what = format!("does not end within {} s of SIGTERM", GRACE.as_secs());
                return Err(self.failed(node, &what));
            }
            thread::sleep(process::POLL);
        }
    }

    /// Tells all of them to end, and waits for them.
    ///
    /// # Errors
    /// `Red` if one does not end in order; `Interrupted`.
    pub(super) fn stop(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        for child in &self.children {
            process::signal_group(child, Signal::SIGTERM);
        }
        for node in 0..COUNT {
            let status = self.until_ended(node, interrupts)?;
            if !status.success() {
                return Err(self.failed(node, &format!("ended with {status}")));
            }
        }
        Ok(())
    }

    /// The ids that the database has of a run of the load, read by `coord runs list`.
    ///
    /// # Errors
    /// `Red` if they cannot be read; `Interrupted`.
    pub(super) fn stored(
        &self,
        name: &str,
        interrupts: &mut Interrupts,
    ) -> Result<BTreeSet<String>> {
        let unreadable = |what: &dyn std::fmt::Display| {
            Failure::Red(format!(
                "the workflows in the database cannot be read: {what}"
            ))
        };
        let mut ids = BTreeSet::new();
        let mut after: Option<String> = None;
        loop {
            interrupts.check()?;
            let mut command = self.command();
            command.args(["runs", "list", "--json", "--limit", PAGE, "--prefix", name]);
            if let Some(after) = &after {
                command.args(["--after", after]);
            }
            let said = command.output().map_err(|cause| unreadable(&cause))?;
            if !said.status.success() {
                return Err(unreadable(&String::from_utf8_lossy(&said.stderr)));
            }
            let page: Value =
                serde_json::from_slice(&said.stdout).map_err(|cause| unreadable(&cause))?;
            let runs = page["runs"].as_array().map(Vec::as_slice);
            let runs = runs.ok_or_else(|| unreadable(&"a page has no runs"))?;
            let workflows = runs.iter().filter_map(|run| run["workflow"].as_str());
            ids.extend(workflows.map(str::to_owned));
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(ids);
            }
        }
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            process::end_within(child, Duration::ZERO);
        }
        // It opens nothing any more.
        let _ = fs::remove_file(&self.tokens);
    }
}

/// Nobody's but this run's, on loopback.
fn secret() -> String {
    let word = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", word(), word())
}

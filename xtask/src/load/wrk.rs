//! wrk, which asks, and notes what it was answered.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;

/// What it asks for and what it notes, which it runs itself.
const SCRIPT: &str = include_str!("wrk.lua");

/// The threads that ask: as many as the smallest machine has cores.
const THREADS: u16 = 2;

/// How long one that is ended by a signal would go on otherwise: for ever, as far as this goes.
const FOR_EVER: Duration = Duration::from_hours(24);

/// How long it may take to end after its time.
const GRACE: Duration = Duration::from_secs(30);

/// A part of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Starts workflows.
    Start,
    /// Describes those that were started.
    Describe,
    /// One after the other.
    Both,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Describe => "describe",
            Self::Both => "both",
        }
    }
}

/// How a part went.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Measured {
    pub(super) requests: u64,
    microseconds: u64,
    /// Latencies in microseconds.
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    /// Answers that say that it failed.
    status: u64,
    /// Connections that could not be made or broke, and answers that did not come.
    broken: u64,
}

impl Measured {
    pub(super) fn failed(&self) -> u64 {
        self.status + self.broken
    }

    pub(super) fn per_second(&self) -> f64 {
        self.requests as f64 / Duration::from_micros(self.microseconds).as_secs_f64()
    }
}

/// Whoever asks, and of whom.
pub(super) struct Wrk<'run> {
    program: PathBuf,
    url: String,
    token: String,
    name: String,
    folder: &'run Path,
    script: PathBuf,
    connections: u16,
}

impl<'run> Wrk<'run> {
    pub(super) fn new(
        program: PathBuf,
        url: &str,
        token: &str,
        folder: &'run Path,
        connections: u16,
    ) -> Result<Self> {
        let script = folder.join("wrk.lua");
        fs::write(&script, SCRIPT).map_err(|cause| Failure::file("write", &script, &cause))?;
        Ok(Self {
            program,
            url: url.to_owned(),
            token: token.to_owned(),
            name: format!("load-{:08x}", RandomState::new().hash_one(()) as u32),
            folder,
            script,
            connections,
        })
    }

    /// What the ids of all workflows begin with that it starts.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a part, which goes on until it is ended.
    ///
    /// # Errors
    /// `Missing` if it cannot be started.
    pub(super) fn begin(&self, part: Part) -> Result<Load> {
        self.start(part, FOR_EVER)
    }

    /// Runs a part to its end.
    ///
    /// # Errors
    /// `Red` if it does not end in order; `Interrupted`.
    pub(super) fn run(
        &self,
        part: Part,
        time: Duration,
        interrupts: &mut Interrupts,
    ) -> Result<Measured> {
        self.start(part, time)?.ended(time + GRACE, interrupts)
    }

    fn start(&self, part: Part, time: Duration) -> Result<Load> {
        eprintln!("xtask: {} workflows", part.word());
        let said = self.folder.join(format!("{}.out", part.word()));
        let output = File::create(&said).map_err(|cause| Failure::file("write", &said, &cause))?;
        let mut command = Command::new(&self.program);
        command
            .args(["--threads", &THREADS.to_string()])
            .args(["--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", time.as_secs())])
            .args(["--timeout", "10s", "--script"])
            .arg(&self.script)
            .args([&self.url, "--", part.word(), &self.name])
            .arg(self.folder)
            .arg(&self.token)
            .stdin(Stdio::null())
            .stdout(output);
        let child = process::spawn_bound(&mut command)
            .map_err(|cause| Failure::file("start", &self.program, &cause))?;
        Ok(Load { child, said })
    }

    /// Has what a part started described from now on.
    ///
    /// # Errors
    /// `Red` if it started nothing.
    pub(super) fn remember(&self, part: Part) -> Result<()> {
        let known = self.notes(part.word(), "confirmed")?;
        if known.is_empty() {
            let refused = self.refusals()?;
            return Err(Failure::Red(format!(
                "no start was confirmed; the first refusals: {refused:?}"
            )));
        }
        let file = self.folder.join("known");
        fs::write(&file, known.join("\n")).map_err(|cause| Failure::file("write", &file, &cause))
    }

    /// The ids of all workflows whose start was confirmed.
    ///
    /// # Errors
    /// `Missing` if the notes cannot be read.
    pub(super) fn confirmed(&self) -> Result<BTreeSet<String>> {
        Ok(self.notes("", "confirmed")?.into_iter().collect())
    }

    /// What was answered that was no success, some of it.
    ///
    /// # Errors
    /// `Missing` if the notes cannot be read.
    pub(super) fn refusals(&self) -> Result<Vec<String>> {
        const SHOWN: usize = 5;
        let mut refused = self.notes("", "refused")?;
        refused.truncate(SHOWN);
        Ok(refused)
    }

    /// The lines of all notes of a kind whose names begin so.
    fn notes(&self, beginning: &str, kind: &str) -> Result<Vec<String>> {
        let unreadable = |cause: std::io::Error| Failure::file("read", self.folder, &cause);
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if path.extension().is_some_and(|end| end == kind) && name.starts_with(beginning) {
                let text = fs::read_to_string(&path).map_err(unreadable)?;
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        Ok(lines)
    }
}

/// A load that runs. Dropping it ends it.
pub(super) struct Load {
    child: Child,
    said: PathBuf,
}

impl Load {
    /// Lets it run for a while.
    ///
    /// # Errors
    /// `Red` if it has ended; `Interrupted`.
    pub(super) fn go_on(&mut self, time: Duration, interrupts: &mut Interrupts) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            interrupts.check()?;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::Red(format!("wrk ended with {status}")));
            }
            thread::sleep(process::POLL);
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// `Red` if it does not end in order; `Interrupted`.
    pub(super) fn end(self, interrupts: &mut Interrupts) -> Result<Measured> {
        process::signal_group(&self.child, Signal::SIGINT);
        self.ended(GRACE, interrupts)
    }

    fn ended(mut self, within: Duration, interrupts: &mut Interrupts) -> Result<Measured> {
        let deadline = Instant::now() + within;
        let status = loop {
            interrupts.check()?;
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                _ if Instant::now() > deadline => {
                    return Err(Failure::Red("wrk does not end".to_owned()));
                }
                _ => thread::sleep(process::POLL),
            }
        };
        let said = fs::read_to_string(&self.said)
            .map_err(|cause| Failure::file("read", &self.said, &cause))?;
        measured(&said).filter(|_| status.success()).ok_or_else(|| {
            Failure::Red(format!(
                "wrk ended with {status} and said:\n{}",
                said.trim()
            ))
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        process::end_within(&mut self.child, Duration::ZERO);
    }
}

/// What the script prints at the end, among what wrk prints itself.
fn measured(said: &str) -> Option<Measured> {
    let line = said.lines().rfind(|line| line.starts_with('{'))?;
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_found_in_what_wrk_says() {
        let said = "Running 10s test\n  2 threads\nRequests/sec: 5\n\
                    {\"requests\":500,\"microseconds\":2000000,\"p50\":900,\"p99\":4000,\"max\":9000,\
                    \"status\":2,\"broken\":1}\n";

        let found = measured(said).expect("it is there");

        assert_eq!((found.failed(), found.per_second()), (3, 250.0));
        assert!(measured("Running 10s test\n").is_none());
    }
}

//! Signals that ask this process to end, and running children so that they end with it.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Failure, Result};
use crate::process;

/// How long a child may take to end after it was asked to. A second signal ends the wait at once.
const GRACE: Duration = Duration::from_secs(10);

/// The signals that asked this process to end and were not yet acted upon.
///
/// They are only noted when they arrive; the task then returns through its normal path, so every
/// guard it holds stops what it started.
pub(crate) struct Interrupts {
    signals: Signals,
}

impl Interrupts {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on instead of dying from them.
    ///
    /// # Errors
    /// `Missing` if the system refuses the handlers.
    pub(crate) fn install() -> Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|cause| Failure::Missing(format!("cannot handle signals: {cause}")))?;
        Ok(Self { signals })
    }

    /// Fails if a signal arrived since the last call.
    ///
    /// # Errors
    /// `Interrupted` with the signal.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.signals.pending().next() {
            Some(signal) => Err(Failure::Interrupted(signal)),
            None => Ok(()),
        }
    }

    /// Runs a command to its end. It ends with this process, however this process ends.
    ///
    /// # Errors
    /// `Missing` if it cannot be started; `Interrupted` if a signal arrived: it was passed on to
    /// the command and everything it started, and they have ended.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<ExitStatus> {
        let child = self.start(command)?;
        self.wait(child, command, &mut || {})
    }

    /// Like [`run`](Self::run); each line that the command writes is printed, and heard.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub(crate) fn run_heard(
        &mut self,
        command: &mut Command,
        mut hear: impl FnMut(&str),
    ) -> Result<ExitStatus> {
        let mut child = self.start(command.stdout(Stdio::piped()))?;
        let output = child.stdout.take().expect("it was asked for");
        let (said, lines) = mpsc::channel::<String>();
        let mut hear_all = || {
            for line in lines.try_iter() {
                hear(&line);
            }
        };
        let status = thread::scope(|scope| {
            // Ends with the pipe, which the last of the command's children closes.
            scope.spawn(move || {
                for line in BufReader::new(output).lines().map_while(io::Result::ok) {
                    println!("{line}");
                    if said.send(line).is_err() {
                        return;
                    }
                }
            });
            self.wait(child, command, &mut hear_all)
        })?;
        hear_all();
        Ok(status)
    }

    fn start(&mut self, command: &mut Command) -> Result<Child> {
        self.check()?;
        process::spawn_bound(command).map_err(|cause| {
            Failure::Missing(format!(
                "cannot start {}: {cause}",
                command.get_program().display()
            ))
        })
    }

    fn wait(
        &mut self,
        mut child: Child,
        command: &Command,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<ExitStatus> {
        loop {
            meanwhile();
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(cause) => {
                    process::end_within(&mut child, Duration::ZERO);
                    return Err(Failure::Missing(format!(
                        "cannot wait for {}: {cause}",
                        command.get_program().display()
                    )));
                }
            }
            if let Some(signal) = self.signals.pending().next() {
                self.end(&mut child, signal);
                return Err(Failure::Interrupted(signal));
            }
            thread::sleep(process::POLL);
        }
    }

    /// Passes a signal on and waits until the child has ended: by itself, or killed when the grace
    /// is over or a second signal shows that the user will not wait.
    fn end(&mut self, child: &mut Child, signal: i32) {
        if let Ok(signal) = Signal::try_from(signal) {
            process::signal_group(child, signal);
        }
        let deadline = Instant::now() + GRACE;
        while matches!(child.try_wait(), Ok(None))
            && self.signals.pending().next().is_none()
            && Instant::now() < deadline
        {
            thread::sleep(process::POLL);
        }
        process::end_within(child, Duration::ZERO);
    }
}

//! Children that never outlive this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often a child is asked whether it has ended. Short against what a person notices, long
/// against the cost of the question.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Starts a child that leads its own process group and that the system kills when this process
/// ends, also when this process is killed.
///
/// The system watches the *thread* that starts the child, not the process: call this on the main
/// thread only, which ends with the process.
///
/// # Errors
/// What the system says where the program cannot be started.
pub(crate) fn spawn_bound(command: &mut Command) -> io::Result<Child> {
    end_with_parent(command);
    spawn_group(command)
}

/// Starts a child that leads its own process group.
///
/// A signal typed at the terminal then reaches this process alone, which ends the group in order:
/// first what uses a server, then the server.
///
/// # Errors
/// What the system says where the program cannot be started.
pub(crate) fn spawn_group(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Sends a signal to a child and to everything it started in its group.
pub(crate) fn signal_group(child: &Child, signal: Signal) {
    // An error says that nothing is left in the group, which is what the caller wants.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), signal);
}

/// Waits for a child to end, for a limited time, then kills its group. The child is gone afterwards.
pub(crate) fn end_within(child: &mut Child, patience: Duration) {
    let deadline = Instant::now() + patience;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    signal_group(child, Signal::SIGKILL);
    // Only fails for a child that was already waited for.
    let _ = child.wait();
}

#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let bind = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above: then no signal will ever come.
        if nix::unistd::getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::other(
                "the task ended while it was starting this process",
            ))
        }
    };
    // SAFETY: between fork and exec only prctl and getppid are called, which are
    // async-signal-safe; neither allocates nor takes a lock.
    #[expect(
        unsafe_code,
        reason = "std has no safe way to ask for the parent-death signal"
    )]
    unsafe {
        command.pre_exec(bind);
    }
}

/// Other systems have no parent-death signal: there a child outlives a `kill -9` of this process,
/// but no other way of ending it.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_command: &mut Command) {}

//! The kernel kills a child when its parent is gone, however that went.

// `pre_exec` is unsafe because what runs between fork and exec must be async-signal-safe; no safe
// interface sets the parent-death signal of a child.
#![allow(unsafe_code)]

use std::process::Command;

/// Has the child of `command` killed when the thread that spawns it ends.
#[cfg(target_os = "linux")]
pub(super) fn arm(command: &mut Command) {
    use std::{io, os::unix::process::CommandExt};

    use nix::{
        errno::Errno,
        sys::{prctl, signal::Signal},
        unistd::{getpid, getppid},
    };

    let parent = getpid();
    let set = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // A parent that went before the call sends no signal any more.
        if getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::from(Errno::ESRCH))
        }
    };
    // SAFETY: `set` makes two system calls and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// Nothing: only Linux knows a parent-death signal.
#[cfg(not(target_os = "linux"))]
pub(super) fn arm(_command: &mut Command) {}

//! Child processes that end when this process does.

use std::{
    io,
    process::{self, Command},
    sync::{LazyLock, Mutex, PoisonError, mpsc},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::wait;

mod die_with_parent;

/// How long a signal that cannot be refused may take to show.
const SIGNAL_WITHIN: Duration = Duration::from_secs(5);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
    Ended(Exit),
}

/// A child process; dropping it kills it.
pub(crate) struct Child {
    pid: Pid,
    // Also keeps a signal from going to a process id that was reaped and given away again.
    state: Mutex<State>,
}

impl Child {
    /// Starts `command`. The pipes it asked for come along.
    pub(crate) fn spawn(command: Command) -> io::Result<(Self, Pipes)> {
        let mut child = fork(command)?;
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let pid = Pid::from_raw(child.id().cast_signed());
        Ok((
            Self {
                pid,
                state: Mutex::new(State::Running),
            },
            pipes,
        ))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.state() {
            State::Ended(exit) => Some(exit),
            State::Running | State::Stopped => None,
        }
    }

    /// How it ended, or `None` when it still runs after `limit`.
    pub(crate) async fn wait(&self, limit: Duration) -> Option<Exit> {
        wait::poll(limit, || async { self.exit() }).await
    }

    /// SIGTERM; what the process makes of it is its own affair.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// SIGKILL. The process has ended when this returns.
    pub(crate) async fn kill(&self) -> Exit {
        self.signal(Signal::SIGKILL);
        self.wait(SIGNAL_WITHIN)
            .await
            .expect("SIGKILL cannot be refused")
    }

    /// SIGSTOP. The process stands still when this returns.
    pub(crate) async fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        self.reach(State::Stopped).await;
    }

    /// SIGCONT.
    pub(crate) async fn resume(&self) {
        self.signal(Signal::SIGCONT);
        self.reach(State::Running).await;
    }

    async fn reach(&self, wanted: State) {
        let reached = wait::poll(SIGNAL_WITHIN, || async {
            match self.state() {
                State::Ended(exit) => panic!("process {} ended already: {exit:?}", self.pid),
                state => (state == wanted).then_some(()),
            }
        });
        reached
            .await
            .expect("SIGSTOP and SIGCONT cannot be refused");
    }

    fn signal(&self, signal: Signal) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, State::Ended(_)) {
            kill(self.pid, signal).expect("an own child that was not reaped can be signalled");
        }
    }

    fn state(&self) -> State {
        const CHANGES: WaitPidFlag = WaitPidFlag::WNOHANG
            .union(WaitPidFlag::WUNTRACED)
            .union(WaitPidFlag::WCONTINUED);
        self.reap(CHANGES)
    }

    fn reap(&self, flags: WaitPidFlag) -> State {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A stop and what followed it are reported one by one.
        while !matches!(*state, State::Ended(_)) {
            *state = match waitpid(self.pid, Some(flags)) {
                Ok(WaitStatus::Exited(_, code)) => State::Ended(Exit::Code(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => State::Ended(Exit::Signal(signal as i32)),
                Ok(WaitStatus::Stopped(..)) => State::Stopped,
                Ok(WaitStatus::Continued(_)) => State::Running,
                Err(Errno::EINTR) => continue,
                Ok(_) => break,
                Err(error) => panic!("waiting for process {}: {error}", self.pid),
            };
        }
        *state
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit().is_none() {
            self.signal(Signal::SIGKILL);
            self.reap(WaitPidFlag::empty());
        }
    }
}

/// The pipes that a child's command asked for.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<process::ChildStdin>,
    pub(crate) stdout: Option<process::ChildStdout>,
    pub(crate) stderr: Option<process::ChildStderr>,
}

type Order = (Command, mpsc::Sender<io::Result<process::Child>>);

/// The one thread that forks: a child is killed when the *thread* that forked it ends, and the
/// threads of tests end.
static FORKER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::channel::<Order>();
    std::thread::Builder::new()
        .name("forker".to_owned())
        .spawn(move || {
            for (mut command, answer) in inbox {
                die_with_parent::arm(&mut command);
                // Returns when the child has become the other program.
                let _ = answer.send(between_forks(|| command.spawn()));
            }
        })
        .expect("the system has room for a thread");
    orders
});

/// Held while a child has a copy of every socket, which is until it becomes another program.
static FORKING: Mutex<()> = Mutex::new(());

/// Runs `change` while no child is being forked.
///
/// A port is closed, and free, when its last copy is. Whoever closes one and says so must not
/// leave a copy with a half-born child.
pub(crate) fn between_forks<T>(change: impl FnOnce() -> T) -> T {
    let _none = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    change()
}

fn fork(command: Command) -> io::Result<process::Child> {
    let (answer, outcome) = mpsc::channel();
    FORKER
        .send((command, answer))
        .expect("the forker never ends");
    outcome.recv().expect("the forker answers every order")
}

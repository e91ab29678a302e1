//! Nodes as processes of their own, which a test starts, talks to by lines, stops and kills.
//!
//! The partner is any binary that reads commands from its standard input and says what it did on
//! its standard output, one line each. It ends with the test process, however that ends.

use std::{
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
    sync::watch,
    task::JoinSet,
};

use crate::child::{Child, Exit};

/// A program to start; its environment is that of the test, and what [`env`](Self::env) adds.
#[must_use = "nothing runs before `start`"]
pub struct Program(Command);

impl Program {
    /// The executable at `path`, such as `env!("CARGO_BIN_EXE_node")`.
    pub fn at(path: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(path);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self(command)
    }

    /// Adds an argument.
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.0.arg(word);
        self
    }

    /// Adds arguments.
    pub fn args<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.0.args(words);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When the system cannot start it.
    ///
    /// # Panics
    /// Outside a Tokio runtime, which collects what the process says.
    pub fn start(self) -> io::Result<NodeProcess> {
        let (child, pipes) = Child::spawn(self.0)?;
        let stdin = pipe::Sender::from_owned_fd(pipes.stdin.expect("asked for").into())?;
        let mut readers = JoinSet::new();
        let stdout = collect(pipes.stdout.expect("asked for").into(), &mut readers)?;
        let stderr = collect(pipes.stderr.expect("asked for").into(), &mut readers)?;
        Ok(NodeProcess {
            child,
            stdin: Some(stdin),
            stdout,
            read: 0,
            stderr,
            _readers: readers,
        })
    }
}

/// A process that runs, or has run; dropping it kills it.
pub struct NodeProcess {
    child: Child,
    stdin: Option<pipe::Sender>,
    stdout: Lines,
    /// How many lines [`next_line`](Self::next_line) has returned.
    read: usize,
    stderr: Lines,
    // Reading goes on in the background, so that a full pipe never holds the process up.
    _readers: JoinSet<()>,
}

impl NodeProcess {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Writes one line to its standard input.
    ///
    /// # Errors
    /// When the process no longer reads.
    ///
    /// # Cancel safety
    /// Unsafe: part of the line may have been written.
    pub async fn send(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{line}\n").as_bytes()).await
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line of its standard output, or `None` when there is none within `limit` or none
    /// is to come.
    ///
    /// # Cancel safety
    /// Safe: the line is the next one again.
    pub async fn next_line(&mut self, limit: Duration) -> Option<String> {
        let read = self.read;
        let more = self
            .stdout
            .wait_for(|said| said.lines.len() > read || said.ended);
        let said = tokio::time::timeout(limit, more).await.ok()?.ok()?;
        let line = said.lines.get(read)?.clone();
        self.read += 1;
        Some(line)
    }

    /// Skips lines until one starts with `start`, and returns it.
    ///
    /// # Panics
    /// When none does within `limit`, with all that the process said.
    ///
    /// # Cancel safety
    /// Safe, except that lines may have been skipped.
    pub async fn line_starting(&mut self, start: &str, limit: Duration) -> String {
        let end = tokio::time::Instant::now() + limit;
        while let Some(line) = self.next_line(end - tokio::time::Instant::now()).await {
            if line.starts_with(start) {
                return line;
            }
        }
        panic!(
            "process {} has no line {start:?} within {limit:?}\nit said:\n{}\nand on stderr:\n{}",
            self.pid(),
            self.lines().join("\n"),
            self.stderr().join("\n"),
        )
    }

    /// All lines of its standard output until now.
    pub fn lines(&self) -> Vec<String> {
        self.stdout.borrow().lines.clone()
    }

    /// All lines of its standard error until now.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.borrow().lines.clone()
    }

    /// SIGTERM; see [`wait`](Self::wait) for what comes of it.
    pub fn terminate(&self) {
        self.child.terminate();
    }

    /// SIGKILL. The process has ended when this returns.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn kill(&self) -> Exit {
        self.child.kill().await
    }

    /// SIGSTOP. The process stands still when this returns.
    ///
    /// # Panics
    /// When the process has ended.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn pause(&self) {
        self.child.pause().await;
    }

    /// SIGCONT.
    ///
    /// # Panics
    /// When the process has ended.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn resume(&self) {
        self.child.resume().await;
    }

    /// How it ended, or `None` when it still runs after `limit`.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self, limit: Duration) -> Option<Exit> {
        self.child.wait(limit).await
    }
}

/// What came out of a pipe until now.
#[derive(Default)]
struct Said {
    lines: Vec<String>,
    ended: bool,
}

type Lines = watch::Receiver<Said>;

fn collect(pipe: OwnedFd, readers: &mut JoinSet<()>) -> io::Result<Lines> {
    let mut lines = BufReader::new(pipe::Receiver::from_owned_fd(pipe)?).lines();
    let (said, receiver) = watch::channel(Said::default());
    readers.spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            said.send_modify(|said| said.lines.push(line));
        }
        said.send_modify(|said| said.ended = true);
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests;

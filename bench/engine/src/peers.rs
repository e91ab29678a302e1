//! The peers: each a program of its own, built when it is first needed.

use std::path::PathBuf;
use std::process::Stdio;

use coord_bench_measure::Result;
use coord_bench_measure::peer::{Answer, Task};
use coord_bench_measure::round::Driven;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A peer that runs. It ends with this.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Why it does no more, if it does not.
    pub(crate) trouble: Option<String>,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Peer {
    /// Builds the peer and starts it on the database at `url`; says why it cannot.
    pub(crate) async fn start(name: &'static str, url: &str) -> Result<Self> {
        let manifest: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", name, "Cargo.toml"]
            .iter()
            .collect();
        let built = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--manifest-path"])
            .arg(&manifest)
            .status()
            .await?;
        if !built.success() {
            return Err(format!("{name} does not build").into());
        }
        // Cargo knows where it put the program, and becomes it.
        let mut child = Command::new("cargo")
            .args(["run", "--release", "--quiet", "--manifest-path"])
            .arg(&manifest)
            .arg("--")
            .arg(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or("it has no pipes")?;
        Ok(Self {
            name,
            trouble: None,
            input,
            output: BufReader::new(output).lines(),
            _child: child,
        })
    }

    /// With how many at a time it is measured: duroxide ends about twenty workflows a second, so that
    /// a window of 256 would last for ten and more.
    pub(crate) fn most(&self) -> usize {
        if self.name == "duroxide" {
            32
        } else {
            usize::MAX
        }
    }

    /// Has it do `task`.
    pub(crate) async fn run(&mut self, task: &Task) -> Result<Driven> {
        let mut line = serde_json::to_vec(task)?;
        line.push(b'\n');
        self.input.write_all(&line).await?;
        self.input.flush().await?;
        loop {
            let line = self.output.next_line().await?;
            let line = line.ok_or_else(|| format!("{} ended", self.name))?;
            // duroxide writes its log between the answers.
            match serde_json::from_str(&line) {
                Ok(Answer::Driven(driven)) => return Ok(driven),
                Ok(Answer::Error(error)) => return Err(format!("{}: {error}", self.name).into()),
                Err(_) => {}
            }
        }
    }
}

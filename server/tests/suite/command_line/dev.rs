//! `coord dev`: the newcomer's command.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::command_line::stage::{Ended, call, ended};

/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(3);

/// A node that a newcomer has started in `folder`.
struct Node {
    child: Child,
    url: String,
    /// The lines of the shell that it says to type.
    script: Vec<String>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Node {
    async fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coord"))
            .args(["dev", "--listen", "127.0.0.1:0", "--folder"])
            .arg(folder.join("dev"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (mut url, mut script) = (String::new(), Vec::new());
        let said = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                if let Some((_, at)) = line.split_once("serves ") {
                    at.split(',').next().expect("a url").clone_into(&mut url);
                } else if let Some(step) = line.strip_prefix("  ") {
                    script.push(step.to_owned());
                } else if line.starts_with("Ctrl-C") {
                    return;
                }
            }
        };
        tokio::time::timeout(SOON, said).await.expect("it begins");
        Self {
            child,
            url,
            script,
            lines,
        }
    }

    async fn end(mut self) {
        let id = self.child.id().expect("it lives");
        let id = Pid::from_raw(i32::try_from(id).expect("a process id"));
        kill(id, Signal::SIGTERM).expect("it lives");
        let ended = tokio::time::timeout(SOON, self.child.wait()).await;
        let ended = ended.expect("it ends").expect("a status");
        assert!(ended.success(), "{ended}");
        let more = self.lines.next_line().await.expect("text");
        assert_eq!(more, None, "it says no more than what to try");
    }
}

/// What a shell makes of `script`.
fn typed(script: &str) -> Ended {
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-euc", script]).env_clear();
    ended(shell.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_first_step_works_as_it_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path()).await;

    let script = node.script.join("\n");
    let typed = tokio::task::spawn_blocking(move || typed(&script)).await;
    let said = typed.expect("no panic").done();

    assert!(said.contains("Hello, Ada!"), "{said}");
    assert!(said.contains("a bicycle was approved by ann"), "{said}");
    for workflow in ["hello", "order-1", "launch", "hourly@"] {
        assert!(said.contains(workflow), "{workflow}: {said}");
    }
    node.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_goes_on_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("dev/coord.db").display());
    let coord = |words: &[&str]| call(&[words, &["--database", &database]].concat());
    let node = Node::start(folder.path()).await;
    let input = r#"{"item": "a boat"}"#;
    coord(&[
        "runs",
        "start",
        "examples.approval",
        "--id",
        "a",
        "--input",
        input,
    ])
    .done();
    node.end().await;
    coord(&["runs", "signal", "a", "approve", "--input", "\"eve\""]).done();

    let node = Node::start(folder.path()).await;
    let result = coord(&["runs", "result", "a", "--wait", "2m"]).done();

    assert_eq!(result.trim(), "\"a boat was approved by eve\"");
    node.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_asked_for_its_health() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path()).await;

    let health = call(&["health", "--node", &node.url, "--json"]);
    let ready = call(&["health", "--node", &format!("{}/", node.url), "--ready"]);

    assert_eq!(health.json()["status"], 200);
    assert!(ready.done().contains("ready"));
    node.end().await;
}

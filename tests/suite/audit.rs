//! The audit of `cargo xtask demo`: three nodes, of which one is killed in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use coord_tests::Exit;
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::process::{NodeProcess, Program};
use coord_tests::servers::Deployment;
use coord_tests::wait::{eventually, eventually_some};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);
const NODES: usize = 3;
/// Enough for all nodes to be in the middle for a while.
const RECORDS: usize = 200;
/// One whose SHA-256 the lock file has otherwise, and one that it does not list.
const CORRUPTED: &str = "crate-7";
const UNLISTED: &str = "crate-8";

/// The archives, the index, the database, and how nodes are started on them.
struct Stage {
    folder: TempDir,
    run: String,
    redis: Option<String>,
}

impl Stage {
    fn new(redis: Option<String>) -> Self {
        let folder = tempfile::tempdir().expect("room for a folder");
        let archives = folder.path().join("archives");
        std::fs::create_dir(&archives).expect("a new folder");
        let mut index = BTreeMap::new();
        for number in 0..RECORDS {
            let record = format!("crate-{number}");
            let content = format!("the archive {number}");
            std::fs::write(archives.join(format!("{record}.crate")), &content).expect("room");
            index.insert(record, Some(sha256(&content)));
        }
        index.insert(CORRUPTED.to_owned(), Some(sha256("something else")));
        index.insert(UNLISTED.to_owned(), None);
        let text = json!(index).to_string();
        std::fs::write(folder.path().join("index.json"), text).expect("room");
        Self {
            folder,
            run: unique("audit"),
            redis,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, task: &str) -> Program {
        let database = format!("sqlite:{}", self.path("work.db").display());
        Program::at(env!("CARGO_BIN_EXE_audit-node"))
            .arg(task)
            .env("DATABASE_URL", database)
            .env("COORD_REDIS_URL", self.redis.as_deref().unwrap_or_default())
            .env("COORD_REDIS_PREFIX", &self.run)
    }

    fn node(&self, number: usize) -> Program {
        let program = self
            .program("run")
            .args(["--node", &number.to_string(), "--run", &self.run])
            .args(["--nodes", &NODES.to_string(), "--index"])
            .arg(self.path("index.json"))
            .arg(self.path("archives"));
        if self.redis.is_none() {
            program.arg("--without-redis")
        } else {
            program
        }
    }

    fn nodes(&self) -> Vec<NodeProcess> {
        let node = |number| self.node(number).start().expect("cargo built it");
        (1..=NODES).map(node).collect()
    }

    /// What the database holds: the finding of each record, and how often it was recorded.
    async fn recorded(&self) -> BTreeMap<String, (String, u64)> {
        let reader = self.program("recorded").args(["--run", &self.run]);
        let mut reader = reader.start().expect("cargo built it");
        let said = all_said(&mut reader).await;
        let exit = reader.wait(SOON).await;
        assert_eq!(exit, Some(Exit::Code(0)), "{:?}", reader.stderr());
        let found = said.iter().map(|event| {
            let finding = event["finding"].as_str().unwrap_or("none").to_owned();
            let results = event["results"].as_u64().expect("a number");
            (text(&event["record"]), (finding, results))
        });
        found.collect()
    }

    /// All that must hold of a run in which a node is killed.
    async fn survives_a_kill(&self) {
        let mut nodes = self.nodes();
        eventually(SOON, "all have begun", || async {
            nodes.iter().all(|node| !records(node, "taken").is_empty())
        })
        .await;

        let interrupted = kill_one_in_the_middle(&mut nodes).await;

        eventually(SOON, "the others know all verdicts", || async {
            nodes
                .iter()
                .all(|node| records(node, "known").len() == RECORDS)
        })
        .await;
        let again: BTreeSet<_> = nodes
            .iter()
            .flat_map(|node| records(node, "taken"))
            .collect();
        assert!(interrupted.is_subset(&again), "{interrupted:?} are lost");
        eventually(SOON, "a second tick starts nothing", || async {
            let suppressed = nodes.iter().map(|node| sum(node, "duplicates"));
            suppressed.sum::<u64>() >= RECORDS as u64
        })
        .await;
        for node in &nodes {
            node.terminate();
        }
        for node in &nodes {
            assert_eq!(node.wait(SOON).await, Some(Exit::Code(0)));
        }
        self.holds_each_verdict_once().await;
    }

    async fn holds_each_verdict_once(&self) {
        let recorded = self.recorded().await;
        assert_eq!(recorded.len(), RECORDS);
        for (record, (finding, results)) in recorded {
            let expected = match &*record {
                CORRUPTED => "mismatch",
                UNLISTED => "unlisted",
                _ => "intact",
            };
            assert_eq!((&*finding, results), (expected, 1), "{record}");
        }
    }
}

/// Kills the first node while it reads archives: those that it had not read to the end.
async fn kill_one_in_the_middle(nodes: &mut Vec<NodeProcess>) -> BTreeSet<String> {
    let mut victim = nodes.remove(0);
    eventually_some(SOON, "it is in the middle of a record", || async {
        victim.pause().await;
        if !in_hands(&victim).is_empty() {
            return Some(());
        }
        victim.resume().await;
        None
    })
    .await;
    assert_eq!(victim.kill().await, Exit::Signal(9));
    // What it had said is heard to the end.
    all_said(&mut victim).await;
    in_hands(&victim)
}

fn in_hands(node: &NodeProcess) -> BTreeSet<String> {
    let hashed = records(node, "hashed");
    records(node, "taken")
        .difference(&hashed)
        .cloned()
        .collect()
}

async fn all_said(node: &mut NodeProcess) -> Vec<Value> {
    while node.next_line(SOON).await.is_some() {}
    said(node)
}

fn said(node: &NodeProcess) -> Vec<Value> {
    let lines = node.lines();
    let events = lines.iter().map(|line| serde_json::from_str(line));
    events.collect::<Result<_, _>>().expect("lines of JSON")
}

/// The records of its events of a kind.
fn records(node: &NodeProcess, kind: &str) -> BTreeSet<String> {
    let events = said(node).into_iter();
    let events = events.filter(|event| event["event"] == kind);
    events.map(|event| text(&event["record"])).collect()
}

fn sum(node: &NodeProcess, field: &str) -> u64 {
    said(node)
        .iter()
        .filter_map(|event| event[field].as_u64())
        .sum()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn sha256(content: &str) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(content) {
        write!(digits, "{byte:02x}").expect("a string takes all");
    }
    digits
}

#[tokio::test]
async fn a_killed_node_loses_no_record_on_sqlite_alone() {
    let stage = Stage::new(None);

    stage.survives_a_kill().await;
}

#[tokio::test]
async fn a_killed_node_loses_no_record_with_redis() {
    let deployment = need!(Deployment::shared().await);
    let stage = Stage::new(Some(deployment.url()));

    stage.survives_a_kill().await;

    let purge = stage.program("purge").start().expect("cargo built it");
    assert_eq!(purge.wait(SOON).await, Some(Exit::Code(0)));
}

#[tokio::test]
async fn with_redis_the_first_tick_enqueues_each_record_once() {
    let deployment = need!(Deployment::shared().await);
    let stage = Stage::new(Some(deployment.url()));

    let nodes = stage.nodes();

    eventually(SOON, "two ticks have scanned", || async {
        let scanned = nodes
            .iter()
            .map(|node| sum(node, "added") + sum(node, "duplicates"));
        scanned.sum::<u64>() >= 2 * RECORDS as u64
    })
    .await;
    let added: u64 = nodes.iter().map(|node| sum(node, "added")).sum();
    assert_eq!(added, RECORDS as u64);
}

#[tokio::test]
async fn a_node_that_serves_tells_of_the_audit_and_takes_more_by_http() {
    let stage = Stage::new(None);
    let node = stage.node(1).args(["--listen", "127.0.0.1:0"]);
    let node = node.start().expect("cargo built it");
    let address = eventually_some(SOON, "it serves", || async {
        let serving = said(&node)
            .into_iter()
            .find(|event| event["event"] == "serving");
        serving.map(|event| text(&event["address"]))
    })
    .await;
    let http = reqwest::Client::new();
    let workflows = format!("http://{address}/api/workflows");
    let start = json!({
        "workflow_type": "crates.audit", "workflow_id": "again", "input": [CORRUPTED],
    });

    let started = http.post(&workflows).header("x-namespace", &stage.run);
    let started = started.json(&start).send().await.expect("an answer");

    assert_eq!(started.status(), 201);
    for workflow in [CORRUPTED, "again"] {
        let verdict = eventually_some(SOON, "it has its verdict", || async {
            let described = http.get(format!("{workflows}/{workflow}"));
            let described = described.header("x-namespace", &stage.run).send().await;
            let described: Value = described.ok()?.json().await.ok()?;
            (described["status"] == "completed").then(|| described["output"].clone())
        })
        .await;
        assert_eq!(verdict["finding"], "mismatch", "{workflow}: {verdict}");
    }
    node.terminate();
    assert_eq!(node.wait(SOON).await, Some(Exit::Code(0)));
}

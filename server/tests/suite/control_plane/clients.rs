//! What others have written against the published interface, unmodified, against this node: the
//! client halves of the Python and the Rust SDK, and the checker of `OpenAPI` documents.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coord_core::{Env, Variable};
use coord_server::Access;
use serde_json::json;
use tokio::process::Command;

use crate::control_plane::stage::{Place, Stage};

const TOKEN: &str = "tests-0123456789abcdef0123456789abcdef";
/// How long a program may run: far above what it takes on a machine that has much else to do.
const LONG: Duration = Duration::from_hours(1);

/// What lets a test pass that cannot run here, and where it is counted.
const ALLOW_SKIP: Variable = Variable::new(
    "COORD_TEST_ALLOW_SKIP",
    "",
    "1: a test whose needs cannot be met passes, and is counted as skipped",
);
const OBSERVED: Variable = Variable::new(
    "COORD_TEST_OBSERVED_DIR",
    "",
    "folder in whose file `skipped` such a test leaves its name",
);

/// A folder of programs from the Python package index, which is made once and kept. `None` where
/// there is no Python to make it with, and the run may skip what needs it.
async fn programs(test: &str, folder: &str, package: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let made = folder.join("made");
    if std::fs::read_to_string(&made).is_ok_and(|it| it == package) {
        return Some(folder.join("bin"));
    }
    if may_skip(test) {
        return None;
    }
    let python = folder.join("bin/python");
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))
    .await;
    let install = ["-m", "pip", "install", "--quiet", package];
    run(Command::new(python).args(install)).await;
    std::fs::write(made, package).expect("a file");
    Some(folder.join("bin"))
}

/// Whether there is no Python with venv, and that is no failure.
fn may_skip(test: &str) -> bool {
    let venv = std::process::Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output();
    let env = Env::process();
    let set = |variable| env.text(variable).expect("readable").map(str::to_owned);
    if venv.is_ok_and(|it| it.status.success()) || set(&ALLOW_SKIP).as_deref() != Some("1") {
        return false;
    }
    if let Some(folder) = set(&OBSERVED) {
        let file = Path::new(&folder).join("skipped");
        let opened = OpenOptions::new().create(true).append(true).open(file);
        // One write, so that the lines of tests that run at once do not mix.
        let line = format!("{test}\tpython3 with venv\n");
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("a skip that nobody can count is a failure");
    }
    true
}

/// Runs it to its end, which is to be a good one.
async fn run(command: &mut Command) {
    let shown = format!("{:?}", command.as_std());
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let child = child.unwrap_or_else(|error| {
        panic!("{shown}: {error}; this test needs python3 with venv and cargo, and their indexes")
    });
    let output = tokio::time::timeout(LONG, child.wait_with_output());
    let output = output.await.expect("in time").expect("an end");
    assert!(
        output.status.success(),
        "{shown}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn stage() -> Stage {
    let tokens = json!({"tokens": [{"name": "tests", "role": "admin", "token": TOKEN}]});
    let access = Access::from_json(&tokens.to_string()).expect("tokens");
    Stage::with(Place::Memory, access, |node| node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_half_of_the_published_python_sdk_works_unmodified() {
    let test = "the_client_half_of_the_published_python_sdk_works_unmodified";
    let Some(programs) = programs(test, "python-sdk", "durable-workflow==2.12.0").await else {
        return;
    };
    let stage = stage().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/client.py");

    let mut python = Command::new(programs.join("python"));
    run(python.args([script, &stage.url, TOKEN])).await;

    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_half_of_the_published_rust_sdk_works_unmodified() {
    let stage = stage().await;
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/rust/Cargo.toml");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-sdk");

    // In a workspace and a folder of its own, which is made once and kept.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--manifest-path", manifest]);
    let cargo = cargo.arg("--target-dir").arg(built);
    run(cargo.args(["--", &stage.url, TOKEN])).await;

    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_document_says() {
    let test = "every_answer_is_as_the_document_says";
    let Some(programs) = programs(test, "schemathesis", "schemathesis==4.32.5").await else {
        return;
    };
    let stage = stage().await;
    let start = json!({"workflow_type": "tests.adding", "workflow_id": "0", "input": [1]});
    let authorized = stage.header("Authorization", format!("Bearer {TOKEN}"));
    authorized.post("/api/workflows", start).await;

    let url = format!("{}/api/openapi.json", authorized.url);
    let mut checker = Command::new(programs.join("st"));
    checker.args([
        "run",
        &url,
        "--header",
        &format!("Authorization: Bearer {TOKEN}"),
    ]);
    // A document cannot say which of the texts of its form are a cron expression or a page token.
    checker.args(["--exclude-checks", "positive_data_acceptance"]);
    // The same cases each time, and no more of them than a minute takes.
    checker.args(["--phases", "coverage,fuzzing", "--max-examples", "10"]);
    checker.arg("--generation-deterministic");
    run(checker.current_dir(env!("CARGO_TARGET_TMPDIR"))).await;

    authorized.finish().await;
}

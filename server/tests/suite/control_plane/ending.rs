//! How a node ends: a process of `coord serve`, under load.

use std::collections::BTreeSet;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coord_engine::Engine;
use coord_engine::model::{Namespace, Queue};
use coord_engine::store::{Filter, Listing};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::control_plane::stage::{Place, SOON, Stage};

/// A process of `coord serve` on a database of its own.
struct Process {
    child: Child,
    address: String,
    database: String,
    _folder: tempfile::TempDir,
}

impl Process {
    async fn start() -> Self {
        Self::start_with_drain("25s").await
    }

    async fn start_with_drain(drain: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = format!("sqlite:{}", folder.path().join("coord.db").display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_coord"))
            .args(["serve", "--open", "--listen", "127.0.0.1:0"])
            .env("DATABASE_URL", &database)
            .env("COORD_DRAIN_TIMEOUT", drain)
            .env_remove("COORD_REDIS_URL")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the program");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = said.lines();
        let line = tokio::time::timeout(SOON, lines.next_line());
        let line = line
            .await
            .expect("soon")
            .expect("readable")
            .expect("a line");
        let address = line
            .rsplit("http://")
            .next()
            .expect("an address")
            .to_owned();
        Self {
            child,
            address,
            database,
            _folder: folder,
        }
    }

    fn tell(&self) {
        let id = self.child.id().expect("it lives");
        let id = Pid::from_raw(i32::try_from(id).expect("a process id"));
        kill(id, Signal::SIGTERM).expect("it lives");
    }

    async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(SOON, self.child.wait());
        ended.await.expect("soon").expect("an end")
    }
}

/// Starts workflows until the node is gone, and gives the ids of those that were accepted.
async fn load(address: String, caller: usize, has_begun: Arc<AtomicBool>) -> Vec<String> {
    let http = reqwest::Client::new();
    let mut accepted = Vec::new();
    for number in 0.. {
        let id = format!("load-{caller}-{number}");
        let start = json!({"workflow_type": "tests.echo", "workflow_id": id});
        let request = http
            .post(format!("http://{address}/api/workflows"))
            .json(&start);
        match request.send().await {
            Ok(response) => {
                assert_eq!(
                    response.status(),
                    201,
                    "{}",
                    response.text().await.expect("a body")
                );
                response
                    .bytes()
                    .await
                    .expect("what was accepted is answered to the end");
                accepted.push(id);
                has_begun.store(true, Ordering::Release);
            }
            // It accepts no more.
            Err(_) => break,
        }
    }
    accepted
}

async fn stored(database: &str) -> BTreeSet<String> {
    let engine = Engine::connect(database).await.expect("an engine");
    let client = engine.client(Namespace::default(), Queue::default());
    let mut ids = BTreeSet::new();
    let mut after = None;
    loop {
        let listing = Listing {
            filter: Filter::all(Namespace::default()),
            limit: 1000,
            after,
        };
        let page = client.list(&listing).await.expect("a page");
        ids.extend(page.runs.iter().map(|run| run.workflow.to_string()));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_before_a_node_ended_is_answered_and_stored() {
    let mut process = Process::start().await;
    let mut callers = JoinSet::new();
    let begun: Vec<_> = (0..4).map(|_| Arc::new(AtomicBool::new(false))).collect();
    for (caller, has_begun) in begun.iter().enumerate() {
        callers.spawn(load(process.address.clone(), caller, Arc::clone(has_begun)));
    }
    let all_begun = async {
        while !begun.iter().all(|it| it.load(Ordering::Acquire)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, all_begun).await.expect("soon");

    process.tell();

    let accepted: BTreeSet<_> = callers.join_all().await.into_iter().flatten().collect();
    assert!(process.ended().await.success());
    let stored = stored(&process.database).await;
    let lost: Vec<_> = accepted.difference(&stored).collect();
    assert_eq!(lost, Vec::<&String>::new(), "of {}", accepted.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_twice_ends_at_once() {
    let mut process = Process::start().await;
    // A request that never comes to its end keeps the node from ending by itself.
    let mut half = TcpStream::connect(&process.address)
        .await
        .expect("a connection");
    let head = "POST /api/workflows HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 100\r\nexpect: 100-continue\r\n\r\n";
    half.write_all(head.as_bytes()).await.expect("sent");
    // The node reads the body, and so has begun the request.
    let mut going_on = [0; 12];
    half.read_exact(&mut going_on).await.expect("an answer");
    assert_eq!(&going_on, b"HTTP/1.1 100");

    process.tell();
    process.tell_until_gone().await;

    assert!(!process.ended().await.success());
}

impl Process {
    /// Signals of one kind that come together count once, so it is told until it has heard two.
    async fn tell_until_gone(&mut self) {
        let tell = async {
            while self.child.try_wait().expect("a child").is_none() {
                self.tell();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, tell).await.expect("soon");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_says_so_and_answers_what_has_begun() {
    let stage = Stage::open(Place::Memory).await;
    assert_eq!(stage.get("/api/ready").await.status, 200);
    let start = json!({"workflow_type": "tests.adding", "workflow_id": "a", "input": [1]});
    stage.post("/api/workflows", start).await;

    stage.node.drain();

    let ready = stage.get("/api/ready").await;
    assert_eq!(
        (ready.status, &ready.body["status"]),
        (503, &json!("draining"))
    );
    assert_eq!(stage.get("/api/health").await.status, 200);
    let update = json!({"input": [1], "wait_for": "completed"});
    let update = stage.post("/api/workflows/a/update/add", update).await;
    assert_eq!((update.status, &update.body["result"]), (200, &json!(2)));
    stage.finish().await;
}

/// Asks for its health on a connection that stays, and gives the head of the answer.
async fn head(connection: &mut BufReader<TcpStream>) -> String {
    let ask = "GET /api/health HTTP/1.1\r\nhost: x\r\n\r\n";
    let sent = connection.get_mut().write_all(ask.as_bytes()).await;
    sent.expect("the connection is there");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = tokio::time::timeout(SOON, connection.read_line(&mut head)).await;
        assert_ne!(read.expect("soon").expect("text"), 0, "{head}");
    }
    let (_, length) = head.split_once("content-length: ").expect("a length");
    let length = length.lines().next().expect("a line").parse();
    let mut body = vec![0; length.expect("a number")];
    connection.read_exact(&mut body).await.expect("a body");
    head
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_on_a_kept_connection_is_answered_while_a_node_ends_and_told_to_take_another() {
    // A fifth of it is how long a connection is kept that nobody uses: the test takes far less.
    let mut process = Process::start_with_drain("10m").await;
    let connection = TcpStream::connect(&process.address).await;
    let mut kept = BufReader::new(connection.expect("a connection"));
    let before = head(&mut kept).await;
    assert!(!before.contains("connection: close"), "{before}");

    process.tell();
    let refuses = async {
        while TcpStream::connect(&process.address).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, refuses).await.expect("soon");
    let last = head(&mut kept).await;

    assert!(last.starts_with("HTTP/1.1 200"), "{last}");
    assert!(last.contains("connection: close"), "{last}");
    let mut more = Vec::new();
    let ended = kept.read_to_end(&mut more).await;
    assert_eq!(ended.expect("the node closes it"), 0);
    assert!(process.ended().await.success());
}

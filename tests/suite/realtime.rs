//! Nodes as a service has them, each a process of its own on one database and one Redis, with the
//! clients of Socket.IO that npm has.

mod ending;
mod page;
mod rooms;
mod spreading;

use std::path::PathBuf;
use std::time::Duration;

use coord_redis::Redis;
use coord_tests::need::{Missing, unique};
use coord_tests::process::{NodeProcess, Program};
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::socket::SocketClient;
use coord_tests::stage::{config, connect};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);

const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";
/// For the namespace `shop` alone, and to look.
const SHOP: &str = "shop-0123456789abcdef0123456789abcdef";
const WORKER: &str = "worker-0123456789abcdef0123456789abcdef";

/// A database and a Redis for some nodes.
struct Stage {
    folder: TempDir,
    redis: RedisServer,
    prefix: String,
    http: reqwest::Client,
}

/// A node.
struct Node {
    process: NodeProcess,
    url: String,
}

impl Stage {
    async fn new() -> Result<Self, Missing> {
        recorder();
        let redis = RedisServer::start().await?;
        let folder = tempfile::tempdir().expect("room for a folder");
        let tokens = json!({"tokens": [
            {"name": "admin", "role": "admin", "token": ADMIN},
            {"name": "shop", "role": "read-only", "namespaces": ["shop"], "token": SHOP},
            {"name": "worker", "role": "worker", "token": WORKER},
        ]});
        let file = folder.path().join("tokens.json");
        std::fs::write(file, tokens.to_string()).expect("the folder is ours");
        Ok(Self {
            folder,
            redis,
            prefix: unique("realtime"),
            http: reqwest::Client::new(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn database(&self) -> String {
        format!("sqlite:{}", self.path("work.db").display())
    }

    async fn redis(&self) -> Redis {
        connect(config(&self.redis.url(), &self.prefix)).await
    }

    /// A node whose activities and messages take `step`.
    async fn node(&self, step: Duration) -> Node {
        self.node_with(step, self.path("tokens.json")).await
    }

    /// One that asks nobody for a token.
    async fn open_node(&self) -> Node {
        self.node_with(Duration::ZERO, PathBuf::new()).await
    }

    async fn node_with(&self, step: Duration, tokens: PathBuf) -> Node {
        let mut process = Program::at(env!("CARGO_BIN_EXE_server-node"))
            .arg(self.path("effects"))
            .arg(step.as_millis().to_string())
            .env("DATABASE_URL", self.database())
            .env("COORD_TOKENS_FILE", tokens)
            .env("COORD_REDIS_URL", self.redis.url())
            .env("COORD_REDIS_PREFIX", &self.prefix)
            .env("CACHE_DRIVER", "redis")
            .start()
            .expect("cargo built it");
        let line = process.line_starting("serving ", SOON).await;
        let url = format!("http://{}", line.trim_start_matches("serving "));
        Node { process, url }
    }

    /// Starts a workflow through `node`, and gives its run.
    async fn start(&self, node: &Node, workflow: &str, id: &str, input: Value) -> String {
        let start = json!({"workflow_type": workflow, "workflow_id": id, "input": input});
        let path = format!("{}/api/workflows", node.url);
        let request = self.http.post(path).bearer_auth(ADMIN).json(&start);
        let answer: Response = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::CREATED);
        let answer: Value = answer.json().await.expect("a document");
        answer["run_id"].as_str().expect("a run").to_owned()
    }

    /// Sends the signal `go` through `node`.
    async fn go(&self, node: &Node, id: &str) {
        let path = format!("{}/api/workflows/{id}/signal/go", node.url);
        let request = self.http.post(path).bearer_auth(ADMIN);
        let answer = request.json(&json!({})).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}

/// A client that was let in at the first of `nodes`, and may go to the others.
async fn client(token: &str, nodes: &[&Node]) -> Result<SocketClient, Missing> {
    let urls: Vec<_> = nodes.iter().map(|node| node.url.as_str()).collect();
    let mut client = SocketClient::start(token, &urls).await?;
    assert_eq!(client.says("connected").await, urls[0]);
    Ok(client)
}

async fn joined(client: &mut SocketClient, room: Value) {
    let answer = client.asks("join", room).await;
    assert_eq!(answer, json!({"ok": true}));
}

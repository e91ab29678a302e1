//! A node that serves in this process, and a caller of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::flow::{Context, Either, Query, Signal, Update, Workflow, select};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::store::Sqlite;
use coord_engine::worker::Worker;
use coord_server::{Access, Node, NodeBuilder};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::command_line::stage::Database;

/// Far above what anything here takes.
pub(crate) const SOON: Duration = Duration::from_mins(1);

const ECHO: Workflow<Value, Value> = Workflow::new("tests.echo");
const FAILING: Workflow<(), ()> = Workflow::new("tests.failing");
const ADDING: Workflow<u32, u32> = Workflow::new("tests.adding");
const ADD: Update<u32, u32> = Update::new("add");
const TOTAL: Query<(), u32> = Query::new("total");
const DONE: Signal<String> = Signal::new("done");

async fn echo(_: Context, value: Value) -> Result<Value, Failure> {
    Ok(value)
}

async fn failing(_: Context, (): ()) -> Result<(), Failure> {
    Err(Failure::new("out of paper").of_kind("printer"))
}

/// Adds what updates say to what it was given, until it hears that it is done. More than 100 at a
/// time it refuses.
async fn adding(ctx: Context, start: u32) -> Result<u32, Failure> {
    let total = Arc::new(AtomicU32::new(start));
    let shown = Arc::clone(&total);
    ctx.answers(TOTAL, move |()| shown.load(Ordering::Relaxed));
    let (adds, done) = (ctx.updates(ADD), ctx.signal(DONE));
    let mut done = done.recv();
    loop {
        match select(&mut done, adds.recv()).await {
            Either::Left(by) => {
                by?;
                return Ok(total.load(Ordering::Relaxed));
            }
            Either::Right(request) => {
                let request = request?;
                if request.input > 100 {
                    request.reject(Failure::new("too much"));
                    continue;
                }
                let sum = total.fetch_add(request.input, Ordering::Relaxed) + request.input;
                request.complete(&sum);
            }
        }
    }
}

/// A worker for all of them.
pub(crate) fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(Namespace::default(), Queue::default());
    worker
        .workflow(ECHO, echo)
        .workflow(FAILING, failing)
        .workflow(ADDING, adding)
        .start()
}

/// Where a node has its database.
pub(crate) enum Place {
    /// In SQLite, in memory.
    Memory,
    /// On a server.
    Server(Database),
}

impl Place {
    pub(crate) async fn postgres() -> Option<Self> {
        Database::postgres().await.map(Self::Server)
    }
}

/// A node, a worker in it, and who calls.
pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) node: Node,
    http: reqwest::Client,
    headers: Vec<(&'static str, String)>,
    worker: Option<Worker>,
    end: oneshot::Sender<()>,
    serving: JoinHandle<coord_core::Result<()>>,
    /// Gone last.
    _place: Place,
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The stable word of a problem, which has all that RFC 9457 and the published SDKs read.
    pub(crate) fn reason(&self) -> &str {
        assert!(self.status >= 400, "{self:?}");
        let kind = &self.headers["content-type"];
        assert_eq!(kind, "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        assert_eq!(self.body["message"], self.body["detail"], "{self:?}");
        assert!(self.body["title"].is_string(), "{self:?}");
        self.body["reason"].as_str().expect("a reason")
    }
}

impl Stage {
    /// One that asks nobody for a token.
    pub(crate) async fn open(place: Place) -> Self {
        Self::with(place, Access::open(), |node| node).await
    }

    pub(crate) async fn with(
        place: Place,
        access: Access,
        build: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Self {
        let engine = match &place {
            Place::Memory => Engine::start(Sqlite::memory()).await,
            Place::Server(database) => Engine::connect(&database.url).await,
        };
        let engine = engine.expect("an engine");
        let worker = worker(&engine);
        let node = build(Node::builder(engine, access)).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (end, told) = oneshot::channel();
        let served = node.clone();
        let serving = async move {
            let end = async { _ = told.await };
            coord_server::serve(&served, listener, end, SOON).await
        };
        #[expect(clippy::disallowed_methods, reason = "the stage joins it when it ends")]
        let serving = tokio::spawn(serving);
        Self {
            url,
            node,
            http: reqwest::Client::new(),
            headers: Vec::new(),
            worker: Some(worker),
            end,
            serving,
            _place: place,
        }
    }

    /// Calls with this header from here on.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Calls with these headers, and with no others.
    pub(crate) fn only_header(&mut self, name: &'static str, value: impl Into<String>) {
        self.headers = vec![(name, value.into())];
    }

    /// Nobody works on workflows from here on.
    pub(crate) async fn stop_working(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.shutdown(SOON).await;
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        let named = self.headers.iter();
        named.fold(request, |request, (name, value)| {
            request.header(*name, value)
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        read(
            self.request(Method::GET, path)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        let request = self.request(Method::POST, path).json(&body);
        read(request.send().await.expect("an answer")).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        let request = self.request(Method::PUT, path).json(&body);
        read(request.send().await.expect("an answer")).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        read(
            self.request(Method::DELETE, path)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    /// What `path` answers once it answers so.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let answer = self.get(path).await;
                if answer.status == StatusCode::OK && holds(&answer.body) {
                    return answer.body;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, look).await.expect("soon")
    }

    /// Ends the node, as it is told to.
    pub(crate) async fn finish(mut self) {
        self.stop_working().await;
        // The node leaves connections to those who may still use them.
        drop(self.http);
        _ = self.end.send(());
        let served = self.serving.await.expect("no panic");
        served.expect("every request was answered");
    }
}

pub(crate) async fn read(response: Response) -> Answer {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a body");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer {
        status,
        headers,
        body,
    }
}

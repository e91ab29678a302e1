//! A server that stands in for Amazon SQS, and breaks single requests on purpose.
//!
//! It is an emulator from npm under a front of our own (`npm/sqs.mjs`), so it needs Node and npm.
//! The first start installs it beside what cargo builds; later ones need no network. Where it
//! differs from SQS the tests ask for what is true of both: it never hands out several messages
//! of one group at once, it knows no attempt ids of receives, and it counts exactly.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::OnceCell,
};

use crate::{
    need::Missing,
    npm, ports,
    process::{NodeProcess, Program},
    wait,
};

const SCRIPT: &str = include_str!("../../npm/sqs.mjs");

/// Node reads some hundred files first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Losing this many races for a port in a row means that something else is wrong.
const PORT_TRIES: u32 = 8;
/// How long a test waits for the request it announced.
const MET_WITHIN: Duration = Duration::from_secs(20);

/// A running server; dropping it ends it.
pub struct SqsServer {
    addr: SocketAddr,
    _process: NodeProcess,
}

impl SqsServer {
    /// The server that all tests of this process share, each with queues of its own.
    ///
    /// # Errors
    /// [`Missing`] when this machine cannot have one.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn shared() -> Result<&'static Self, Missing> {
        static SHARED: OnceCell<SqsServer> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Starts one; it answers when this returns.
    ///
    /// # Errors
    /// [`Missing`] when this machine has no Node or no npm, or cannot get the emulator.
    ///
    /// # Panics
    /// When there is one and it does not come up.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start() -> Result<Self, Missing> {
        crate::recorder::recorder();
        let installed = tokio::task::spawn_blocking(|| npm::script("sqs.mjs", SCRIPT)).await;
        let script = installed.expect("installing does not panic")?;
        for _ in 0..PORT_TRIES {
            let addr = ports::loopback(ports::free());
            let program = Program::at("node").arg(&script);
            let program = program.arg(addr.port().to_string());
            let mut process = program.start().expect("node told its version");
            match process.next_line(START_WITHIN).await.as_deref() {
                Some("listening") => {
                    return Ok(Self {
                        addr,
                        _process: process,
                    });
                }
                _ if process.stderr().join("\n").contains("EADDRINUSE") => {}
                said => panic!("no emulator of SQS: {said:?}, {:?}", process.stderr()),
            }
        }
        panic!("no port for an emulator of SQS in {PORT_TRIES} tries")
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a queue, which says nothing of how it is reached.
    pub fn queue_url(&self, name: &str) -> String {
        format!("http://{}/000000000000/{name}", self.addr)
    }

    /// Does this to the next request of `operation` that contains `text`; see [`SqsFault`].
    ///
    /// # Cancel safety
    /// Unsafe: it may be armed.
    pub async fn arm(&self, operation: &str, text: &str, fault: SqsFault<'_>) -> Armed {
        let mut order = fault.order();
        order["on"] = operation.into();
        order["with"] = text.into();
        let said = self.ask("POST", "/faults", &order.to_string()).await;
        let id = said.expect("it answers")["id"].as_u64();
        Armed {
            addr: self.addr,
            what: order.to_string(),
            id: id.expect("it gives every fault a number"),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Option<Value> {
        ask(self.addr, method, path, body).await
    }
}

/// What is to happen to a request.
#[derive(Clone, Copy, Debug)]
pub enum SqsFault<'a> {
    /// Nothing: it is only looked at.
    Pass,
    /// Its connection ends, and it is not executed.
    Cut,
    /// It is executed, and its connection ends without an answer.
    Lose,
    /// It is executed, and its connection ends in the middle of the answer.
    Half,
    /// It is refused with this status and code.
    Answer(u16, &'a str),
    /// Those entries of the batch that contain a text fail; the others are executed.
    Fail {
        /// That text.
        entry: &'a str,
        /// Why they fail.
        code: &'a str,
        /// Whether they would fail again.
        sender_fault: bool,
    },
}

impl SqsFault<'_> {
    fn order(self) -> Value {
        match self {
            Self::Pass => json!({ "do": "pass" }),
            Self::Cut => json!({ "do": "cut" }),
            Self::Lose => json!({ "do": "lose" }),
            Self::Half => json!({ "do": "half" }),
            Self::Answer(status, code) => json!({ "do": "answer", "status": status, "code": code }),
            Self::Fail {
                entry,
                code,
                sender_fault,
            } => json!({ "do": "fail", "entry": entry, "code": code, "senderFault": sender_fault }),
        }
    }
}

/// A fault that waits for its request.
#[derive(Debug)]
pub struct Armed {
    addr: SocketAddr,
    what: String,
    id: u64,
}

impl Armed {
    /// The request that it met.
    ///
    /// # Panics
    /// When it meets none within twenty seconds.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn met(&self) -> Value {
        let request = wait::poll(MET_WITHIN, || self.now());
        let request = request.await;
        request.unwrap_or_else(|| panic!("not within {MET_WITHIN:?}: {}", self.what))
    }

    /// The request that it met so far.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn now(&self) -> Option<Value> {
        let said = ask(self.addr, "GET", &format!("/faults/{}", self.id), "").await?;
        Some(said["met"].clone()).filter(|met| !met.is_null())
    }
}

/// One exchange over HTTP.
async fn ask(addr: SocketAddr, method: &str, path: &str, body: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(addr).await.ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_meets_the_next_request_of_its_kind_and_no_other() {
        let server = crate::need!(SqsServer::start().await);
        let request = |operation: &str| {
            let body = r#"{"QueueNamePrefix":"a"}"#;
            format!(
                "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                 x-amz-target: AmazonSQS.{operation}\r\n\
                 content-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let send = async |operation| {
            let mut stream = TcpStream::connect(server.addr()).await.unwrap();
            let text = request(operation);
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut answer = String::new();
            // A connection that is cut may end in an error.
            _ = stream.read_to_string(&mut answer).await;
            answer
        };

        let lost = server.arm("ListQueues", "Prefix", SqsFault::Lose).await;
        let other = send("GetQueueUrl").await;
        assert_eq!(lost.now().await, None);
        let gone = send("ListQueues").await;
        let fine = send("ListQueues").await;

        assert!(other.starts_with("HTTP/1.1 400"), "{other}");
        assert_eq!(gone, "");
        assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
        assert_eq!(lost.met().await["QueueNamePrefix"], "a");
    }
}

//! The queue on Amazon SQS, against an emulator: what every backend does, and what goes wrong.

mod busy;
mod faults;
mod opening;

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use coord_core::Result;
use coord_fanout::{SqsOptions, SqsQueue};
use coord_tests::need::{Missing, unique};
use coord_tests::servers::SqsServer;

use super::attempts;
use super::conformance::{self, Backend, Shape};

/// A pair of queues that no other test has.
struct Pair {
    name: String,
    url: String,
    dead: String,
}

/// The server and a client of it, which lives as long as one test's runtime.
struct Sqs {
    server: &'static SqsServer,
    client: Client,
}

impl Sqs {
    async fn start() -> Result<Self, Missing> {
        let server = SqsServer::shared().await?;
        let client = client(&format!("http://{}", server.addr()));
        Ok(Self { server, client })
    }

    async fn pair(&self, visibility: Duration) -> Pair {
        let name = unique("mails");
        let url = self.create(&format!("{name}.fifo"), visibility).await;
        let dead = self.create(&format!("{name}-dead.fifo"), visibility).await;
        Pair { name, url, dead }
    }

    async fn create(&self, name: &str, visibility: Duration) -> String {
        let request = self.client.create_queue().queue_name(name);
        let request = request.attributes(QueueAttributeName::FifoQueue, "true");
        let seconds = visibility.as_secs().to_string();
        let request = request.attributes(QueueAttributeName::VisibilityTimeout, seconds);
        request.send().await.expect("the server is there");
        self.server.queue_url(name)
    }

    async fn open(&self, pair: &Pair, options: SqsOptions) -> SqsQueue {
        let opened = SqsQueue::open(&self.client, &pair.url, &pair.dead, options).await;
        opened.expect("the queues are there")
    }
}

impl Backend for Sqs {
    type Queue = SqsQueue;

    async fn queue(&self, shape: Shape) -> SqsQueue {
        let pair = self.pair(shape.visibility).await;
        let options = SqsOptions::default().attempts(attempts(shape.attempts));
        self.open(&pair, options).await
    }
}

fn client(endpoint: &str) -> Client {
    let credentials = Credentials::new("id", "secret", None, None, "tests");
    Client::from_conf(config(endpoint).credentials_provider(credentials).build())
}

fn config(endpoint: &str) -> aws_sdk_sqs::config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
}

conformance::suite!(Sqs::start());

//! One publisher, and subscribers in other processes.

mod gap;
mod node;

use std::process::Stdio;
use std::time::{Duration, Instant};

use coord_broadcast::{Broadcast, Topic};
use coord_core::Name;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

pub(crate) use node::{NODE, run as node};

use crate::Result;
use crate::machine;
use crate::server::Server;
use crate::statistics::{Spread, median};
use crate::table::{Cost, Row, Table, Target};

const NODES: usize = 4;
const SUBSCRIBERS: usize = 25;
const ROUNDS: usize = 5;

/// Published together, and awaited by all before the next: fewer than what a subscriber may be
/// behind.
const BATCH: usize = 200;

/// The body of a message in bytes, and how many batches make a round.
const SIZES: [(usize, usize); 2] = [(100, 10), (10_000, 3)];

/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    /// A connection a subscriber.
    Redis,
    /// A connection a process.
    Fred,
}

impl Side {
    const ALL: [Self; 3] = [Self::Ours, Self::Redis, Self::Fred];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Redis => "redis-rs",
            Self::Fred => "fred",
        }
    }

    fn called(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.name() == name)
    }

    /// What it sends to publish.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Ours => &["evalsha", "eval"],
            Self::Redis | Self::Fred => &["publish"],
        }
    }
}

struct Sample {
    per_second: f64,
    cost: Cost,
}

pub(crate) async fn run(server: &Server) -> Result<Table> {
    let mut rows = Vec::new();
    for (bytes, batches) in SIZES {
        let mut groups = Vec::new();
        for side in Side::ALL {
            groups.push(Group::start(server, side, bytes).await?);
        }
        let mut rounds: Vec<Vec<Sample>> = groups.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for (group, rounds) in groups.iter_mut().zip(&mut rounds) {
                rounds.push(group.round(server, batches).await?);
            }
        }
        for (side, theirs) in Side::ALL.into_iter().zip(&rounds).skip(1) {
            rows.push(compare(bytes, &rounds[0], side, theirs));
        }
    }
    rows.push(gap::row(server).await?);
    let subscribers = NODES * SUBSCRIBERS;
    Ok(Table {
        title: format!(
            "broadcast: one publisher, {subscribers} subscribers in {NODES} processes; {ROUNDS} rounds a side, in turn"
        ),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            format!(
                "{BATCH} messages at once, awaited by all before the next. Costs are a message"
            ),
            "ours: sequence and epoch in each message, one connection a process; redis-rs: a \
             connection a subscriber; fred: one connection a process. Nobody decodes a body"
                .to_owned(),
            format!(
                "a miss: the connections of {} subscribers fall silent, a message is published; from \
                 then to the gap at the last of them, with pings every {} ms",
                gap::SUBSCRIBERS,
                gap::INTERVAL.as_millis()
            ),
        ],
        rows,
    })
}

fn compare(bytes: usize, ours: &[Sample], side: Side, theirs: &[Sample]) -> Row {
    let pick = |sample: &Sample| sample.per_second;
    let row = Row {
        work: format!("{bytes} B"),
        peer: side.name().to_owned(),
        unit: "deliveries/s",
        ours: Spread::of(ours.iter().map(pick)),
        theirs: Spread::of(theirs.iter().map(pick)),
        ratio: median(
            ours.iter()
                .zip(theirs)
                .map(|(one, other)| pick(one) / pick(other)),
        ),
        target: None,
        met: None,
        our_cost: Cost::median(ours.iter().map(|sample| sample.cost)),
        their_cost: Cost::median(theirs.iter().map(|sample| sample.cost)),
    };
    row.aim(Target::RatioAtLeast(0.9))
}

/// A publisher with its subscribers.
struct Group {
    side: Side,
    publisher: Publisher,
    nodes: Vec<Node>,
}

#[derive(Clone)]
enum Publisher {
    Ours {
        broadcast: Broadcast,
        topic: Topic<String>,
        body: String,
    },
    Plain {
        connection: MultiplexedConnection,
        channel: String,
        body: Vec<u8>,
    },
}

/// A process with subscribers. It ends with this.
struct Node {
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Group {
    async fn start(server: &Server, side: Side, bytes: usize) -> Result<Self> {
        let channel = format!("bench-{}-{bytes}", side.name());
        let body = "x".repeat(bytes);
        let publisher = match side {
            Side::Ours => Publisher::Ours {
                broadcast: Broadcast::new(&server.coord(true).await?),
                topic: Topic::new(Name::new(&channel)?),
                body,
            },
            Side::Redis | Side::Fred => Publisher::Plain {
                connection: server.plain(true).await?,
                channel: channel.clone(),
                body: body.into_bytes(),
            },
        };
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let mut child = Command::new(std::env::current_exe()?)
                .args([NODE, side.name(), server.url(), &channel])
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let output = child.stdout.take().ok_or("a node has no output")?;
            nodes.push(Node {
                lines: BufReader::new(output).lines(),
                child,
            });
        }
        for node in &mut nodes {
            node.says("ready").await?;
        }
        Ok(Self {
            side,
            publisher,
            nodes,
        })
    }

    async fn round(&mut self, server: &Server, batches: usize) -> Result<Sample> {
        let (before, cpu) = (server.usage().await?, self.cpu());
        let start = Instant::now();
        for _ in 0..batches {
            let publishing = (0..BATCH).map(|_| self.publisher.publish());
            futures::future::try_join_all(publishing).await?;
            for node in &mut self.nodes {
                let got = node.says("got").await;
                got.map_err(|error| format!("{}: {error}", self.side.name()))?;
            }
        }
        let elapsed = start.elapsed();
        let cpu = self.cpu().saturating_sub(cpu);
        let used = server.usage().await?.since(&before);
        let messages = (batches * BATCH) as f64;
        let commands = self.side.commands();
        Ok(Sample {
            per_second: messages * (NODES * SUBSCRIBERS) as f64 / elapsed.as_secs_f64(),
            cost: Cost {
                round_trips: Some(used.calls(commands) as f64 / messages),
                server_us: Some(used.cpu_us() / messages),
                executing_us: Some(used.executing_us(commands) / messages),
                client_us: Some(cpu.as_secs_f64() * 1e6 / messages),
            },
        })
    }

    /// What the publisher and its subscribers have spent.
    fn cpu(&self) -> Duration {
        let nodes = self.nodes.iter().filter_map(|node| node.child.id());
        machine::cpu(None) + nodes.map(machine::cpu_of).sum::<Duration>()
    }
}

impl Publisher {
    async fn publish(&self) -> Result<()> {
        match self {
            Self::Ours {
                broadcast,
                topic,
                body,
            } => _ = broadcast.publish(topic, body).await?,
            Self::Plain {
                connection,
                channel,
                body,
            } => {
                let mut publish = redis::cmd("PUBLISH");
                publish.arg(channel).arg(body);
                publish.query_async::<()>(&mut connection.clone()).await?;
            }
        }
        Ok(())
    }
}

impl Node {
    async fn says(&mut self, word: &str) -> Result<()> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        match line.map_err(|_| format!("a node does not say {word}"))?? {
            Some(line) if line == word => Ok(()),
            line => Err(format!("a node says {line:?} instead of {word}").into()),
        }
    }
}

//! B5: how soon another process picks up what this one starts, by what carries the hints.
//!
//! The other process is this program again. Its workflow sends a datagram as soon as it runs, so
//! that both instants are of one clock, that of the process that starts.

use std::process::Stdio;
use std::time::{Duration, Instant};

use coord_bench_measure::Result;
use coord_bench_measure::statistics::quantile;
use coord_bench_measure::table::{Table, Target};
use coord_broadcast::Broadcast;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Ids, Namespace, Queue};
use coord_engine::store::{Notify, Postgres};
use coord_engine::wake::{self, Health};
use coord_engine::{Engine, EngineBuilder};
use coord_redis::{Config, Redis};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UdpSocket;
use tokio::process::{Child, Command};

use crate::compare::{OURS, figures, table};
use crate::server::Server;

/// The first argument of the process that picks up.
pub(crate) const NODE: &str = "pickup-node";
const TELL: Workflow<u16, ()> = Workflow::new("bench.tell");
const STARTS: usize = 100;
const EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
/// With the milliseconds within which nearly all are picked up: a look without hints, a round trip
/// with those that are pushed, and the time between two reads with the others.
const BACKENDS: [(&str, f64); 7] = [
    ("none", 1200.0),
    ("redis", 10.0),
    ("nats", 10.0),
    ("memcached", 120.0),
    ("database", 4000.0),
    ("pg-notify", 100.0),
    ("redis,nats", 10.0),
];
/// Keeps others out who use the same servers.
const PREFIX: &str = "coord-bench";

/// Where the servers are that carry hints.
pub(crate) struct Brokers {
    pub(crate) redis: String,
    pub(crate) memcached: String,
    pub(crate) nats: String,
}

pub(crate) async fn pickup(server: &Server, brokers: &Brokers) -> Result<Table> {
    let (mut rows, mut notes, mut without) = (Vec::new(), Vec::new(), None);
    for (backend, bound) in BACKENDS {
        let times = match times(server, backend, brokers).await {
            Ok(times) => times,
            Err(why) => {
                notes.push(format!("without {backend}: {why}"));
                continue;
            }
        };
        let at = |times: &[f64], at: f64| quantile(&mut times.to_vec(), at);
        let none = without.get_or_insert_with(|| times.clone());
        for (name, part) in [("median", 0.5), ("99th percentile", 0.99), ("longest", 1.0)] {
            let work = format!("hints by {backend}: {name}");
            let (ours, theirs) = (at(&times, part), at(none, part));
            let row = figures(&work, "ms", [ours], ("hints by none", [theirs]));
            rows.push(match name {
                "99th percentile" => row.aim(Target::OursAtMost(bound)),
                _ => row,
            });
        }
    }
    table(
        "From the start in one process to the code in another",
        rows,
        notes,
    )
}

/// Milliseconds from the answer of each start to the code.
async fn times(server: &Server, backend: &str, brokers: &Brokers) -> Result<Vec<f64>> {
    let url = server.create(OURS).await?;
    let engine = builder(&url, backend, brokers).await?.start().await?;
    let ears = UdpSocket::bind("127.0.0.1:0").await?;
    let port = ears.local_addr()?.port();
    let mut node = node(&url, backend, brokers).await?;
    until_healthy(&engine, backend).await?;
    let client = engine.client(Namespace::default(), Queue::default());
    let (ids, mut times) = (Ids::random(), Vec::new());
    let mut ticks = tokio::time::interval(EVERY);
    for _ in 0..STARTS {
        ticks.tick().await;
        client.start(TELL, ids.workflow(), &port).await?;
        let from = Instant::now();
        let heard = tokio::time::timeout(PATIENCE, ears.recv(&mut [0; 1])).await;
        heard.map_err(|_| "a start is not picked up")??;
        times.push(from.elapsed().as_secs_f64() * 1000.0);
    }
    node.kill().await?;
    drop((client, engine));
    server.drop(OURS).await?;
    Ok(times)
}

/// The other process, once it works.
async fn node(url: &str, backend: &str, brokers: &Brokers) -> Result<Child> {
    let mut node = Command::new(std::env::current_exe()?)
        .args([NODE, url, backend])
        .args([&brokers.redis, &brokers.memcached, &brokers.nats])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = node.stdout.take().ok_or("it has no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
    line.map_err(|_| "the other process does not start")??
        .ok_or("the other process ended")?;
    Ok(node)
}

/// What the other process does, until it is killed.
pub(crate) async fn serve(arguments: &[String]) -> Result<()> {
    let [url, backend, redis, memcached, nats] = arguments else {
        return Err("a node takes a url, a backend and where Redis, memcached and NATS are".into());
    };
    let brokers = Brokers {
        redis: redis.clone(),
        memcached: memcached.clone(),
        nats: nats.clone(),
    };
    let engine = builder(url, backend, &brokers).await?.start().await?;
    let worker = engine.worker(Namespace::default(), Queue::default());
    let _worker = worker.workflow(TELL, tell).start();
    until_healthy(&engine, backend).await?;
    println!("ready");
    std::future::pending().await
}

async fn tell(_: Context, port: u16) -> Result<(), Failure> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0");
    let sent = socket.and_then(|socket| socket.send_to(&[1], ("127.0.0.1", port)));
    sent.map(drop)
        .map_err(|error| Failure::new(error.to_string()))
}

/// Several backends stand with commas between, and are used side by side.
async fn builder(url: &str, backends: &str, brokers: &Brokers) -> Result<EngineBuilder> {
    let store = Postgres::connect(url)?;
    let mut builder = Engine::builder(store.clone());
    for backend in backends.split(',') {
        builder = match backend {
            "redis" => {
                let redis = Redis::connect(Config::from_url(&brokers.redis)?).await?;
                builder.wake(wake::Redis::new(Broadcast::new(&redis)))
            }
            "nats" => builder.wake(wake::Nats::at(&brokers.nats, PREFIX)?),
            "memcached" => builder.wake(wake::Memcached::at(&brokers.memcached, PREFIX)?),
            "database" => builder.wake(wake::Table::new(store.clone())),
            "pg-notify" => builder.wake(Notify::new(&store)),
            _ => builder,
        };
    }
    Ok(builder)
}

async fn until_healthy(engine: &Engine, backend: &str) -> Result<()> {
    let healthy = async {
        while backend != "none" && engine.wake_health() != Health::Healthy {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_in_time = tokio::time::timeout(PATIENCE, healthy).await;
    is_in_time.map_err(|_| "hints do not come back".into())
}

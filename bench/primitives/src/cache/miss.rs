//! One miss of many callers in several processes.

use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use coord_cache::Cache;
use coord_core::Name;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use super::{CALLERS, LOAD, PROCESSES, ROUNDS, options, value};
use crate::Result;
use crate::server::Server;
use crate::statistics::{Spread, median};
use crate::table::{Cost, Row, Target};

/// A process that misses when it is told.
struct Node {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

/// What a process says of one miss.
#[derive(Serialize, Deserialize)]
struct Missed {
    loads: u64,
    elapsed_ms: f64,
}

pub(super) async fn misses(server: &Server) -> Result<Vec<Row>> {
    let mut nodes = Vec::new();
    for _ in 0..PROCESSES {
        nodes.push(Node::start(server.url()).await?);
    }
    let (mut loads, mut times, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let name = format!("miss-{}-{round}", std::process::id());
        for node in &mut nodes {
            node.input
                .write_all(format!("{CALLERS} {name}\n").as_bytes())
                .await?;
        }
        let mut all = 0;
        let mut slowest: f64 = 0.0;
        for node in &mut nodes {
            let missed = node.answer().await?;
            all += missed.loads;
            slowest = slowest.max(missed.elapsed_ms);
        }
        if round > 0 {
            loads.push(all as f64);
            times.push(slowest - LOAD.as_secs_f64() * 1000.0);
        }
        // One caller alone, to see what a miss sends.
        let before = server.usage().await?;
        nodes[0]
            .input
            .write_all(format!("1 {name}-alone\n").as_bytes())
            .await?;
        nodes[0].answer().await?;
        let used = server.usage().await?.since(&before);
        if round > 0 {
            calls.push(
                (used.calls(&["evalsha", "eval"]) + used.calls(&["set"])
                // That which the script of the second call makes.
                - 1) as f64,
            );
        }
    }
    let alone = |of: &[f64], work: &str, unit, bound: f64| {
        Row {
            work: work.to_owned(),
            peer: "one a process".to_owned(),
            unit,
            ours: Spread::of(of.iter().copied()),
            theirs: Spread::of([PROCESSES as f64]),
            ratio: median(of.iter().map(|one| one / PROCESSES as f64)),
            target: None,
            met: None,
            our_cost: Cost::default(),
            their_cost: Cost::default(),
        }
        .aim(Target::OursAtMost(bound))
    };
    let mut trips = alone(&calls, "a miss of one caller", "round trips", 2.0);
    trips.peer = "the least there is".to_owned();
    trips.theirs = Spread::of([2.0]);
    trips.ratio = median(calls.iter().map(|calls| calls / 2.0));
    let mut late = trips.clone();
    late.work = "256 callers miss: the last one has it, after the load".to_owned();
    late.peer = "the load".to_owned();
    late.unit = "ms";
    late.ours = Spread::of(times.iter().copied());
    late.theirs = Spread::of([LOAD.as_secs_f64() * 1000.0]);
    late.ratio = median(
        times
            .iter()
            .map(|late| late / (LOAD.as_secs_f64() * 1000.0)),
    );
    (late.target, late.met) = (None, None);
    Ok(vec![
        alone(&loads, "256 callers miss", "loads", 1.0),
        trips,
        late,
    ])
}

impl Node {
    async fn start(url: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([NODE, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or("the process has no pipes")?;
        let mut node = Self {
            input,
            output: BufReader::new(output).lines(),
            _child: child,
        };
        // Its first miss warms up.
        node.input.write_all(b"1 warm\n").await?;
        node.answer().await?;
        Ok(node)
    }

    async fn answer(&mut self) -> Result<Missed> {
        let line = self.output.next_line().await?;
        Ok(serde_json::from_str(&line.ok_or("the process ended")?)?)
    }
}

/// The word by which this program becomes such a process.
pub(crate) const NODE: &str = "cache-node";

/// Reads how many callers miss which name, and tells what came of it.
pub(crate) async fn node(url: &str) -> Result<()> {
    let server = Server::connect(url).await?;
    let redis = server.coord(true).await?;
    let cache: Cache<String> = Cache::new(&redis, &Name::new("missed")?, options()?);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let (callers, name) = line.split_once(' ').ok_or("two words")?;
        let name = Name::new(name)?;
        let loads = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..callers.parse()? {
            let (cache, name, loads) = (cache.clone(), name.clone(), Arc::clone(&loads));
            all.spawn(async move {
                let load = move || async move {
                    loads.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(LOAD).await;
                    Ok::<_, Infallible>(value())
                };
                cache.get_or_fetch(&name, load).await.map(drop)
            });
        }
        for done in all.join_all().await {
            done?;
        }
        let missed = Missed {
            loads: loads.load(Ordering::SeqCst),
            elapsed_ms: start.elapsed().as_secs_f64() * 1000.0,
        };
        println!("{}", serde_json::to_string(&missed)?);
    }
    Ok(())
}

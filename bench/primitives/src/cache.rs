//! Hits in the process and in Redis, and one miss of many callers in several processes.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::Name;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::npm::{Driven, Npm};
use crate::round::{Sample, drive, measure};
use crate::server::Server;
use crate::statistics::{Spread, median, quantile};
use crate::table::{Cost, Row, Table, Target};
use crate::{Result, machine};

const TASKS: [usize; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(300);

/// So many hits in the process that looking at the clock costs nothing.
const HITS: u32 = 1000;

const PROCESSES: usize = 4;
const CALLERS: usize = 64;

/// How long the load of a miss takes: longer than it takes all callers to ask.
const LOAD: Duration = Duration::from_millis(50);

/// What a value is: a record of some hundred bytes.
fn value() -> String {
    "a value of some hundred bytes ".repeat(4)
}

fn one() -> Result<Name> {
    Ok(Name::new("one")?)
}

fn options() -> Result<CacheOptions> {
    Ok(CacheOptions::default().ttl(Life::new(Duration::from_mins(10))?))
}

#[derive(Clone)]
enum Side {
    Get(Cache<String>),
    Fetch(Cache<String>),
    Plain(MultiplexedConnection),
    Near(Cache<String>),
    CacheableNear,
    CacheableFar,
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::Fetch(_) => "get_or_fetch",
            Self::Near(_) => "get, near",
            Self::Plain(_) => "redis-rs GET",
            Self::CacheableNear | Self::CacheableFar => "npm cacheable",
        }
    }

    async fn drive(&self, server: &Server, npm: Option<&Npm>, tasks: usize) -> Result<Driven> {
        let from = match self {
            Self::CacheableNear => "near",
            Self::CacheableFar => "far",
            Self::Near(_) => return self.hits_nearby().await,
            Self::Get(_) | Self::Fetch(_) | Self::Plain(_) => {
                let side = self.clone();
                return drive(tasks, ROUND, move |_| {
                    let side = side.clone();
                    async move { side.hit().await }
                })
                .await;
            }
        };
        let npm = npm.ok_or("the npm peers are not there")?;
        npm.run(&Cacheable {
            run: "cache",
            url: server.url(),
            tasks,
            ms: ROUND.as_millis(),
            from,
            value: &value(),
        })
        .await
    }

    async fn hit(&self) -> Result<()> {
        let found = match self {
            Self::Get(cache) | Self::Near(cache) => cache.get(&one()?).await?.is_some(),
            Self::Fetch(cache) => {
                let never = || async { Ok::<_, Infallible>(None) };
                cache.get_or_fetch(&one()?, never).await?.is_some()
            }
            Self::Plain(connection) => {
                let mut get = redis::cmd("GET");
                get.arg("bench-plain:one");
                let mut connection = connection.clone();
                let found: Option<String> = get.query_async(&mut connection).await?;
                found.is_some()
            }
            Self::CacheableNear | Self::CacheableFar => false,
        };
        if found {
            Ok(())
        } else {
            Err(format!("{}: it is not there", self.name()).into())
        }
    }

    /// One task, whose name is made once, as a service keeps the names of what it is asked for.
    async fn hits_nearby(&self) -> Result<Driven> {
        let name = one()?;
        let mut times = Vec::new();
        let cpu = machine::cpu(None);
        let start = Instant::now();
        while start.elapsed() < ROUND {
            let from = Instant::now();
            for _ in 0..HITS {
                match self {
                    Self::Near(cache) => {
                        std::hint::black_box(cache.get(&name).await?.ok_or("it is not near")?);
                    }
                    other => other.hit().await?,
                }
            }
            times.push(from.elapsed().as_secs_f64() * 1e6 / f64::from(HITS));
        }
        let elapsed = start.elapsed();
        let cpu = machine::cpu(None).saturating_sub(cpu);
        Ok(Driven {
            ops: times.len() as u64 * u64::from(HITS),
            elapsed_ms: elapsed.as_secs_f64() * 1000.0,
            p50_us: quantile(&mut times, 0.5),
            cpu_us: cpu.as_secs_f64() * 1e6,
        })
    }
}

#[derive(Serialize)]
struct Cacheable<'a> {
    run: &'static str,
    url: &'a str,
    tasks: usize,
    ms: u128,
    from: &'static str,
    value: &'a str,
}

pub(crate) async fn run(server: &Server, npm: Option<&Npm>) -> Result<Table> {
    let mut rows = near(server, npm).await?;
    rows.extend(far(server, npm).await?);
    rows.extend(misses(server).await?);
    Ok(Table {
        title: format!(
            "cache: hits, {ROUNDS} rounds of {} ms a side, in turn; misses of {CALLERS} callers in each of {PROCESSES} processes",
            ROUND.as_millis()
        ),
        load: Vec::new(),
        notes: vec![
            "ratio: the median of the ratios of each round; a value has 120 bytes".to_owned(),
            "redis-rs GET: one MultiplexedConnection with TCP_NODELAY, no envelope, no JSON"
                .to_owned(),
            format!(
                "a miss: nobody has the value, a load takes {} ms, the peer is a load in each process",
                LOAD.as_millis()
            ),
        ],
        rows,
    })
}

async fn near(server: &Server, npm: Option<&Npm>) -> Result<Vec<Row>> {
    let redis = server.coord(true).await?;
    let life = Life::new(Duration::from_mins(10))?;
    let entries = NonZeroUsize::new(10_000).ok_or("more than none")?;
    let near: Cache<String> =
        Cache::new(&redis, &Name::new("near")?, options()?.near(entries, life));
    near.set(&one()?, &value()).await?;
    let start = Instant::now();
    while server.usage().await?.calls(&["client|tracking"]) < 2 {
        if start.elapsed() > Duration::from_secs(5) {
            return Err("nothing is tracked".into());
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    near.get(&one()?).await?;

    let mut sides = vec![Side::Near(near)];
    if npm.is_some() {
        sides.push(Side::CacheableNear);
    }
    let rounds = rounds(server, npm, &sides, 1).await?;
    let peers = 1..sides.len();
    Ok(peers
        .map(|peer| {
            let pick = |sample: &Sample| sample.p50_us * 1000.0;
            row(
                "hit in the process",
                (&sides, &rounds),
                (0, peer),
                ("ns p50", pick),
            )
            .aim(Target::OursAtMost(200.0))
        })
        .collect())
}

async fn far(server: &Server, npm: Option<&Npm>) -> Result<Vec<Row>> {
    let redis = server.coord(true).await?;
    let cache: Cache<String> = Cache::new(&redis, &Name::new("far")?, options()?);
    cache.set(&one()?, &value()).await?;
    let plain = server.plain(true).await?;
    let mut set = redis::cmd("SET");
    set.arg("bench-plain:one").arg(value());
    set.query_async::<()>(&mut plain.clone()).await?;
    let mut sides = vec![
        Side::Get(cache.clone()),
        Side::Fetch(cache),
        Side::Plain(plain),
    ];
    if npm.is_some() {
        sides.push(Side::CacheableFar);
    }
    let mut rows = Vec::new();
    for tasks in TASKS {
        let rounds = rounds(server, npm, &sides, tasks).await?;
        let all = (sides.as_slice(), rounds.as_slice());
        let pick = |sample: &Sample| sample.per_second;
        for ours in [0, 1] {
            let work = format!("hit in Redis, {tasks} tasks, {}", sides[ours].name());
            let row = |peer| row(&work, all, (ours, peer), ("hits/s", pick));
            rows.push(row(2).aim(Target::RatioAtLeast(0.9)));
            if sides.len() > 3 {
                rows.push(row(3));
            }
        }
    }
    Ok(rows)
}

async fn rounds(
    server: &Server,
    npm: Option<&Npm>,
    sides: &[Side],
    tasks: usize,
) -> Result<Vec<Vec<Sample>>> {
    let mut rounds = vec![Vec::new(); sides.len()];
    for round in 0..=ROUNDS {
        for (side, rounds) in sides.iter().zip(&mut rounds) {
            let driving = side.drive(server, npm, tasks);
            let sample = measure(server, &["get", "set", "evalsha", "eval"], driving).await?;
            // The first one warms up.
            if round > 0 {
                rounds.push(sample);
            }
        }
    }
    Ok(rounds)
}

fn row(
    work: &str,
    (sides, rounds): (&[Side], &[Vec<Sample>]),
    (ours, theirs): (usize, usize),
    (unit, pick): (&'static str, fn(&Sample) -> f64),
) -> Row {
    let pairs = rounds[ours].iter().zip(&rounds[theirs]);
    Row {
        work: work.to_owned(),
        peer: sides[theirs].name().to_owned(),
        unit,
        ours: Spread::of(rounds[ours].iter().map(pick)),
        theirs: Spread::of(rounds[theirs].iter().map(pick)),
        ratio: median(pairs.map(|(one, other)| pick(one) / pick(other))),
        target: None,
        met: None,
        our_cost: cost(&rounds[ours]),
        their_cost: cost(&rounds[theirs]),
    }
}

fn cost(rounds: &[Sample]) -> Cost {
    let of = |pick: fn(&Cost) -> Option<f64>| {
        Some(median(
            rounds.iter().filter_map(|sample| pick(&sample.cost)),
        ))
    };
    Cost {
        round_trips: of(|cost| cost.round_trips),
        server_us: of(|cost| cost.server_us),
        executing_us: of(|cost| cost.executing_us),
        client_us: of(|cost| cost.client_us),
    }
}

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

async fn misses(server: &Server) -> Result<Vec<Row>> {
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
        let loads = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let start = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..callers.parse()? {
            let (cache, name, loads) = (cache.clone(), name.clone(), Arc::clone(&loads));
            all.spawn(async move {
                let load = move || async move {
                    loads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
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
            loads: loads.load(std::sync::atomic::Ordering::SeqCst),
            elapsed_ms: start.elapsed().as_secs_f64() * 1000.0,
        };
        println!("{}", serde_json::to_string(&missed)?);
    }
    Ok(())
}

//! Hits in the process and in Redis, and one miss of many callers in several processes.

mod miss;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::Name;
pub(crate) use miss::{NODE, node};
use redis::aio::MultiplexedConnection;
use serde::Serialize;

use crate::npm::Npm;
use crate::round::{Driven, Sample, drive, measure};
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
    rows.extend(miss::misses(server).await?);
    Ok(Table {
        title: format!(
            "cache: hits, {ROUNDS} rounds of {} ms a side, in turn; misses of {CALLERS} callers in each of {PROCESSES} processes",
            ROUND.as_millis()
        ),
        server: String::new(),
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
        our_cost: Cost::median(rounds[ours].iter().map(|sample| sample.cost)),
        their_cost: Cost::median(rounds[theirs].iter().map(|sample| sample.cost)),
    }
}

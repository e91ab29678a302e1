//! Permits of a limit that has enough of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_core::Name;
use coord_ratelimit::{Limit, Limiter, Quota, Rule, Subject, WithoutRedis, wire};
use redis::aio::MultiplexedConnection;
use serde::Serialize;
use throttle_kit::{RateLimitBackend as _, RedisBackend};

use crate::Result;
use crate::npm::Npm;
use crate::round::{Driven, Sample, drive, measure};
use crate::scripts;
use crate::server::Server;
use crate::statistics::{Spread, median};
use crate::table::{Cost, Row, Table, Target};

const TASKS: [usize; 4] = [1, 16, 64, 256];
const KEYS: [usize; 2] = [1, 10_000];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(250);

/// More than a benchmark takes, in a rate that whole milliseconds can express, which throttle-kit
/// needs.
const PERMITS: u32 = 1_000_000_000;
const RATE: u32 = 1000;

/// A client of limits.
enum Side {
    Ours(Arc<Ours>),
    Bare(Arc<Bare>),
    ThrottleKit(Arc<ThrottleKit>),
    Flexible,
}

struct Ours {
    limiter: Limiter,
    subjects: Vec<Subject>,
    next: AtomicUsize,
}

/// The bare client with the script of coord-ratelimit.
struct Bare {
    connection: MultiplexedConnection,
    digest: String,
    arguments: Vec<i64>,
    keys: Vec<String>,
    next: AtomicUsize,
}

struct ThrottleKit {
    backend: RedisBackend,
    quota: throttle_kit::Quota,
    keys: Vec<String>,
    next: AtomicUsize,
}

/// The places of the sides that are always there.
const OURS: usize = 0;
const BARE: usize = 1;

/// All that is measured with one algorithm and one number of keys.
struct Group {
    work: &'static str,
    keys: usize,
    sides: Vec<Side>,
}

pub(crate) async fn run(server: &Server, npm: Option<&Npm>) -> Result<Table> {
    let gcra = Limit::gcra(Name::new("gcra")?, Quota::per_second(RATE)?, PERMITS)?;
    let fixed = Limit::fixed_window(Name::new("fixed")?, Quota::per_hour(PERMITS)?);
    let mut rows = Vec::new();
    for keys in KEYS {
        for limit in [&gcra, &fixed] {
            let group = Group::new(server, limit, keys, npm.is_some()).await?;
            for tasks in TASKS {
                let rounds = group.measure(server, npm, tasks).await?;
                rows.extend(group.rows(tasks, &rounds));
            }
        }
    }
    Ok(Table {
        title: format!(
            "limit: a permit of a limit that has enough; {ROUNDS} rounds of {} ms a side, in turn",
            ROUND.as_millis()
        ),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            "ratio: the median of the ratios of each round; costs are a call".to_owned(),
            "same script: redis-rs, one MultiplexedConnection, the Lua of coord-ratelimit"
                .to_owned(),
            "throttle-kit: GCRA in whole milliseconds of the client's clock".to_owned(),
        ],
        rows,
    })
}

impl Group {
    async fn new(server: &Server, limit: &Limit, keys: usize, has_npm: bool) -> Result<Self> {
        let names = || (0..keys).map(|key| format!("subject-{key}"));
        let redis = server.coord(true).await?;
        let subjects = names().map(|name| Ok(Subject::new(&Name::new(name)?)));
        let ours = Ours {
            limiter: Limiter::new(&redis, [limit.clone()], WithoutRedis::Deny)?,
            subjects: subjects.collect::<Result<_>>()?,
            next: AtomicUsize::new(0),
        };
        let mut connection = server.plain(true).await?;
        let bare = Bare {
            digest: scripts::load(&mut connection, wire::source(limit.rule())).await?,
            connection,
            arguments: wire::arguments(limit.rule(), 1).collect(),
            // As long as ours, and of each algorithm its own.
            keys: names()
                .map(|name| format!("bare-:{{ratelimit:{name}}}:{0}:{0}", limit.name()))
                .collect(),
            next: AtomicUsize::new(0),
        };
        let mut sides = vec![Side::Ours(Arc::new(ours)), Side::Bare(Arc::new(bare))];
        let work = if let Rule::Gcra(_) = limit.rule() {
            let backend = RedisBackend::connect(server.url()).await;
            sides.push(Side::ThrottleKit(Arc::new(ThrottleKit {
                backend: backend.map_err(|error| error.to_string())?,
                quota: throttle_kit::Quota::per_second(RATE).allow_burst(PERMITS),
                keys: names().map(|name| format!("throttle-kit:{name}")).collect(),
                next: AtomicUsize::new(0),
            })));
            "GCRA"
        } else {
            if has_npm {
                sides.push(Side::Flexible);
            }
            "fixed window"
        };
        Ok(Self { work, keys, sides })
    }

    async fn measure(
        &self,
        server: &Server,
        npm: Option<&Npm>,
        tasks: usize,
    ) -> Result<Vec<Vec<Sample>>> {
        let mut rounds = vec![Vec::new(); self.sides.len()];
        for round in 0..=ROUNDS {
            for (side, rounds) in self.sides.iter().zip(&mut rounds) {
                let driving = side.drive(server, npm, tasks, self.keys);
                let sample = measure(server, &["evalsha", "eval"], driving).await?;
                // The first one warms up.
                if round > 0 {
                    rounds.push(sample);
                }
            }
        }
        Ok(rounds)
    }

    fn rows(&self, tasks: usize, rounds: &[Vec<Sample>]) -> Vec<Row> {
        let row = |other: usize, unit, pick: fn(&Sample) -> f64| {
            let (ours, theirs) = (&rounds[OURS], &rounds[other]);
            let ratios = ours.iter().zip(theirs);
            let ratios = ratios.map(|(ours, theirs)| pick(ours) / pick(theirs));
            Row {
                work: format!("{}, {} keys, {tasks} tasks", self.work, self.keys),
                peer: self.sides[other].name().to_owned(),
                unit,
                ours: Spread::of(ours.iter().map(pick)),
                theirs: Spread::of(theirs.iter().map(pick)),
                ratio: median(ratios),
                target: None,
                met: None,
                our_cost: Cost::median(ours.iter().map(|sample| sample.cost)),
                their_cost: Cost::median(theirs.iter().map(|sample| sample.cost)),
            }
        };
        let rate = |other| row(other, "permits/s", |sample| sample.per_second);
        let bare = rate(BARE).aim(Target::RatioAtLeast(0.85));
        let peers = (BARE + 1..self.sides.len()).map(rate);
        std::iter::once(bare).chain(peers).collect()
    }
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "coord-ratelimit",
            Self::Bare(_) => "same script",
            Self::ThrottleKit(_) => "throttle-kit",
            Self::Flexible => "npm rate-limiter-flexible",
        }
    }

    async fn drive(
        &self,
        server: &Server,
        npm: Option<&Npm>,
        tasks: usize,
        keys: usize,
    ) -> Result<Driven> {
        match self {
            Self::Ours(ours) => {
                let ours = Arc::clone(ours);
                drive(tasks, ROUND, move |_| {
                    let ours = Arc::clone(&ours);
                    async move { ours.take().await }
                })
                .await
            }
            Self::Bare(bare) => {
                let bare = Arc::clone(bare);
                drive(tasks, ROUND, move |_| {
                    let bare = Arc::clone(&bare);
                    async move { bare.take().await }
                })
                .await
            }
            Self::ThrottleKit(kit) => {
                let kit = Arc::clone(kit);
                drive(tasks, ROUND, move |_| {
                    let kit = Arc::clone(&kit);
                    async move { kit.take().await }
                })
                .await
            }
            Self::Flexible => {
                let npm = npm.ok_or("the npm peers are not there")?;
                npm.run(&Flexible {
                    run: "limit",
                    url: server.url(),
                    tasks,
                    ms: ROUND.as_millis(),
                    keys,
                    quota: PERMITS,
                    window_s: 3600,
                })
                .await
            }
        }
    }
}

#[derive(Serialize)]
struct Flexible<'a> {
    run: &'static str,
    url: &'a str,
    tasks: usize,
    ms: u128,
    keys: usize,
    quota: u32,
    window_s: u32,
}

impl Ours {
    async fn take(&self) -> Result<()> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.subjects.len();
        let decision = self.limiter.try_acquire(&self.subjects[next], 1).await?;
        if decision.is_allowed() && !decision.is_degraded() {
            return Ok(());
        }
        Err(format!("coord-ratelimit: {decision:?}").into())
    }
}

impl Bare {
    async fn take(&self) -> Result<()> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.keys.len();
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.digest).arg(1).arg(&self.keys[next]);
        for argument in &self.arguments {
            call.arg(argument);
        }
        let mut connection = self.connection.clone();
        let reply: Vec<i64> = call.query_async(&mut connection).await?;
        if reply.first() == Some(&1) {
            return Ok(());
        }
        Err("the bare script denied".into())
    }
}

impl ThrottleKit {
    async fn take(&self) -> Result<()> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.keys.len();
        let result = self.backend.check(&self.keys[next], &self.quota).await;
        if result.allowed {
            return Ok(());
        }
        Err("throttle-kit denied".into())
    }
}

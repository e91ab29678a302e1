//! One lock that many wait for, each on a connection of its own, and nobody keeps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coord_core::Name;
use coord_lock::{LockOptions, Locks, Order};
use rslock::LockManager;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::Result;
use crate::npm::Npm;
use crate::server::{Server, Usage};
use crate::statistics::{Spread, median, quantile};
use crate::table::{Cost, Row, Table, Target};

const WAITERS: usize = 8;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1000);
const TTL: Duration = Duration::from_secs(30);

/// Longer than any round: nobody gives up.
const WAIT: Duration = Duration::from_secs(60);

#[derive(Clone)]
enum Waiter {
    Ours { locks: Locks, options: LockOptions },
    Rslock(LockManager),
}

enum Side {
    Any(Vec<Waiter>),
    Fifo(Vec<Waiter>),
    Rslock(Vec<Waiter>),
    Semaphore,
}

/// What a round came to.
#[derive(Debug, Deserialize)]
struct Passed {
    /// By waiter.
    grants: Vec<u64>,
    /// From one to another.
    handovers: u64,
    p50_us: f64,
    p99_us: f64,
}

struct Sample {
    p50: f64,
    p99: f64,
    fairness: f64,
    per_second: f64,
    cost: Cost,
}

/// The lock's way through the waiters. Only its owner writes.
#[derive(Default)]
struct Baton {
    released: Option<(Instant, usize)>,
    grants: [u64; WAITERS],
    handovers: Vec<f64>,
}

pub(crate) async fn run(server: &Server, npm: Option<&Npm>) -> Result<Table> {
    let mut sides = vec![
        Side::Any(ours(server, Order::Any).await?),
        Side::Fifo(ours(server, Order::Fifo).await?),
        Side::Rslock(rslock(server)?),
    ];
    if npm.is_some() {
        sides.push(Side::Semaphore);
    }
    let mut rounds: Vec<Vec<Sample>> = sides.iter().map(|_| Vec::new()).collect();
    let mut pings = Vec::new();
    for _ in 0..ROUNDS {
        let ping = server.round_trip().await?;
        pings.push(ping.as_secs_f64() * 1e6);
        for (side, rounds) in sides.iter().zip(&mut rounds) {
            let before = server.usage().await?;
            let passed = side.pass(server, npm).await?;
            let used = server.usage().await?.since(&before);
            rounds.push(Sample::new(&passed, &used, side.commands(), ping));
        }
    }
    let mut rows = Vec::new();
    for (ours_at, name) in [(0, "any order"), (1, "in order")] {
        for (peer_at, peer) in [(2, "rslock"), (3, "npm redis-semaphore")] {
            let Some(theirs) = rounds.get(peer_at) else {
                continue;
            };
            rows.extend(compare(name, &rounds[ours_at], peer, theirs));
        }
    }
    Ok(Table {
        title: format!(
            "handover: {WAITERS} waiters for one lock, kept for no time; {ROUNDS} rounds of {} ms a side, in turn",
            ROUND.as_millis()
        ),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            format!(
                "a round trip: {:.0} us, the median of PINGs in between",
                median(pings)
            ),
            "hand-over: from the start of a release to the return of another waiter's acquire"
                .to_owned(),
            "fairness: most grants by fewest; - where somebody got none. Costs are a grant"
                .to_owned(),
        ],
        rows,
    })
}

fn compare(order: &str, ours: &[Sample], peer: &str, theirs: &[Sample]) -> Vec<Row> {
    let row = |what: &str, unit, pick: fn(&Sample) -> f64| Row {
        work: format!("{order}: {what}"),
        peer: peer.to_owned(),
        unit,
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
    let fairness = row("fairness", "max/min", |sample| sample.fairness);
    vec![
        row("hand-over p50", "round trips", |sample| sample.p50).aim(Target::OursAtMost(3.0)),
        row("hand-over p99", "round trips", |sample| sample.p99),
        if order == "in order" {
            fairness.aim(Target::OursAtMost(1.2))
        } else {
            fairness
        },
        row("grants", "1/s", |sample| sample.per_second),
    ]
}

impl Sample {
    fn new(passed: &Passed, used: &Usage, commands: &[&str], ping: Duration) -> Self {
        let all: u64 = passed.grants.iter().sum();
        let (most, fewest) = (passed.grants.iter().max(), passed.grants.iter().min());
        let ratio = |most: &u64, fewest: &u64| *most as f64 / *fewest as f64;
        let round_trip = ping.as_secs_f64() * 1e6;
        // A round in which the lock never went from one to another has no hand-over.
        let in_round_trips = |us: f64| {
            if passed.handovers == 0 {
                f64::INFINITY
            } else {
                us / round_trip
            }
        };
        let each = |total: f64| Some(total / all.max(1) as f64);
        Self {
            p50: in_round_trips(passed.p50_us),
            p99: in_round_trips(passed.p99_us),
            fairness: most
                .zip(fewest)
                .map_or(f64::INFINITY, |(most, fewest)| ratio(most, fewest)),
            per_second: all as f64 / ROUND.as_secs_f64(),
            cost: Cost {
                round_trips: each(used.calls(commands) as f64),
                server_us: each(used.cpu_us()),
                executing_us: each(used.executing_us(commands)),
                client_us: None,
            },
        }
    }
}

async fn ours(server: &Server, order: Order) -> Result<Vec<Waiter>> {
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        waiters.push(Waiter::Ours {
            locks: Locks::new(&server.coord(true).await?),
            options: LockOptions::default().order(order),
        });
    }
    Ok(waiters)
}

fn rslock(server: &Server) -> Result<Vec<Waiter>> {
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        let manager = LockManager::from_clients(vec![server.client(true)?]);
        waiters.push(Waiter::Rslock(manager));
    }
    Ok(waiters)
}

#[derive(Serialize)]
struct Semaphore<'a> {
    run: &'static str,
    url: &'a str,
    waiters: usize,
    ms: u128,
    ttl_ms: u128,
}

impl Side {
    /// What it sends: the rest is what scripts call.
    fn commands(&self) -> &'static [&'static str] {
        match self {
            Self::Any(_) | Self::Fifo(_) => &["evalsha", "eval", "subscribe", "unsubscribe"],
            Self::Rslock(_) | Self::Semaphore => &["set", "evalsha", "eval"],
        }
    }

    async fn pass(&self, server: &Server, npm: Option<&Npm>) -> Result<Passed> {
        match self {
            Self::Any(waiters) => pass(waiters, "bench-handover-any").await,
            Self::Fifo(waiters) => pass(waiters, "bench-handover-fifo").await,
            Self::Rslock(waiters) => pass(waiters, "bench-handover-rslock").await,
            Self::Semaphore => {
                let npm = npm.ok_or("the npm peers are not there")?;
                npm.run(&Semaphore {
                    run: "handover",
                    url: server.url(),
                    waiters: WAITERS,
                    ms: ROUND.as_millis(),
                    ttl_ms: TTL.as_millis(),
                })
                .await
            }
        }
    }
}

async fn pass(waiters: &[Waiter], key: &'static str) -> Result<Passed> {
    let name = Name::new(key)?;
    let baton = Arc::new(Mutex::new(Baton::default()));
    let end = Instant::now() + ROUND;
    let mut running = JoinSet::new();
    for (index, waiter) in waiters.iter().cloned().enumerate() {
        let (name, baton) = (name.clone(), Arc::clone(&baton));
        running.spawn(async move {
            while Instant::now() < end {
                waiter.once(&name, index, &baton, end).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    let mut baton = baton.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Passed {
        grants: baton.grants.to_vec(),
        handovers: baton.handovers.len() as u64,
        p50_us: quantile(&mut baton.handovers, 0.5),
        p99_us: quantile(&mut baton.handovers, 0.99),
    })
}

impl Waiter {
    async fn once(
        &self,
        name: &Name,
        index: usize,
        baton: &Mutex<Baton>,
        end: Instant,
    ) -> Result<()> {
        match self {
            Self::Ours { locks, options } => {
                let lock = locks.acquire(name, WAIT, options).await?;
                pass_on(baton, index, end);
                lock.release().await?;
            }
            Self::Rslock(manager) => {
                let guard = manager.acquire(name.as_str().as_bytes(), TTL).await?;
                pass_on(baton, index, end);
                guard.release().await;
            }
        }
        Ok(())
    }
}

/// Takes note of a grant, and of the release that follows at once.
fn pass_on(baton: &Mutex<Baton>, index: usize, end: Instant) {
    let now = Instant::now();
    let mut baton = baton.lock().unwrap_or_else(PoisonError::into_inner);
    if now < end {
        baton.grants[index] += 1;
        if let Some((at, by)) = baton.released
            && by != index
        {
            baton.handovers.push((now - at).as_secs_f64() * 1e6);
        }
    }
    baton.released = Some((Instant::now(), index));
}

//! A tick of many tenants: its records enqueued, and consumed by three nodes.

mod apalis;
mod ours;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::npm::Npm;
use crate::server::Server;
use crate::statistics::{Spread, median};
use crate::table::{Cost, Row, Table, Target};

const NODES: usize = 3;
const ORGS: usize = 100;
const RECORDS: usize = 100;
const ALL: usize = ORGS * RECORDS;
const CONCURRENCY: usize = 50;
const WINDOW_MS: u64 = 300_000;
const ROUNDS: usize = 3;

/// What one side did in one round.
#[derive(Debug, Clone, Copy)]
struct Sample {
    enqueued: f64,
    drained: f64,
    /// Of the claim and the enqueueing, a tenant.
    round_trips: f64,
    /// Of the whole, a record.
    server_us: f64,
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    BullMq,
    Apalis,
}

pub(crate) async fn run(server: &Server, npm: Option<&Npm>) -> Result<Table> {
    let mut sides = vec![Side::Ours, Side::Apalis];
    if npm.is_some() {
        sides.push(Side::BullMq);
    }
    let mut rounds: Vec<Vec<Sample>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        for (side, rounds) in sides.iter().zip(&mut rounds) {
            rounds.push(side.round(server, npm, round).await?);
        }
    }
    let (ours, peers) = rounds.split_first().ok_or("ours is a side")?;
    let mut rows = Vec::new();
    for (side, theirs) in sides.iter().skip(1).zip(peers) {
        rows.extend(side.rows(ours, theirs));
    }
    Ok(Table {
        title: format!(
            "tick: {RECORDS} records of each of {ORGS} tenants, on {NODES} nodes; {ROUNDS} rounds a side, in turn"
        ),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            "enqueue: from the due tick to the last record in the queue, while nobody consumes"
                .to_owned(),
            "drain: from the start of the consumers to the last record that was handled".to_owned(),
            "round trips: of claim and enqueueing, a tenant; server us: of the whole, a record"
                .to_owned(),
            format!(
                "apalis-redis has no tick: its enqueueing alone, of {} records, since it fails on a larger backlog",
                apalis::ALL
            ),
        ],
        rows,
    })
}

impl Side {
    async fn round(self, server: &Server, npm: Option<&Npm>, round: usize) -> Result<Sample> {
        match self {
            Self::Ours => ours::round(server, round).await,
            Self::Apalis => apalis::round(server, round).await,
            Self::BullMq => {
                let npm = npm.ok_or("the npm peers are not there")?;
                bullmq(server, npm, round).await
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "coord-fanout",
            Self::Apalis => "apalis-redis",
            Self::BullMq => "npm bullmq",
        }
    }

    fn rows(self, ours: &[Sample], theirs: &[Sample]) -> [Row; 3] {
        let row = |what: &str, unit, pick: fn(&Sample) -> f64| Row {
            work: what.to_owned(),
            peer: self.name().to_owned(),
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
            our_cost: cost(ours),
            their_cost: cost(theirs),
        };
        [
            row("enqueue", "records/s", |one| one.enqueued).aim(Target::RatioAtLeast(2.0)),
            row("drain", "records/s", |one| one.drained).aim(Target::RatioAtLeast(2.0)),
            row("round trips", "a tenant", |one| one.round_trips).aim(Target::OursAtMost(3.0)),
        ]
    }
}

fn cost(rounds: &[Sample]) -> Cost {
    Cost {
        round_trips: Some(median(rounds.iter().map(|one| one.round_trips))),
        server_us: Some(median(rounds.iter().map(|one| one.server_us))),
        executing_us: None,
        client_us: None,
    }
}

#[derive(Serialize)]
struct BullMq<'a> {
    run: &'static str,
    url: &'a str,
    prefix: String,
    nodes: usize,
    orgs: usize,
    records: usize,
    concurrency: usize,
    window_ms: u64,
}

#[derive(Deserialize)]
struct Ticked {
    enqueue_ms: f64,
    drain_ms: f64,
    calls: u64,
}

async fn bullmq(server: &Server, npm: &Npm, round: usize) -> Result<Sample> {
    let before = server.usage().await?;
    let ticked: Ticked = npm
        .run(&BullMq {
            run: "tick",
            url: server.url(),
            prefix: format!("bench-bullmq-{}-{round}", std::process::id()),
            nodes: NODES,
            orgs: ORGS,
            records: RECORDS,
            concurrency: CONCURRENCY,
            window_ms: WINDOW_MS,
        })
        .await?;
    let used = server.usage().await?.since(&before);
    Ok(Sample {
        enqueued: ALL as f64 / ticked.enqueue_ms * 1000.0,
        drained: ALL as f64 / ticked.drain_ms * 1000.0,
        round_trips: ticked.calls as f64 / ORGS as f64,
        server_us: used.cpu_us() / ALL as f64,
    })
}

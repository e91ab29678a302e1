//! Ours and the peers in turn, on databases of their own in the same server.

use std::time::Duration;

use coord_bench_measure::Result;
use coord_bench_measure::peer::Task;
use coord_bench_measure::round::Driven;
use coord_bench_measure::statistics::{Spread, median};
use coord_bench_measure::table::{Cost, Row, Table, Target};
use coord_engine::store::Postgres;

use crate::ours::{Ours, Work, gaps};
use crate::peers::Peer;
use crate::server::{Server, Usage};

pub(crate) const ROUNDS: usize = 3;
const WINDOW: Duration = Duration::from_millis(1000);
/// Before the first round each side runs so long: connections open, plans are made.
const WARM_UP: Duration = Duration::from_millis(500);
/// What a slow disk takes beyond this one to flush, by `commit_delay`.
const FLUSH_US: u32 = 2000;

/// With how many at a time the server is asked what a workflow costs it. It is asked in the last
/// round alone, since it takes a while to know.
const COSTED: usize = 32;

/// What one side did in one round.
pub(crate) struct Sample {
    pub(crate) driven: Driven,
    pub(crate) cost: Option<Usage>,
}

/// All sides of a comparison.
pub(crate) struct Sides<'a> {
    server: &'a Server,
    pub(crate) ours: Ours,
    pub(crate) peers: Vec<Peer>,
    notes: Vec<String>,
}

pub(crate) const OURS: &str = "coord_bench_ours";

impl<'a> Sides<'a> {
    pub(crate) async fn start(
        server: &'a Server,
        peers: &[&'static str],
        flush_us: u32,
    ) -> Result<Self> {
        let url = server.create(OURS).await?;
        if flush_us > 0 {
            server.slow_down(OURS, flush_us).await?;
        }
        let mut sides = Self {
            server,
            ours: Ours::start(Postgres::connect(&url)?).await?,
            peers: Vec::new(),
            notes: Vec::new(),
        };
        for name in peers {
            let database = database(name);
            let url = server.create(&database).await?;
            if flush_us > 0 {
                server.slow_down(&database, flush_us).await?;
            }
            match Peer::start(name, &url).await {
                Ok(peer) => sides.peers.push(peer),
                Err(why) => sides.notes.push(format!("without {name}: {why}")),
            }
        }
        Ok(sides)
    }

    pub(crate) async fn end(self) -> Result<Vec<String>> {
        let Self {
            server,
            ours,
            peers,
            mut notes,
        } = self;
        drop(ours);
        for peer in &peers {
            notes.extend(
                peer.trouble
                    .iter()
                    .map(|why| format!("{} left off at {why}", peer.name)),
            );
            server.drop(&database(peer.name)).await?;
        }
        server.drop(OURS).await?;
        Ok(notes)
    }

    /// Rounds of `works`, and of the peers, with `tasks` at a time: first ours, then theirs.
    pub(crate) async fn rounds(
        &mut self,
        works: &[Work],
        tasks: usize,
    ) -> Result<(Vec<Vec<Sample>>, Vec<Vec<Sample>>)> {
        let mut ours: Vec<Vec<Sample>> = works.iter().map(|_| Vec::new()).collect();
        let mut theirs: Vec<Vec<Sample>> = self.peers.iter().map(|_| Vec::new()).collect();
        for round in 0..=ROUNDS {
            let time = time_of(round);
            let is_costed = tasks == COSTED && round == ROUNDS;
            if is_costed {
                Server::hear().await;
            }
            for (work, samples) in works.iter().zip(&mut ours) {
                let asked = Asked::before(self.server, OURS, is_costed).await?;
                let driven = self.ours.drive(*work, tasks, time).await?;
                let cost = asked.after(driven.ops).await?;
                samples.push(Sample { driven, cost });
            }
            for (peer, samples) in self.peers.iter_mut().zip(&mut theirs) {
                if tasks > peer.most() || peer.trouble.is_some() {
                    continue;
                }
                let database = database(peer.name);
                let task = Task {
                    work: works[0].name().to_owned(),
                    in_flight: tasks,
                    ms: time.as_millis() as u64,
                    jobs: 0,
                };
                let asked = Asked::before(self.server, &database, is_costed).await?;
                let driven = match peer.run(&task).await {
                    Ok(driven) => driven,
                    Err(why) => {
                        peer.trouble = Some(format!("{tasks} in flight: {why}"));
                        continue;
                    }
                };
                let cost = asked.after(driven.ops).await?;
                samples.push(Sample { driven, cost });
            }
        }
        // The warm-up counts for nobody.
        for samples in ours.iter_mut().chain(&mut theirs) {
            samples.drain(..samples.len().min(1));
        }
        Ok((ours, theirs))
    }
}

/// What the server said before the work of one round, if it was asked.
struct Asked<'a>(Option<(&'a Server, &'a str, Usage)>);

impl<'a> Asked<'a> {
    async fn before(server: &'a Server, database: &'a str, is_costed: bool) -> Result<Self> {
        if !is_costed {
            return Ok(Self(None));
        }
        let usage = server.usage(database).await?;
        Ok(Self(Some((server, database, usage))))
    }

    /// What each of `ops` has cost.
    async fn after(self, ops: u64) -> Result<Option<Usage>> {
        let Self(Some((server, database, before))) = self else {
            return Ok(None);
        };
        // Transactions and the log are counted as they are made, and go on while one waits for the rest.
        let at_once = server.usage(database).await?;
        Server::hear().await;
        let usage = server.usage(database).await?;
        let usage = Usage {
            writes: at_once.writes,
            wal: at_once.wal,
            ..usage
        };
        Ok(Some(usage.each(before, ops)))
    }
}

/// The peers that did the work, with their rounds.
pub(crate) fn measured<'a>(
    peers: &'a [Peer],
    theirs: &'a [Vec<Sample>],
) -> impl Iterator<Item = (&'a Peer, &'a Vec<Sample>)> {
    peers
        .iter()
        .zip(theirs)
        .filter(|(_, rounds)| !rounds.is_empty())
}

/// How long a round lasts; the first one is a warm-up.
pub(crate) fn time_of(round: usize) -> Duration {
    if round == 0 { WARM_UP } else { WINDOW }
}

fn database(peer: &str) -> String {
    format!("coord_bench_{peer}")
}

fn rate(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.driven.per_second()))
}

pub(crate) fn compare(
    work: &str,
    unit: &'static str,
    ours: &[Sample],
    peer: &str,
    theirs: &[Sample],
) -> Row {
    let ratios = ours.iter().zip(theirs);
    let ratio = ratios.map(|(ours, theirs)| ours.driven.per_second() / theirs.driven.per_second());
    Row {
        work: work.to_owned(),
        peer: peer.to_owned(),
        unit,
        ours: rate(ours),
        theirs: rate(theirs),
        ratio: median(ratio),
        target: None,
        met: None,
        our_cost: cost(ours),
        their_cost: cost(theirs),
    }
}

fn cost(samples: &[Sample]) -> Cost {
    let client = samples
        .iter()
        .map(|sample| sample.driven.cpu_us / sample.driven.ops.max(1) as f64);
    Cost {
        client_us: Some(median(client)),
        ..Cost::default()
    }
}

/// What a workflow costs the server, by kind of cost.
fn costs(work: &str, ours: &[Sample], peer: &str, theirs: &[Sample]) -> Vec<Row> {
    let kinds: [(&'static str, fn(&Usage) -> f64, Option<f64>); 5] = [
        ("write commits", |usage| usage.writes, Some(1.0)),
        ("WAL bytes", |usage| usage.wal, Some(7000.0)),
        ("commits and reads", |usage| usage.commits, None),
        ("rows written", |usage| usage.rows, None),
        ("dead rows", |usage| usage.dead, None),
    ];
    let rows = kinds.into_iter().map(|(unit, pick, bound)| {
        let spread = |samples: &[Sample]| {
            let costs = samples.iter().filter_map(|one| one.cost.as_ref());
            Spread::of(costs.map(pick))
        };
        let row = Row {
            work: format!("{work}: cost of one"),
            peer: peer.to_owned(),
            unit,
            ours: spread(ours),
            theirs: spread(theirs),
            ratio: spread(ours).median / spread(theirs).median,
            target: None,
            met: None,
            our_cost: Cost::default(),
            their_cost: Cost::default(),
        };
        match bound {
            Some(bound) => row.aim(Target::OursAtMost(bound)),
            None => row,
        }
    });
    rows.collect()
}

/// B3 and B7: ten steps one after the other.
pub(crate) async fn steps(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["dbos", "limit", "duroxide"], 0).await?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    // Of dbos alone at 32, which 256 are compared with: more callers make it slower.
    let targets = [(1, 1.3), (8, 2.0), (32, 6.0), (256, 15.0)];
    for (tasks, target) in targets {
        gaps();
        let (ours, theirs) = sides
            .rounds(&[Work::Steps, Work::Activities], tasks)
            .await?;
        let (p50, p99) = gaps();
        notes.push(format!(
            "{tasks} in flight: {p50:.0} us from step to step at the median, {p99:.0} us at the 99th percentile"
        ));
        for (peer, theirs) in measured(&sides.peers, &theirs) {
            let work = format!("10 steps, {tasks} in flight");
            let row = compare(&work, "workflows/s", &ours[0], peer.name, theirs);
            rows.push(match peer.name {
                "dbos" => row.aim(Target::RatioAtLeast(target)),
                "limit" if tasks >= 32 => row.aim(Target::RatioAtLeast(0.5)),
                "duroxide" => row.aim(Target::RatioAtLeast(60.0)),
                _ => row,
            });
            if peer.name == "dbos" {
                let work = format!("10 activities, {tasks} in flight");
                rows.push(compare(&work, "workflows/s", &ours[1], peer.name, theirs));
                if tasks == COSTED {
                    rows.extend(costs("10 steps, 32 in flight", &ours[0], peer.name, theirs));
                    rows.extend(costs(
                        "10 activities, 32 in flight",
                        &ours[1],
                        peer.name,
                        theirs,
                    ));
                }
            }
        }
    }
    notes.extend(sides.end().await?);
    table(
        "Workflows of ten sequential steps of 100 bytes",
        rows,
        notes,
    )
}

/// B2: workflows that do nothing.
pub(crate) async fn noop(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["dbos", "duroxide"], 0).await?;
    let mut rows = Vec::new();
    for tasks in [8, 32, 256] {
        let (ours, theirs) = sides.rounds(&[Work::Noop], tasks).await?;
        for (peer, theirs) in measured(&sides.peers, &theirs) {
            let work = format!("no-op, {tasks} in flight");
            let row = compare(&work, "workflows/s", &ours[0], peer.name, theirs);
            rows.push(match (peer.name, tasks) {
                ("dbos", 32) => row.aim(Target::RatioAtLeast(4.0)),
                ("duroxide", 32) => row.aim(Target::RatioAtLeast(12.0)),
                _ => row,
            });
        }
    }
    let notes = sides.end().await?;
    table("Workflows that do nothing", rows, notes)
}

/// B3 on a disk that takes longer to flush.
pub(crate) async fn slow_disk(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["dbos"], FLUSH_US).await?;
    let mut rows = Vec::new();
    for (tasks, target) in [(1, 1.0), (8, 1.2), (32, 3.0)] {
        let (ours, theirs) = sides.rounds(&[Work::Steps], tasks).await?;
        for (peer, theirs) in measured(&sides.peers, &theirs) {
            let work = format!("10 steps, {tasks} in flight, slow disk");
            let row = compare(&work, "workflows/s", &ours[0], peer.name, theirs);
            rows.push(row.aim(Target::RatioAtLeast(target)));
        }
    }
    let mut notes = sides.end().await?;
    notes.push(format!(
        "each flush made {FLUSH_US} us longer by commit_delay"
    ));
    table("Ten sequential steps on a slow disk", rows, notes)
}

/// What ours came to, beside another figure of ours, neither of them a rate.
pub(crate) fn figures(
    work: &str,
    unit: &'static str,
    ours: impl IntoIterator<Item = f64>,
    (peer, theirs): (&str, impl IntoIterator<Item = f64>),
) -> Row {
    let (ours, theirs) = (Spread::of(ours), Spread::of(theirs));
    Row {
        work: work.to_owned(),
        peer: peer.to_owned(),
        unit,
        ratio: ours.median / theirs.median,
        ours,
        theirs,
        target: None,
        met: None,
        our_cost: Cost::default(),
        their_cost: Cost::default(),
    }
}

pub(crate) fn table(title: &str, rows: Vec<Row>, notes: Vec<String>) -> Result<Table> {
    Ok(Table {
        title: title.to_owned(),
        server: String::new(),
        load: Vec::new(),
        notes,
        rows,
    })
}

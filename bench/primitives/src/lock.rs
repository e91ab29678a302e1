//! Acquire and release of a lock of one's own.

mod sides;

use std::time::Duration;

use sides::{OURS, PLAIN, REDLOCK, RSLOCK, SCRIPTS, Side, UNFENCED};

use crate::Result;
use crate::npm::Npm;
use crate::round::{Sample, measure};
use crate::server::Server;
use crate::statistics::{Spread, median};
use crate::table::{Cost, Row, Table, Target};

const TASKS: [usize; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(200);
const TTL_MS: u64 = 30_000;

/// All that is measured with one setting of `TCP_NODELAY`.
struct Group {
    nodelay: bool,
    sides: Vec<Side>,
}

/// The rounds of one side at one number of tasks.
type Rounds = Vec<Sample>;

pub(crate) async fn run(server: &Server, npm: Option<&Npm>) -> Result<Table> {
    let groups = [
        Group::new(server, true, npm.is_some()).await?,
        Group::new(server, false, false).await?,
    ];
    let mut rows = Vec::new();
    for tasks in TASKS {
        let mut rounds: Vec<Vec<Rounds>> = groups
            .iter()
            .map(|group| vec![Rounds::new(); group.sides.len()])
            .collect();
        for round in 0..=ROUNDS {
            for (group, rounds) in groups.iter().zip(&mut rounds) {
                for (side, rounds) in group.sides.iter().zip(rounds) {
                    let driving = side.drive(server, npm, tasks);
                    let sample = measure(server, side.commands(), driving).await?;
                    // The first one warms up.
                    if round > 0 {
                        rounds.push(sample);
                    }
                }
            }
        }
        for (group, rounds) in groups.iter().zip(&rounds) {
            rows.extend(group.rows(tasks, rounds));
        }
    }
    Ok(Table {
        title: format!(
            "lock: acquire and release of a key of one's own; {ROUNDS} rounds of {} ms a side, in turn",
            ROUND.as_millis()
        ),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            "ratio: the median of the ratios of each round; costs are a pair of calls".to_owned(),
            "same scripts: redis-rs, one MultiplexedConnection, the Lua of coord-lock".to_owned(),
            "plain: redis-rs, SET NX GET PX and EVALSHA compare-and-delete; no fence, as rslock"
                .to_owned(),
        ],
        rows,
    })
}

impl Group {
    async fn new(server: &Server, nodelay: bool, has_npm: bool) -> Result<Self> {
        let sides = sides::all(server, nodelay, has_npm).await?;
        Ok(Self { nodelay, sides })
    }

    fn rows(&self, tasks: usize, rounds: &[Rounds]) -> Vec<Row> {
        let setting = if self.nodelay { "nodelay" } else { "Nagle" };
        let row = |one: usize, other: usize, unit, pick: fn(&Sample) -> f64| {
            let (ours, theirs) = (&rounds[one], &rounds[other]);
            let ratios = ours
                .iter()
                .zip(theirs)
                .map(|(ours, theirs)| pick(ours) / pick(theirs));
            Row {
                work: format!("{tasks} tasks, {setting}, {}", self.sides[one].name()),
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
        let rate = |one, other| row(one, other, "pairs/s", |sample| sample.per_second);
        let is_many = tasks >= 64;
        let aim = |row: Row, target| if is_many { row.aim(target) } else { row };
        let mut rows = vec![
            if tasks == 1 {
                row(OURS, SCRIPTS, "us p50", |sample| sample.p50_us).aim(Target::RatioAtMost(1.10))
            } else {
                aim(rate(OURS, SCRIPTS), Target::RatioAtLeast(0.9))
            },
            aim(rate(OURS, RSLOCK), Target::RatioAtLeast(1.15)),
            aim(rate(UNFENCED, PLAIN), Target::RatioAtLeast(0.9)),
            aim(rate(UNFENCED, RSLOCK), Target::RatioAtLeast(1.15)),
        ];
        if self.sides.len() > REDLOCK {
            rows.push(rate(OURS, REDLOCK));
        }
        rows
    }
}

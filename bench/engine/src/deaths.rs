//! B6: how soon others go on with what a process had that is killed, or that ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use coord_bench_measure::Result;
use coord_bench_measure::table::{Row, Table, Target};

use crate::compare::{OURS, figures, table};
use crate::nodes::{Ears, Node, Stage, ends};
use crate::server::Server;

/// How long a step lasts with the one who is to die, which is longer than he lives, and with others.
const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(50);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Death {
    /// It is killed, and others lead.
    Killed,
    /// It is killed, and had led.
    LeaderKilled,
    /// It stops as a service does when it is asked to.
    Stopped,
    /// It is killed, and started again; its database is a file of its own.
    Restarted,
}

struct Scene {
    what: &'static str,
    death: Death,
    runs: u16,
    /// Within how many seconds the last run is to go on.
    bound: f64,
}

const SCENES: [Scene; 6] = [
    scene("kill -9, 1 running", Death::Killed, 1, 20.0),
    scene("kill -9, 50 running", Death::Killed, 50, 20.0),
    scene(
        "kill -9 of the leader, 1 running",
        Death::LeaderKilled,
        1,
        30.0,
    ),
    scene(
        "kill -9 of the leader, 50 running",
        Death::LeaderKilled,
        50,
        30.0,
    ),
    // Nobody has to wait for the end of a lease.
    scene("clean stop, 50 running", Death::Stopped, 50, 1.0),
    scene("SQLite, restart, 50 running", Death::Restarted, 50, 1.0),
];

const fn scene(what: &'static str, death: Death, runs: u16, bound: f64) -> Scene {
    Scene {
        what,
        death,
        runs,
        bound,
    }
}

pub(crate) async fn deaths(server: &Server) -> Result<Table> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for scene in &SCENES {
        let seen = play(server, scene).await?;
        rows.extend(seen.rows(scene));
        notes.push(format!(
            "{}: {} of {} runs ended right, {} duplicates in their histories, {} steps began more than once again",
            scene.what, seen.right, scene.runs, seen.duplicates, seen.again
        ));
    }
    table(
        "From the end of a process to others that go on with its work",
        rows,
        notes,
    )
}

/// What was seen of one death.
struct Seen {
    first: f64,
    last: f64,
    right: usize,
    duplicates: usize,
    /// How often a step began beyond its first time and once more.
    again: usize,
}

impl Seen {
    fn rows(&self, scene: &Scene) -> [Row; 3] {
        let bound = ("the bound", [scene.bound]);
        let row = |what: &str, unit, figure| {
            figures(&format!("{}: {what}", scene.what), unit, [figure], bound)
        };
        let duplicates = self.duplicates as f64;
        let none = ("none", [0.0]);
        let what = format!("{}: duplicates of state", scene.what);
        [
            row("first goes on", "s", self.first),
            row("last goes on", "s", self.last).aim(Target::OursAtMost(scene.bound)),
            figures(&what, "rows", [duplicates], none).aim(Target::OursAtMost(0.0)),
        ]
    }
}

async fn play(server: &Server, scene: &Scene) -> Result<Seen> {
    if scene.death == Death::Restarted {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}", folder.path().join("bench.db").display());
        return play_at(&url, scene).await;
    }
    let url = server.create(OURS).await?;
    let seen = play_at(&url, scene).await;
    server.drop(OURS).await?;
    seen
}

async fn play_at(url: &str, scene: &Scene) -> Result<Seen> {
    let is_alone = scene.death == Death::Restarted;
    // Who comes first leads.
    let mut others = Vec::new();
    let mut dying = None;
    if scene.death == Death::LeaderKilled || is_alone {
        dying = Some(Node::start(url, LONG).await?);
    }
    for _ in 0..if is_alone { 0 } else { 2 } {
        others.push(Node::start(url, SHORT).await?);
    }
    let mut dying = match dying {
        Some(dying) => dying,
        None => Node::start(url, LONG).await?,
    };
    let ears = Ears::open().await?;
    dying.work().await?;
    let mut runs = Vec::new();
    // Not there while it dies: a file of SQLite that others have open tells no death.
    let stage = Stage::at(url).await?;
    for number in 0..scene.runs {
        let started = stage.start(&ears, number, 1).await?;
        runs.push((number, started.id().clone()));
    }
    drop(stage);
    let mut told = begun(&ears, scene.runs).await?;
    for other in &mut others {
        other.work().await?;
    }

    let from = Instant::now();
    let mut next = None;
    match scene.death {
        Death::Stopped => dying.ask_to_stop().await?,
        Death::Killed | Death::LeaderKilled => dying.kill().await?,
        Death::Restarted => {
            dying.kill().await?;
            let mut again = Node::start(url, SHORT).await?;
            again.work().await?;
            next = Some(again);
        }
    }
    let times = gone_on(&ears, (scene.runs, &mut told), from).await;
    let stage = Stage::at(url).await?;
    let runs = runs.into_iter();
    let runs: Vec<_> = runs.map(|(number, id)| (number, stage.run(id))).collect();
    let ends = ends(&runs, PATIENCE).await?;
    drop((others, next));
    // What began once more than that was told by now.
    while let Some(step) = ears.next(Duration::ZERO).await {
        *told.entry(step.number).or_default() += 1;
    }
    let seconds = |time: Option<&Duration>| time.map_or(f64::INFINITY, Duration::as_secs_f64);
    let is_whole = times.len() == usize::from(scene.runs);
    Ok(Seen {
        first: seconds(times.values().min()),
        last: seconds(times.values().max().filter(|_| is_whole)),
        right: ends.right,
        duplicates: ends.duplicates,
        again: told.values().map(|count| count.saturating_sub(2)).sum(),
    })
}

/// How often a step of each run has begun, once all have.
async fn begun(ears: &Ears, runs: u16) -> Result<HashMap<u16, usize>> {
    let mut told = HashMap::new();
    while told.len() < usize::from(runs) {
        let step = ears.next(PATIENCE).await.ok_or("the runs do not begin")?;
        *told.entry(step.number).or_default() += 1;
    }
    Ok(told)
}

/// How long after `from` each of so many runs has gone on, of those that do.
async fn gone_on(
    ears: &Ears,
    (runs, told): (u16, &mut HashMap<u16, usize>),
    from: Instant,
) -> HashMap<u16, Duration> {
    let mut times = HashMap::new();
    while times.len() < usize::from(runs) {
        let Some(step) = ears.next(PATIENCE).await else {
            break;
        };
        *told.entry(step.number).or_default() += 1;
        times
            .entry(step.number)
            .or_insert_with(|| step.at.duration_since(from));
    }
    times
}

//! B10: how many of the runs end as they should while something breaks.

use std::time::Duration;

use coord_bench_measure::Result;
use coord_bench_measure::table::{Table, Target};
use coord_engine::client::Handle;

use crate::compare::{OURS, figures, table};
use crate::nodes::{Ears, Node, Stage, ends};
use crate::server::Server;

const RUNS: u16 = 200;
const STEPS: u16 = 3;
const NODES: usize = 3;
/// How long a step lasts.
const STEP: Duration = Duration::from_millis(20);
const BETWEEN_STARTS: Duration = Duration::from_millis(40);
/// After the last start: a killed node's work goes on within half of it.
const PATIENCE: Duration = Duration::from_mins(1);

/// What breaks.
#[derive(Clone, Copy)]
enum Fault {
    /// The server lets nobody in for three seconds, and ends those who are.
    Restart,
    /// All sessions are ended, each second.
    Sessions,
    /// All sessions are ended, and others take every connection that the server has for three seconds.
    Exhaustion,
    /// A node is killed, and another one started.
    Crash,
    /// The same every other second.
    Crashes,
}

/// With the share of runs that awa publishes for it.
const FAULTS: [(&str, Fault, f64); 5] = [
    ("the server goes and comes back", Fault::Restart, 100.0),
    ("sessions are ended", Fault::Sessions, 100.0),
    ("no connection is left", Fault::Exhaustion, 100.0),
    ("a node is killed", Fault::Crash, 98.0),
    ("nodes are killed again and again", Fault::Crashes, 99.0),
];

pub(crate) async fn chaos(server: &Server) -> Result<Table> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for (what, fault, published) in FAULTS {
        let url = server.create(OURS).await?;
        let seen = suffer(server, &url, fault).await;
        server.drop(OURS).await?;
        let (right, duplicates, again) = seen?;
        let share = right as f64 * 100.0 / f64::from(RUNS);
        let theirs = ("awa, as published", [published]);
        let row = figures(
            &format!("{what}: runs that end right"),
            "%",
            [share],
            theirs,
        );
        rows.push(row.aim(Target::RatioAtLeast(100.0 / published)));
        let row = figures(
            &format!("{what}: duplicates of state"),
            "rows",
            [duplicates as f64],
            ("none", [0.0]),
        );
        rows.push(row.aim(Target::OursAtMost(0.0)));
        notes.push(format!("{what}: {again} steps began more than once"));
    }
    table("Runs while something breaks", rows, notes)
}

/// How many runs ended right, what is twice in their histories, and the steps that began again.
async fn suffer(server: &Server, url: &str, fault: Fault) -> Result<(usize, usize, usize)> {
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(working(url).await?);
    }
    let (stage, ears) = (Stage::at(url).await?, Ears::open().await?);
    let hurting = hurt(server, url, fault, &mut nodes);
    let (runs, ()) = tokio::try_join!(start_all(&stage, &ears), hurting)?;
    let ends = ends(&runs, PATIENCE).await?;
    let mut begun = 0_usize;
    while ears.next(Duration::ZERO).await.is_some() {
        begun += 1;
    }
    let again = begun.saturating_sub(usize::from(RUNS) * usize::from(STEPS));
    Ok((ends.right, ends.duplicates, again))
}

async fn start_all(stage: &Stage, ears: &Ears) -> Result<Vec<(u16, Handle<u16>)>> {
    let mut runs = Vec::new();
    for number in 0..RUNS {
        runs.push((number, stage.start(ears, number, STEPS).await?));
        tokio::time::sleep(BETWEEN_STARTS).await;
    }
    Ok(runs)
}

async fn working(url: &str) -> Result<Node> {
    let mut node = Node::start(url, STEP).await?;
    node.work().await?;
    Ok(node)
}

async fn hurt(server: &Server, url: &str, fault: Fault, nodes: &mut Vec<Node>) -> Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    tokio::time::sleep(SECOND).await;
    match fault {
        Fault::Restart => {
            server.close(OURS).await?;
            tokio::time::sleep(3 * SECOND).await;
            server.open(OURS).await?;
        }
        Fault::Sessions => {
            for _ in 0..5 {
                server.end_sessions(OURS).await?;
                tokio::time::sleep(SECOND).await;
            }
        }
        Fault::Exhaustion => {
            let _taken = server.take_all_connections(OURS).await?;
            tokio::time::sleep(3 * SECOND).await;
        }
        Fault::Crash => {
            nodes.remove(0).kill().await?;
            nodes.push(working(url).await?);
        }
        Fault::Crashes => {
            for _ in 0..4 {
                nodes.remove(0).kill().await?;
                nodes.push(working(url).await?);
                tokio::time::sleep(2 * SECOND).await;
            }
        }
    }
    Ok(())
}

//! B2, from a queue: no-ops that wait when their worker comes.

use coord_bench_measure::Result;
use coord_bench_measure::peer::Task;
use coord_bench_measure::table::{Table, Target};

use crate::compare::{ROUNDS, Sample, Sides, compare, table};
use crate::server::Server;

const WAITING: u64 = 10_000;

pub(crate) async fn drain(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["awa"], 0).await?;
    let mut rows = Vec::new();
    for tasks in [32, 256] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let driven = sides.ours.drain(WAITING, tasks).await?;
            let peers = sides.peers.iter_mut().filter(|peer| peer.trouble.is_none());
            for peer in peers {
                let task = Task {
                    work: "drain".to_owned(),
                    in_flight: tasks,
                    ms: 0,
                    jobs: WAITING,
                };
                match peer.run(&task).await {
                    // The first round is a warm-up.
                    Ok(driven) if round > 0 => theirs.push(Sample { driven, cost: None }),
                    Ok(_) => {}
                    Err(why) => peer.trouble = Some(format!("{tasks} in flight: {why}")),
                }
            }
            if round > 0 {
                ours.push(Sample { driven, cost: None });
            }
        }
        for peer in sides.peers.iter().filter(|_| !theirs.is_empty()) {
            let work = format!("{WAITING} no-ops that wait, {tasks} in flight");
            let row = compare(&work, "workflows/s", &ours, peer.name, &theirs);
            rows.push(match tasks {
                256 => row.aim(Target::RatioAtLeast(1.0)),
                _ => row,
            });
        }
    }
    let notes = sides.end().await?;
    table("Working off what waits, beside a queue of jobs", rows, notes)
}

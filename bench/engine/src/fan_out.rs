//! B4: a workflow that has a hundred activities made at once, and waits for all of them.

use coord_bench_measure::Result;
use coord_bench_measure::table::{Table, Target};

use crate::compare::{Sides, compare, measured, table};
use crate::ours::Work;
use crate::server::Server;

pub(crate) async fn fan_out(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["dbos", "duroxide"], 0).await?;
    let mut rows = Vec::new();
    for tasks in [1, 8] {
        let (ours, theirs) = sides.rounds(&[Work::FanOut], tasks).await?;
        for (peer, theirs) in measured(&sides.peers, &theirs) {
            let work = format!("100 at once, {tasks} in flight");
            let row = compare(&work, "workflows/s", &ours[0], peer.name, theirs);
            rows.push(row.aim(Target::RatioAtLeast(3.0)));
        }
    }
    let notes = sides.end().await?;
    table("A hundred activities at once, and a join", rows, notes)
}

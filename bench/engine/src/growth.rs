//! B11: no-ops beside histories of closed runs, of which there are more and more.

use coord_bench_measure::Result;
use coord_bench_measure::table::{Table, Target};
use coord_engine::store::Postgres;

use crate::compare::{ROUNDS, Sample, compare, table, time_of};
use crate::ours::{Ours, Work};
use crate::server::Server;

/// Rows of history; a closed run has two.
const SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
const TASKS: usize = 32;

/// Closed runs as the engine leaves them. The plans that its sessions have made by then are those
/// of the empty tables.
const FILL: [&str; 4] = [
    "INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, created_at)
     SELECT 'default', 'old-' || n, 'old' || lpad(n::text, 20, '0'), 1700000000000000 + n
     FROM generate_series(1, $1::int8 / 2) n",
    "INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type, queue,
        priority, status, closed_reason, history_length, started_at, updated_at, closed_at,
        output_codec, output)
     SELECT 'old' || lpad(n::text, 20, '0'), 'default', 'old-' || n, 1, 'bench.noop', 'default', 5,
        'completed', 'completed', 2, 1700000000000000 + n, 1700000000000000 + n,
        1700000000000000 + n, 'json', '1'
     FROM generate_series(1, $1::int8 / 2) n",
    "INSERT INTO workflow_history (run_id, seq, type, at, details, codec, payload)
     SELECT 'old' || lpad(n::text, 20, '0'), seq, CASE seq WHEN 1 THEN 'Started' ELSE 'Completed' END,
        1700000000000000 + n, repeat('x', 120), 'json', '1'
     FROM generate_series(1, $1::int8 / 2) n CROSS JOIN generate_series(1, 2) seq",
    "VACUUM ANALYZE",
];

pub(crate) async fn growth(server: &Server) -> Result<Table> {
    let mut sides = Vec::new();
    for size in SIZES {
        let url = server.create(&database(size)).await?;
        let ours = Ours::start(Postgres::connect(&url)?).await?;
        ours.drive(Work::Noop, TASKS, time_of(0)).await?;
        server.fill(&database(size), &FILL, i64::from(size)).await?;
        sides.push(ours);
    }
    let mut samples: Vec<Vec<Sample>> = SIZES.iter().map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        for (ours, samples) in sides.iter().zip(&mut samples) {
            let driven = ours.drive(Work::Noop, TASKS, time_of(round)).await?;
            // The first round is a warm-up.
            if round > 0 {
                samples.push(Sample { driven, cost: None });
            }
        }
    }
    drop(sides);
    for size in SIZES {
        server.drop(&database(size)).await?;
    }
    let rows = SIZES.iter().zip(&samples).skip(1).map(|(size, larger)| {
        let work = format!("no-op, {TASKS} in flight, beside {size} rows of history");
        let row = compare(&work, "workflows/s", larger, "10000 rows", &samples[0]);
        row.aim(Target::RatioAtLeast(1.0 / 1.2))
    });
    table(
        "No-ops beside the history of closed runs",
        rows.collect(),
        Vec::new(),
    )
}

fn database(size: u32) -> String {
    format!("coord_bench_growth_{size}")
}

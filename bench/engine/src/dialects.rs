//! Ours on each of its databases.

use coord_bench_measure::Result;
use coord_bench_measure::table::{Row, Table};
use coord_engine::store::{Mysql, Postgres, Sqlite};

use crate::compare::{OURS, ROUNDS, Sample, compare, table, time_of};
use crate::mysql::MySql;
use crate::ours::{Ours, Work};
use crate::server::Server;

const WORKS: [(Work, &str, usize); 7] = [
    (Work::Steps, "10 steps, 1 in flight", 1),
    (Work::Steps, "10 steps, 8 in flight", 8),
    (Work::Steps, "10 steps, 32 in flight", 32),
    (Work::Steps, "10 steps, 256 in flight", 256),
    (Work::Activities, "10 activities, 32 in flight", 32),
    (Work::Noop, "no-op, 32 in flight", 32),
    (Work::Start, "start, 32 at a time", 32),
];

/// What the others do, beside PostgreSQL.
pub(crate) async fn dialects(server: &Server, mysql: &MySql) -> Result<Table> {
    let folder = tempfile::tempdir()?;
    let postgres = Ours::start(Postgres::connect(&server.create(OURS).await?)?).await?;
    let sqlite = Ours::start(Sqlite::file(folder.path().join("bench.db"))).await?;
    let mut sides = vec![("PostgreSQL", postgres), ("SQLite", sqlite)];
    let mut notes =
        vec!["SQLite: a file in the folder for temporary files, synchronous=FULL".to_owned()];
    match mysql.create(OURS).await {
        Ok(url) => {
            notes.push(format!("MySQL: {}", mysql.identity().await?));
            sides.push(("MySQL", Ours::start(Mysql::connect(&url)?).await?));
        }
        Err(why) => notes.push(format!("without MySQL: {why}")),
    }
    let mut rows: Vec<Row> = Vec::new();
    for (work, name, tasks) in WORKS {
        let mut samples: Vec<Vec<Sample>> = sides.iter().map(|_| Vec::new()).collect();
        for round in 0..=ROUNDS {
            for ((_, ours), samples) in sides.iter().zip(&mut samples) {
                let driven = ours.drive(work, tasks, time_of(round)).await?;
                // The first round is a warm-up.
                if round > 0 {
                    samples.push(Sample { driven, cost: None });
                }
            }
        }
        for ((side, _), theirs) in sides.iter().zip(&samples).skip(1) {
            let work = format!("{name}, on {side}");
            rows.push(compare(
                &work,
                "a second",
                theirs,
                "on PostgreSQL",
                &samples[0],
            ));
        }
    }
    drop(sides);
    server.drop(OURS).await?;
    _ = mysql.drop(OURS).await;
    table(
        "Ours on SQLite and MySQL, beside ours on PostgreSQL",
        rows,
        notes,
    )
}

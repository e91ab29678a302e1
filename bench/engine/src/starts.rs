//! B1: starts, one by one, a hundred in a transaction, and within transactions of the caller.

use std::sync::Arc;

use coord_bench_measure::Result;
use coord_bench_measure::round::{Driven, drive};
use coord_bench_measure::table::{Row, Table, Target};
use coord_engine::client::Client;
use coord_engine::model::{Ids, Queue};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::compare::{OURS, ROUNDS, Sample, Sides, compare, measured, table, time_of};
use crate::ours::{NOOP, Work};
use crate::server::Server;

/// How many go together.
const BATCH: usize = 100;

/// What a service of its own writes beside a start.
const CALLERS: &str = "CREATE TABLE orders (order_id TEXT PRIMARY KEY)";

pub(crate) async fn start(server: &Server) -> Result<Table> {
    let mut sides = Sides::start(server, &["dbos", "duroxide"], 0).await?;
    let mut rows = Vec::new();
    for tasks in [1, 32] {
        let (ours, theirs) = sides.rounds(&[Work::Start], tasks).await?;
        for (peer, theirs) in measured(&sides.peers, &theirs) {
            let work = format!("start, {tasks} at a time");
            let row = compare(&work, "starts/s", &ours[0], peer.name, theirs);
            rows.push(match (peer.name, tasks) {
                ("dbos", 32) => row.aim(Target::RatioAtLeast(2.0)),
                ("duroxide", 32) => row.aim(Target::RatioAtLeast(1.0)),
                _ => row,
            });
        }
    }
    rows.extend(together(server, &sides).await?);
    let notes = sides.end().await?;
    table(
        "Starts, durable, of workflows that nobody runs",
        rows,
        notes,
    )
}

/// Ours in batches, and in transactions of the caller, beside ours one by one.
async fn together(server: &Server, sides: &Sides<'_>) -> Result<Vec<Row>> {
    let pool = PgPoolOptions::new().max_connections(32);
    let pool = pool.connect(&server.url_of(OURS)).await?;
    sqlx::query(CALLERS).execute(&pool).await?;
    let mut rows = Vec::new();
    for tasks in [1, 32] {
        let (mut single, mut batches, mut within) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let time = time_of(round);
            let (client, ids) = (sides.ours.client(), sides.ours.ids());
            let one = sides.ours.drive(Work::Start, tasks, time).await?;
            let driven = drive(tasks, time, move |_| {
                batch(client.clone(), Arc::clone(&ids))
            });
            let mut batch = driven.await?;
            batch.ops *= BATCH as u64;
            let (client, ids, pool) = (sides.ours.client(), sides.ours.ids(), pool.clone());
            let held = drive(tasks, time, move |_| {
                in_transaction(client.clone(), Arc::clone(&ids), pool.clone())
            });
            let held = held.await?;
            // The first round is a warm-up.
            if round > 0 {
                let sample = |driven: Driven| Sample { driven, cost: None };
                single.push(sample(one));
                batches.push(sample(batch));
                within.push(sample(held));
            }
        }
        let work = format!("start, {BATCH} in a batch, {tasks} at a time");
        let row = compare(&work, "starts/s", &batches, "ours one by one", &single);
        rows.push(row.aim(Target::RatioAtLeast(5.0)));
        let work = format!("start, in the caller's transaction, {tasks} at a time");
        rows.push(compare(
            &work,
            "starts/s",
            &within,
            "ours one by one",
            &single,
        ));
    }
    pool.close().await;
    Ok(rows)
}

async fn batch(client: Client, ids: Arc<Ids>) -> Result<()> {
    let nobody = Queue::new("nobody")?;
    let calls = (0..BATCH).map(|_| {
        let call = client.start(NOOP, ids.workflow(), &1);
        call.queue(nobody.clone())
    });
    for started in client.start_batch(calls).await? {
        started?;
    }
    Ok(())
}

async fn in_transaction(client: Client, ids: Arc<Ids>, pool: PgPool) -> Result<()> {
    let id = ids.workflow();
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO orders (order_id) VALUES ($1)")
        .bind(id.as_str())
        .execute(&mut *transaction)
        .await?;
    let call = client.start(NOOP, id, &1).queue(Queue::new("nobody")?);
    let started = call.in_transaction(&mut transaction).await?;
    transaction.commit().await?;
    started.committed();
    Ok(())
}

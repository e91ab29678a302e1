//! The limit program: the rows of ten-step workflows, committed in groups, with nothing around it.
//!
//! A workflow is twelve operations: it is started, leased; ten times an event is added under its
//! lease; it is closed. Operations of all callers gather while others are with the database and go
//! together, in one statement, over two connections. There is no code to run, no history to follow,
//! nothing to encode and nothing that can go wrong: no engine on these tables can be faster this way.

use coord_bench_measure::Result;
use coord_bench_measure::peer::{Task, serve};
use coord_bench_measure::round::{Driven, drive};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Executor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Semaphore, mpsc, oneshot};

const SCHEMA: &str = include_str!("../../../engine/migrations/postgres/0001_engine.sql");
const BATCH: usize = 128;
const MANY: usize = 32;
const DEPTH: u32 = 2;

/// Each part does its own sort of operation: of `$3`, 0 starts, 1 to 10 add an event, 11 closes.
const APPLY: &str = "
    WITH w AS MATERIALIZED (
        SELECT *, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
        FROM unnest($1::text[], $2::text[], $3::int8[]) AS w (run_id, workflow_id, operation)),
     held AS MATERIALIZED (
        SELECT task_id, run_id FROM workflow_tasks
        WHERE task_id IN (SELECT run_id || ':0' FROM w WHERE operation > 0)
            AND lease_owner = 'limit' AND lease_epoch = 1 AND status = 'leased'
        ORDER BY task_id FOR UPDATE),
     instances AS (
        INSERT INTO workflow_instances SELECT 'default', workflow_id, run_id, now
        FROM w WHERE operation = 0),
     runs AS (
        INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type,
            queue, priority, status, history_length, started_at, updated_at)
        SELECT run_id, 'default', workflow_id, 1, 'bench.steps', 'default', 5, 'pending', 1, now,
            now FROM w WHERE operation = 0),
     tasks AS (
        INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
            available_at, workflow_id, run_id, step_seq, name, attempt_count, lease_owner,
            lease_epoch, leased_at, lease_expires_at, created_at, started_at, heartbeat_at)
        SELECT run_id || ':0', 'workflow', 'default', 'default', 5, 'leased', now, workflow_id,
            run_id, 0, 'bench.steps', 1, 'limit', 1, now, now + 60000000, now, now, now
        FROM w WHERE operation = 0),
     history AS (
        INSERT INTO workflow_history (run_id, seq, type, step_seq, at, details, codec, payload)
        SELECT w.run_id, operation + 1, 'StepCompleted', operation, now, '{\"name\":\"step\"}',
            'json', convert_to(repeat('x', 102), 'UTF8')
        FROM w WHERE operation = 0 OR w.run_id IN (SELECT run_id FROM held)),
     closed AS (
        UPDATE workflow_runs r SET status = 'completed', closed_reason = 'completed',
            closed_at = now, updated_at = now, history_length = 12, output_codec = 'json',
            output = '1000'
        FROM w WHERE r.run_id = w.run_id AND operation = 11),
     gone AS (
        DELETE FROM workflow_tasks t USING w
        WHERE t.task_id = w.run_id || ':0' AND operation = 11)
    SELECT count(*) FROM held";

struct Operation {
    run: Arc<str>,
    number: i64,
    done: oneshot::Sender<()>,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("no url")?;
    let mut connection = PgConnection::connect(&url).await?;
    connection.execute(SCHEMA).await?;
    connection.close().await?;
    let pool = PgPoolOptions::new()
        .max_connections(DEPTH)
        .test_before_acquire(false)
        .after_connect(|connection, _| {
            Box::pin(async move {
                let set = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                           SET jit = off";
                connection.execute(set).await.map(drop)
            })
        })
        .connect(&url)
        .await?;
    let (operations, waiting) = mpsc::channel(4096);
    tokio::spawn(gather(pool, waiting));
    let next = Arc::new(AtomicU64::new(0));
    serve(async |task: Task| -> Result<Driven> {
        if task.work != "steps" {
            return Err(format!("it has no {}", task.work).into());
        }
        let (operations, next) = (operations.clone(), Arc::clone(&next));
        drive(task.in_flight, task.time(), move |_| {
            let (operations, next) = (operations.clone(), Arc::clone(&next));
            async move {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let run: Arc<str> = format!("limit-program-run-{number:010}").into();
                for number in 0..12 {
                    let (done, is_done) = oneshot::channel();
                    let run = Arc::clone(&run);
                    let operation = Operation { run, number, done };
                    operations.send(operation).await.map_err(|_| "it ended")?;
                    is_done.await?;
                }
                Ok(())
            }
        })
        .await
    })
    .await
}

async fn gather(pool: PgPool, mut waiting: mpsc::Receiver<Operation>) {
    let depth = Arc::new(Semaphore::new(DEPTH as usize));
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        for _ in 0..2 {
            tokio::task::yield_now().await;
            while batch.len() < BATCH {
                let Ok(operation) = waiting.try_recv() else {
                    break;
                };
                batch.push(operation);
            }
        }
        let share = if batch.len() < MANY { DEPTH } else { 1 };
        let permits = Arc::clone(&depth).acquire_many_owned(share).await;
        let permits = permits.expect("nobody closes it");
        while batch.len() < BATCH {
            let Ok(operation) = waiting.try_recv() else {
                break;
            };
            batch.push(operation);
        }
        let (operations, pool, kept) =
            (std::mem::take(&mut batch), pool.clone(), Arc::clone(&kept));
        tokio::spawn(async move {
            let _permits = permits;
            let idle = kept.lock().expect("no panic holds it").pop();
            let mut connection = match idle {
                Some(connection) => connection,
                None => pool.acquire().await.expect("a connection"),
            };
            let runs: Vec<_> = operations.iter().map(|one| &*one.run).collect();
            let numbers: Vec<_> = operations.iter().map(|one| one.number).collect();
            let applied = sqlx::query(APPLY)
                .bind(&runs)
                .bind(&runs)
                .bind(numbers)
                .fetch_one(&mut *connection)
                .await;
            applied.expect("a statement that succeeds");
            kept.lock().expect("no panic holds it").push(connection);
            for operation in operations {
                _ = operation.done.send(());
            }
        });
    }
}

//! One round of one side: many tasks that do the same until the time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::machine;
use crate::server::Server;
use crate::statistics::quantile;
use crate::{Result, npm::Driven, table::Cost};

/// What one side did in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) cost: Cost,
}

/// Has `tasks` tasks, numbered from 0, repeat `work` for `time`.
pub(crate) async fn drive<W, F>(tasks: usize, time: Duration, work: W) -> Result<Driven>
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let work = Arc::new(work);
    let mut running = JoinSet::new();
    let cpu = machine::cpu(None);
    let start = Instant::now();
    for task in 0..tasks {
        let work = Arc::clone(&work);
        running.spawn(async move {
            let mut times = Vec::new();
            loop {
                let from = Instant::now();
                if from.duration_since(start) >= time {
                    return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(times);
                }
                work(task).await?;
                times.push(from.elapsed().as_secs_f64() * 1e6);
            }
        });
    }
    let mut times = Vec::new();
    while let Some(task) = running.join_next().await {
        times.extend(task??);
    }
    let elapsed = start.elapsed();
    let cpu = machine::cpu(None).saturating_sub(cpu);
    Ok(Driven {
        ops: times.len() as u64,
        elapsed_ms: elapsed.as_secs_f64() * 1000.0,
        p50_us: quantile(&mut times, 0.5),
        cpu_us: cpu.as_secs_f64() * 1e6,
    })
}

/// Runs one round, and looks at what it cost the server. `commands` are those that the side sends.
pub(crate) async fn measure(
    server: &Server,
    commands: &[&str],
    round: impl Future<Output = Result<Driven>>,
) -> Result<Sample> {
    let before = server.usage().await?;
    let driven = round.await?;
    let used = server.usage().await?.since(&before);
    let each = |total: f64| Some(total / driven.ops.max(1) as f64);
    Ok(Sample {
        per_second: driven.ops as f64 / driven.elapsed_ms * 1000.0,
        p50_us: driven.p50_us,
        cost: Cost {
            round_trips: each(used.calls(commands) as f64),
            server_us: each(used.cpu_us()),
            executing_us: each(used.executing_us(commands)),
            client_us: each(driven.cpu_us),
        },
    })
}

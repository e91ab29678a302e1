//! One round of one side: many tasks that do the same until the time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::statistics::quantile;
use crate::{Result, machine};

/// How long calls that are under way at the end of a round are waited for: those of the slowest peer
/// at the largest number take half a minute on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// What one round of repeated work came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Driven {
    /// How often it was done.
    pub ops: u64,
    /// In which time.
    pub elapsed_ms: f64,
    /// The median time of one.
    pub p50_us: f64,
    /// The client's CPU.
    pub cpu_us: f64,
}

impl Driven {
    /// Ops a second.
    pub fn per_second(&self) -> f64 {
        self.ops as f64 / self.elapsed_ms * 1000.0
    }
}

/// Has `tasks` tasks, numbered from 0, repeat `work` for `time`.
pub async fn drive<W, F>(tasks: usize, time: Duration, work: W) -> Result<Driven>
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    drive_within(tasks, time, PATIENCE, work).await
}

/// The same; calls that are not over `patience` after the round are given up, and said to be.
pub async fn drive_within<W, F>(
    tasks: usize,
    time: Duration,
    patience: Duration,
    work: W,
) -> Result<Driven>
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
            let repeating = async {
                loop {
                    let from = Instant::now();
                    if from.duration_since(start) >= time {
                        return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(());
                    }
                    work(task).await?;
                    times.push(from.elapsed().as_secs_f64() * 1e6);
                }
            };
            let ended = timeout_at((start + time + patience).into(), repeating).await;
            let in_time = ended.is_ok();
            ended.unwrap_or(Ok(())).map(|()| (times, in_time))
        });
    }
    let (mut times, mut given_up) = (Vec::new(), 0);
    while let Some(task) = running.join_next().await {
        let (theirs, in_time) = task??;
        times.extend(theirs);
        given_up += usize::from(!in_time);
    }
    let elapsed = start.elapsed();
    let cpu = machine::cpu(None).saturating_sub(cpu);
    if given_up > 0 {
        eprintln!(
            "bench: {given_up} of {tasks} calls were not over {patience:?} after their round, and given up"
        );
    }
    if times.is_empty() {
        return Err("no call of a round was over in time".into());
    }
    Ok(Driven {
        ops: times.len() as u64,
        elapsed_ms: elapsed.as_secs_f64() * 1000.0,
        p50_us: quantile(&mut times, 0.5),
        cpu_us: cpu.as_secs_f64() * 1e6,
    })
}

/// Times `work`, which does `ops` things.
pub async fn at_once(ops: u64, work: impl Future<Output = Result<()>>) -> Result<Driven> {
    let (cpu, start) = (machine::cpu(None), Instant::now());
    work.await?;
    let elapsed = start.elapsed();
    let cpu = machine::cpu(None).saturating_sub(cpu);
    Ok(Driven {
        ops,
        elapsed_ms: elapsed.as_secs_f64() * 1000.0,
        p50_us: elapsed.as_secs_f64() * 1e6 / ops as f64,
        cpu_us: cpu.as_secs_f64() * 1e6,
    })
}

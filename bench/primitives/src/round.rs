//! One round of one side, and what it cost the server.

use std::time::Duration;

pub(crate) use coord_bench_measure::round::Driven;
use coord_bench_measure::round::drive_within;

use crate::server::Server;
use crate::{Result, table::Cost};

/// How long calls that are under way at the end of a round are waited for. On a busy machine a peer
/// may lose sight of a lock that it has, and would wait until the TTL is over.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has `tasks` tasks, numbered from 0, repeat `work` for `time`.
pub(crate) async fn drive<W, F>(tasks: usize, time: Duration, work: W) -> Result<Driven>
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    drive_within(tasks, time, PATIENCE, work).await
}

/// What one side did in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) cost: Cost,
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

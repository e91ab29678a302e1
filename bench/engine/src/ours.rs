//! Our side: an engine, a client and a worker in one process, as a service has them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coord_bench_measure::Result;
use coord_bench_measure::round::{Driven, at_once, drive};
use coord_bench_measure::statistics::quantile;
use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::{Activity, Context, Workflow, join_all};
use coord_engine::model::{Failure, Ids, Namespace, Queue, RunStatus};
use coord_engine::store::{Filter, Store};
use coord_engine::worker::{Attempt, Worker};
use tokio::sync::Semaphore;

/// The work that benchmarks name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A workflow that returns its input.
    Noop,
    /// Ten local steps that return 100 bytes each.
    Steps,
    /// The same as activities.
    Activities,
    /// A hundred of these activities at once.
    FanOut,
    /// A start, durable, in a queue that nobody serves.
    Start,
}

impl Work {
    /// As peers know it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Steps | Self::Activities => "steps",
            Self::FanOut => "fan-out",
            Self::Start => "start",
        }
    }
}

pub(crate) const NOOP: Workflow<u64, u64> = Workflow::new("bench.noop");
const STEPS: Workflow<u64, usize> = Workflow::new("bench.steps");
const ACTIVITIES: Workflow<u64, usize> = Workflow::new("bench.activities");
const FAN_OUT: Workflow<u64, usize> = Workflow::new("bench.fan-out");
const BYTES: Activity<u64, String> = Activity::new("bench.bytes");
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A permit for each no-op that ran.
static WORKED_OFF: Semaphore = Semaphore::const_new(0);

/// The times between the steps of a workflow, in microseconds.
static GAPS: Mutex<Vec<f64>> = Mutex::new(Vec::new());

pub(crate) struct Ours {
    engine: Engine,
    client: Client,
    ids: Arc<Ids>,
    _worker: Worker,
}

impl Ours {
    pub(crate) async fn start(store: impl Store) -> Result<Self> {
        let engine = Engine::start(store).await?;
        let worker = engine
            .worker(Namespace::default(), Queue::default())
            .workflow(NOOP, async |_: Context, input| Ok(input))
            .workflow(STEPS, steps)
            .workflow(ACTIVITIES, activities)
            .workflow(FAN_OUT, fan_out)
            .activity(BYTES, async |_: Attempt, _: u64| Ok("x".repeat(100)))
            .activities(256)
            .start();
        Ok(Self {
            client: engine.client(Namespace::default(), Queue::default()),
            engine,
            ids: Arc::new(Ids::random()),
            _worker: worker,
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn ids(&self) -> Arc<Ids> {
        Arc::clone(&self.ids)
    }

    /// Has a worker with `turns` turns at once work off `jobs` no-ops that wait for it.
    pub(crate) async fn drain(&self, jobs: u64, turns: usize) -> Result<Driven> {
        const PORTION: u64 = 100;
        let queue = Queue::new("drain")?;
        for from in (0..jobs).step_by(PORTION as usize) {
            let calls = (from..jobs.min(from + PORTION)).map(|_| {
                let call = self.client.start(NOOP, self.ids.workflow(), &1);
                call.queue(queue.clone())
            });
            for started in self.client.start_batch(calls).await? {
                started?;
            }
        }
        let open = Filter {
            statuses: vec![RunStatus::Pending, RunStatus::Running],
            ..Filter::all(Namespace::default())
        };
        let worker = self.engine.worker(Namespace::default(), queue);
        at_once(jobs, async {
            let worker = worker.workflow(NOOP, async |_: Context, input| {
                WORKED_OFF.add_permits(1);
                Ok(input)
            });
            let _worker = worker.turns(u32::try_from(turns)?).start();
            // When the last one runs, few are open: only then is it asked for them.
            WORKED_OFF.acquire_many(u32::try_from(jobs)?).await?.forget();
            while self.client.count(&open).await? > 0 {}
            Ok(())
        })
        .await
    }

    /// Has `tasks` tasks do `work` for `time`.
    pub(crate) async fn drive(&self, work: Work, tasks: usize, time: Duration) -> Result<Driven> {
        let nobody = Queue::new("nobody")?;
        let (client, ids) = (self.client.clone(), Arc::clone(&self.ids));
        drive(tasks, time, move |_| {
            let (client, id, nobody) = (client.clone(), ids.workflow(), nobody.clone());
            async move {
                match work {
                    Work::Noop => ended(client.start(NOOP, id, &1).await?.handle).await,
                    Work::Steps => ended(client.start(STEPS, id, &1).await?.handle).await,
                    Work::Activities => ended(client.start(ACTIVITIES, id, &1).await?.handle).await,
                    Work::FanOut => ended(client.start(FAN_OUT, id, &1).await?.handle).await,
                    Work::Start => Ok(client.start(NOOP, id, &1).queue(nobody).await.map(drop)?),
                }
            }
        })
        .await
    }
}

async fn ended<O: serde::de::DeserializeOwned>(
    handle: coord_engine::client::Handle<O>,
) -> Result<()> {
    let result = handle.result(PATIENCE).await?;
    let result = result.ok_or("a workflow does not end")?;
    result
        .map(drop)
        .map_err(|failure| failure.to_string().into())
}

/// Median and 99th percentile of the times between steps since this was last asked.
pub(crate) fn gaps() -> (f64, f64) {
    let mut gaps = std::mem::take(&mut *GAPS.lock().expect("no panic holds it"));
    (quantile(&mut gaps, 0.5), quantile(&mut gaps, 0.99))
}

async fn steps(ctx: Context, _: u64) -> Result<usize, Failure> {
    let (mut bytes, mut gaps, mut last) = (0, Vec::with_capacity(10), None::<Instant>);
    for _ in 0..10 {
        let value: String = ctx
            .step("step", async || Ok::<_, Failure>("x".repeat(100)))
            .await?;
        bytes += value.len();
        let now = Instant::now();
        gaps.extend(last.map(|last| now.duration_since(last).as_secs_f64() * 1e6));
        last = Some(now);
    }
    GAPS.lock().expect("no panic holds it").extend(gaps);
    Ok(bytes)
}

async fn activities(ctx: Context, _: u64) -> Result<usize, Failure> {
    let mut bytes = 0;
    for step in 0..10 {
        bytes += ctx.activity(BYTES, &step).await?.len();
    }
    Ok(bytes)
}

async fn fan_out(ctx: Context, _: u64) -> Result<usize, Failure> {
    let calls = (0..100).map(|number| ctx.activity(BYTES, &number));
    let mut bytes = 0;
    for value in join_all(calls).await {
        bytes += value?.len();
    }
    Ok(bytes)
}

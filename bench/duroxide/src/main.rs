//! duroxide on its PostgreSQL provider, with as many dispatchers as measured best for it: 8 of each
//! kind (its default of 2 leaves the machine idle, and 32 were slower).

use std::sync::Arc;
use std::time::Duration;

use coord_bench_measure::Result;
use coord_bench_measure::peer::{Task, serve};
use coord_bench_measure::round::{Driven, drive};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_pg::PostgresProvider;

const DISPATCHERS: usize = 8;
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("no url")?;
    let store = Arc::new(PostgresProvider::new(&url).await?);
    let activities = ActivityRegistry::builder()
        .register("step", |_: ActivityContext, _: String| async move {
            Ok("x".repeat(100))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "noop",
            |_: OrchestrationContext, input: String| async move { Ok::<_, String>(input) },
        )
        .register("steps", |ctx: OrchestrationContext, _: String| async move {
            let mut bytes = 0;
            for _ in 0..10 {
                bytes += ctx.schedule_activity("step", "1").await?.len();
            }
            Ok::<_, String>(bytes.to_string())
        })
        .register(
            "fan-out",
            |ctx: OrchestrationContext, _: String| async move {
                let steps = (0..100).map(|_| ctx.schedule_activity("step", "1"));
                let mut bytes = 0;
                for value in ctx.join(steps.collect()).await {
                    bytes += value?.len();
                }
                Ok::<_, String>(bytes.to_string())
            },
        )
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: DISPATCHERS,
        worker_concurrency: DISPATCHERS,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Arc::new(Client::new(store));
    let served = serve(async |task: Task| -> Result<Driven> {
        let (name, is_waited_for) = match task.work.as_str() {
            "noop" => ("noop", true),
            "steps" => ("steps", true),
            "fan-out" => ("fan-out", true),
            // Of an orchestration that nobody here knows, so that only the start is measured.
            "start" => ("unknown", false),
            other => return Err(format!("it has no {other}").into()),
        };
        let client = Arc::clone(&client);
        drive(task.in_flight, task.time(), move |_| {
            let client = Arc::clone(&client);
            async move {
                let id = uuid::Uuid::new_v4().to_string();
                client.start_orchestration(&id, name, "1").await?;
                if is_waited_for {
                    client.wait_for_orchestration(&id, PATIENCE).await?;
                }
                Ok(())
            }
        })
        .await
    });
    served.await?;
    runtime.shutdown(None).await;
    Ok(())
}

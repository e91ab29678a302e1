//! A report for each tenant, every ten seconds here, however many instances run.
//!
//! Run several at once: each instant of each tenant is scanned by one of them, and each report is
//! handled by one. Kill one with `kill -9` in the middle: the others do its part. It ends with a
//! line on its input, or when that is closed.
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-fanout --example hourly_report
//! ```

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Env, Name, Result};
use coord_fanout::{
    Consumer, Delivery, Failure, FirstRun, Job, Message, QueueOptions, Schedule, StreamQueue,
    Ticker,
};
use coord_redis::Redis;
use tokio::sync::watch;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let queue = StreamQueue::new(&redis, Name::new("reports")?, QueueOptions::default());

    // In a service: `Schedule::cron("0 * * * *", "Europe/Berlin")`.
    let schedule = Schedule::every(Duration::from_secs(10))?;
    let job = Job::scan(
        Name::new("reports")?,
        schedule,
        |tick, records| async move {
            println!("scanning {}", tick.org);
            for report in ["sales", "stock"] {
                let id = Name::new(report)?;
                records.send(Message::new(id, report)).await?;
            }
            Ok(())
        },
    );
    let job = job.first_run(FirstRun::AtOnce);
    let tenants = || async { ["acme", "globex"].map(Name::new).into_iter().collect() };
    let ticker = Ticker::new(&redis, queue.clone(), vec![job], tenants)?;

    let (end, ended) = watch::channel(());
    let stop = || {
        let mut ended = ended.clone();
        async move { _ = ended.changed().await }
    };
    let (consumed, (), _) = tokio::join!(
        Consumer::new(queue).run(write, stop()),
        ticker.run(stop()),
        tokio::task::spawn_blocking(move || {
            let _end = end;
            std::io::stdin().read_line(&mut String::new())
        }),
    );
    consumed?;
    redis.shutdown(Duration::from_secs(5)).await
}

async fn write(delivery: Arc<Delivery>) -> std::result::Result<(), Failure> {
    println!(
        "wrote {}, attempt {}",
        delivery.message.id, delivery.attempt
    );
    Ok(())
}

//! A node that consumes one queue, as a process to kill, stop or shut down.
//!
//! Arguments: the URL of Redis, the key prefix, the name of the queue, the visibility and the time
//! that each message takes, both in milliseconds. It says `ready`, then `started <id> <attempt>`
//! and `handled <id> <attempt>` of each message, and `drained` after SIGTERM.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Name, Ttl};
use coord_fanout::{Consumer, Delivery, QueueOptions, StreamQueue};
use coord_redis::{Config, Redis};
use tokio::signal::unix::{SignalKind, signal};

/// How many messages it has in hand at once.
const CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Leaves what it emits for the observability contract.
    coord_tests::recorder::recorder();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, prefix, queue, visibility_ms, work_ms] = &arguments[..] else {
        return Err("url, prefix, queue, visibility and time of a message".into());
    };
    let work = Duration::from_millis(work_ms.parse()?);
    let redis = Redis::connect(Config::from_url(url)?.prefix(prefix)?).await?;
    let options = QueueOptions::default().visibility(Ttl::from_millis(visibility_ms.parse()?)?);
    let queue = StreamQueue::new(&redis, Name::new(queue)?, options);

    let mut terminate = signal(SignalKind::terminate())?;
    println!("ready");
    let handler = move |delivery: Arc<Delivery>| async move {
        let (id, attempt) = (delivery.message.id.as_str(), delivery.attempt);
        println!("started {id} {attempt}");
        tokio::time::sleep(work).await;
        println!("handled {id} {attempt}");
        Ok(())
    };
    Consumer::new(queue)
        .concurrency(CONCURRENCY.try_into()?)
        .report_every(Duration::from_millis(500))
        .run(handler, async move { _ = terminate.recv().await })
        .await?;
    println!("drained");
    redis.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

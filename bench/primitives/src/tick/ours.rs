//! The tick by coord-fanout: a ticker and a consumer a node, each node a client of its own.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coord_core::Name;
use coord_fanout::{
    Consumer, Delivery, FirstRun, Job, Message, Queue, QueueOptions, Records, Schedule,
    StreamQueue, Tick, Ticker,
};
use coord_redis::Redis;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::{ALL, CONCURRENCY, NODES, ORGS, RECORDS, Sample, WINDOW_MS};
use crate::Result;
use crate::server::Server;

/// Between two looks at the queue: far below what the whole takes.
const LOOK: Duration = Duration::from_millis(2);

struct Node {
    redis: Redis,
    queue: StreamQueue,
}

pub(super) async fn round(server: &Server, round: usize) -> Result<Sample> {
    let name = Name::new(format!("tick-{}-{round}", std::process::id()))?;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let redis = server.coord(true).await?;
        let options = QueueOptions::default().window(Duration::from_millis(WINDOW_MS))?;
        let queue = StreamQueue::new(&redis, name.clone(), options);
        nodes.push(Node { redis, queue });
    }
    let before = server.usage().await?;
    let enqueue = enqueue(server, &name, &nodes).await?;
    let used = server.usage().await?.since(&before);
    let round_trips = used.calls(&["evalsha", "eval"]) as f64 / ORGS as f64;
    let drain = drain(&nodes).await?;
    let used = server.usage().await?.since(&before);
    for node in &nodes {
        node.redis.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(Sample {
        enqueued: ALL as f64 / enqueue.as_secs_f64(),
        drained: ALL as f64 / drain.as_secs_f64(),
        round_trips,
        server_us: used.cpu_us() / ALL as f64,
    })
}

/// Lets the tickers run until all records are there.
async fn enqueue(server: &Server, name: &Name, nodes: &[Node]) -> Result<Duration> {
    let (stop, stopped) = watch::channel(false);
    let mut running = JoinSet::new();
    let start = Instant::now();
    for node in nodes {
        let job = Job::scan(
            name.clone(),
            Schedule::every(Duration::from_hours(1))?,
            scan,
        )
        .first_run(FirstRun::AtOnce);
        let orgs = || async {
            (0..ORGS)
                .map(|org| Name::new(format!("org-{org}")))
                .collect()
        };
        let queue = node.queue.clone();
        let ticker = Ticker::new(&node.redis, queue, vec![job], orgs)?;
        let mut stopped = stopped.clone();
        running.spawn(ticker.run(async move {
            // An error is the end as well.
            _ = stopped.wait_for(|stop| *stop).await;
        }));
    }
    let key = nodes[0].redis.keys().key("queue", &[name]);
    while server.stream_length(key.as_str()).await? < ALL as u64 {
        tokio::time::sleep(LOOK).await;
    }
    let elapsed = start.elapsed();
    stop.send_replace(true);
    while let Some(ended) = running.join_next().await {
        ended?;
    }
    Ok(elapsed)
}

async fn scan(tick: Tick, records: Records) -> coord_core::Result<()> {
    for record in 0..RECORDS {
        let id = Name::new(format!("{}-{record}", tick.org))?;
        records
            .send(Message::new(id, format!("record {record}")))
            .await?;
    }
    Ok(())
}

/// Lets the consumers run until all records are handled.
async fn drain(nodes: &[Node]) -> Result<Duration> {
    let handled = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(Notify::new());
    let (stop, stopped) = watch::channel(false);
    let mut running = JoinSet::new();
    let concurrency = NonZeroUsize::new(CONCURRENCY).ok_or("no concurrency")?;
    let start = Instant::now();
    for node in nodes {
        let consumer = Consumer::new(node.queue.clone()).concurrency(concurrency);
        let (handled, done) = (Arc::clone(&handled), Arc::clone(&done));
        let handler = move |_: Arc<Delivery>| {
            if handled.fetch_add(1, Ordering::Relaxed) + 1 == ALL {
                done.notify_one();
            }
            async { Ok(()) }
        };
        let mut stopped = stopped.clone();
        running.spawn(async move {
            let stopped = async move {
                _ = stopped.wait_for(|stop| *stop).await;
            };
            consumer.run(handler, stopped).await
        });
    }
    done.notified().await;
    let elapsed = start.elapsed();
    stop.send_replace(true);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let left = nodes[0].queue.depth().await?;
    if left.open() > 0 || handled.load(Ordering::Relaxed) != ALL {
        return Err(format!("not every record was handled once: {left:?}").into());
    }
    Ok(elapsed)
}

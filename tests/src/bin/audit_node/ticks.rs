//! What begins the audits: at each tick of a group, one workflow for each of its archives.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Backoff, Name, Result, Ttl};
use coord_engine::client::{Client, MAX_BATCH_STARTS, StartCall};
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, WorkflowId};
use coord_engine::worker::{Attempt, WorkerBuilder};
use coord_fanout::{
    Consumer, Delivery, FirstRun, Job, Message, QueueOptions, Schedule, StreamQueue, Ticker,
};
use coord_redis::Redis;

use crate::LIFE;
use crate::archives::{self, Archives, GROUPS};
use crate::audit::{AUDIT, Verdict};
use crate::said::{Event, Told, say};
use crate::shutdown::Shutdown;
use crate::verdicts::Verdicts;

/// Between two ticks of a group: short, so that a run shows how the second tick starts nothing.
const TICK_EVERY: Duration = Duration::from_secs(3);

/// Messages in a node's hands at once. They wait for their workflows, so many more than are worked
/// on cost nothing.
const CONCURRENCY: usize = 64;

/// How long a message waits for its workflow in one go: its node keeps it, so this bounds nothing
/// but a wait that hangs.
const WAIT: Duration = Duration::from_mins(1);

/// A group in; it scans, sleeps, and goes on as new: a tick without Redis.
const SCAN: Workflow<String, ()> = Workflow::new("crates.scan");
const START: Activity<String, ()> = Activity::new("crates.start");

/// The workflow of a record: the one that is there, or a new one.
fn start(client: &Client, record: &str) -> Result<StartCall<Verdict>> {
    let id = WorkflowId::new(record)?;
    Ok(client.start(AUDIT, id, &record.to_owned()).or_existing())
}

/// Ticks over Redis: each falls to one node, which enqueues one message a record.
pub(crate) fn ticker(redis: &Redis, archives: &Arc<Archives>) -> Result<Ticker<Told<StreamQueue>>> {
    let archives = Arc::clone(archives);
    let job = Job::scan(
        Name::new("crates.audit")?,
        Schedule::every(TICK_EVERY)?,
        move |tick, records| {
            let archives = Arc::clone(&archives);
            async move {
                let group = archives::group(tick.org.as_str())?;
                say(&Event::Ticked { group });
                for record in archives.of_group(group).await? {
                    let body = record.as_str().to_owned();
                    records.send(Message::new(record, body)).await?;
                }
                Ok(())
            }
        },
    )
    .first_run(FirstRun::AtOnce)
    .lease(Ttl::new(LIFE)?);
    let groups = || async { GROUPS.iter().map(Name::new).collect() };
    Ticker::new(redis, Told::new(queue(redis)?), vec![job], groups)
}

fn queue(redis: &Redis) -> Result<StreamQueue> {
    let options = QueueOptions::default().visibility(Ttl::new(LIFE)?);
    Ok(StreamQueue::new(redis, Name::new("archives")?, options))
}

/// Takes messages until the end: each is settled when the verdict of its record is in the database
/// and all nodes were told. One whose node dies is handed to another, which finds the workflow
/// there.
pub(crate) async fn consume(
    redis: &Redis,
    client: &Client,
    verdicts: &Verdicts,
    shutdown: &Shutdown,
) -> Result<()> {
    let (client, verdicts) = (client.clone(), verdicts.clone());
    let audit = move |delivery| audited(client.clone(), verdicts.clone(), delivery);
    Consumer::new(queue(redis)?)
        .concurrency(NonZeroUsize::new(CONCURRENCY).expect("it is not zero"))
        .retry(Backoff::new(Duration::from_millis(100), LIFE))
        .drain(LIFE * 2)
        .run(audit, shutdown.wait())
        .await
}

async fn audited(
    client: Client,
    verdicts: Verdicts,
    delivery: Arc<Delivery>,
) -> std::result::Result<(), coord_fanout::Failure> {
    let record =
        str::from_utf8(&delivery.message.body).map_err(coord_fanout::Failure::permanent)?;
    let started = start(&client, record)?.await?;
    if !started.was_created {
        say(&Event::Existing);
    }
    let verdict = match started.handle.result(WAIT).await? {
        Some(Ok(verdict)) => verdict,
        Some(Err(failure)) => Verdict::unreadable(&failure),
        None => return Err(coord_fanout::Failure::new(format!("{record} goes on"))),
    };
    Ok(verdicts.tell(record, verdict).await?)
}

/// Ticks without Redis: a workflow for each group, which the first node starts that comes.
pub(crate) async fn scan_alone(client: &Client) -> Result<()> {
    for group in GROUPS {
        let id = WorkflowId::new(format!("scan {group}"))?;
        client
            .start(SCAN, id, &(*group).to_owned())
            .or_existing()
            .await?;
    }
    Ok(())
}

/// A worker that also scans.
pub(crate) fn work(
    worker: WorkerBuilder,
    client: &Client,
    archives: &Arc<Archives>,
) -> WorkerBuilder {
    let (client, archives) = (client.clone(), Arc::clone(archives));
    let begin = move |_: Attempt, group| start_all(client.clone(), Arc::clone(&archives), group);
    worker.workflow(SCAN, scan).activity(START, begin)
}

async fn scan(ctx: Context, group: String) -> std::result::Result<(), Failure> {
    ctx.activity(START, &group).await?;
    ctx.sleep(TICK_EVERY).await?;
    Err(ctx.continue_as_new(&group))
}

async fn start_all(
    client: Client,
    archives: Arc<Archives>,
    group: String,
) -> std::result::Result<(), Failure> {
    let group = archives::group(&group)?;
    say(&Event::Ticked { group });
    let records = archives.of_group(group).await?;
    let (mut added, mut duplicates) = (0, 0);
    for records in records.chunks(MAX_BATCH_STARTS) {
        let starts = records.iter().map(|record| start(&client, record.as_str()));
        let starts: Vec<_> = starts.collect::<Result<_>>()?;
        for started in client.start_batch(starts).await? {
            if started?.was_created {
                added += 1;
            } else {
                duplicates += 1;
            }
        }
    }
    say(&Event::Scanned { added, duplicates });
    Ok(())
}

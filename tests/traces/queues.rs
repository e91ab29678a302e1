//! Traces through queues and ticks.

use std::sync::{Arc, Mutex};

use coord_fanout::{
    Consumer, FirstRun, Job, Message, Queue as _, QueueOptions, Records, Schedule, StreamQueue,
    Tick, Ticker,
};
use coord_redis::Redis;
use coord_tests::need;
use coord_tests::need::{shared_redis_url, unique};
use coord_tests::stage;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

async fn connect(url: &str) -> Redis {
    stage::connect(stage::config(url, &unique("traces"))).await
}

fn queue(redis: &Redis) -> StreamQueue {
    StreamQueue::new(redis, name("mails"), QueueOptions::default())
}

/// Handles the next `count` messages; the trace in which each was handled.
async fn handled(queue: &StreamQueue, count: usize) -> Vec<TraceContext> {
    let (traces, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (kept, all) = (Arc::clone(&traces), Arc::clone(&done));
    let handler = move |_| {
        let current = TraceContext::current().expect("in a trace");
        let mut traces = kept.lock().expect("no panic");
        traces.push(current);
        if traces.len() == count {
            all.notify_one();
        }
        async { Ok(()) }
    };
    let consuming = Consumer::new(queue.clone()).run(handler, async move { done.notified().await });
    let consumed = tokio::time::timeout(SOON, consuming).await;
    consumed.expect("soon").expect("the queue is there");
    let traces = traces.lock().expect("no panic");
    traces.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_the_trace_of_who_enqueued_it() {
    let url = need!(shared_redis_url().await);
    let traced = Traced::start(&[]).await;
    let redis = connect(&url).await;
    let queue = queue(&redis);

    let span = called();
    let message = [Message::new(name("a"), "a")];
    span.within(queue.enqueue(&message))
        .await
        .expect("enqueued");
    drop(span);
    let handled = handled(&queue, 1).await;
    let spans = traced.finish().await;

    let (caller, handling) = (one(&spans, "called"), one(&spans, "handle mails"));
    handling.is_under(CALLERS_TRACE, &caller.span);
    assert_eq!(handling.notes["messaging.message.id"], "a");
    assert_eq!(format!("{:016x}", handled[0].span_id()), handling.span);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_begins_a_trace_that_its_records_keep() {
    let url = need!(shared_redis_url().await);
    let traced = Traced::start(&[]).await;
    let redis = connect(&url).await;
    let queue = queue(&redis);
    let scan = |_: Tick, records: Records| async move {
        records.send(Message::new(name("1"), "1")).await?;
        records.send(Message::new(name("2"), "2")).await
    };
    let rarely = Schedule::every(Duration::from_hours(24)).expect("in range");
    let job = Job::scan(name("reminders"), rarely, scan).first_run(FirstRun::AtOnce);
    let listed = || std::future::ready(Ok(vec![name("acme")]));
    let ticker = Ticker::new(&redis, queue.clone(), vec![job], listed).expect("one job");
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let mut ticking = JoinSet::new();
    ticking.spawn(ticker.run(async move { stopped.notified().await }));

    handled(&queue, 2).await;
    stop.notify_one();
    let ended = ticking.join_next().await.expect("it ran");
    ended.expect("no panic");
    let spans = traced.finish().await;

    let tick = one(&spans, "tick reminders");
    tick.is_under(&tick.trace, "");
    assert_eq!(tick.notes["coord.org"], "acme");
    let handled = named(&spans, "handle mails");
    assert_eq!(handled.len(), 2);
    for handling in handled {
        handling.is_under(&tick.trace, &tick.span);
    }
}

//! What a tick does: scan, enqueue, and what becomes of it when that goes wrong.

use std::sync::atomic::{AtomicU32, Ordering};

use coord_core::{Error, Result};
use coord_fanout::{FirstRun, QueueOptions, Records, StreamQueue, Tick};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::recorder::{Event, recorder};

use super::*;

/// A job that scans at once, and then not for a long time.
fn scanning<S>(job: &str, scan: impl Fn(Tick, Records) -> S + Send + Sync + 'static) -> Job
where
    S: Future<Output = Result<()>> + Send + 'static,
{
    Job::scan(name(job), rarely(), scan).first_run(FirstRun::AtOnce)
}

fn record(id: usize) -> Message {
    Message::new(name(&format!("record-{id}")), format!("body-{id}"))
}

async fn event(key: &str, job: &str) -> Event {
    recorder().event(key, &[("job_type", job)], SOON).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_of_a_scan_is_a_message_under_its_own_id() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let job = scanning("records", |_, records| async move {
        for id in 0..1_000 {
            records.send(record(id)).await?;
        }
        Ok(())
    });

    nodes.start(&redis, &book, vec![job], orgs(2));
    let both = [("job_type", "records"), ("added", "1000")];
    recorder()
        .events("fanout.tick.finished", &both, 2, SOON)
        .await;
    nodes.stop().await;

    let mut ids = book.ids();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2_000);
    let messages = book.lock();
    let one = messages
        .iter()
        .find(|one| one.id.as_str() == "records:org-1:record-7");
    assert_eq!(one.expect("it was sent").body, b"body-7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_due_at_every_tick_is_handed_out_once_a_window() {
    let url = need!(shared_redis_url().await);
    let redis = connect(&url, &prefix()).await;
    let options = QueueOptions::default();
    let queue = StreamQueue::new(&redis, name("records"), options);
    let scan = |_: Tick, records: Records| async move { records.send(record(1)).await };
    let job = Job::scan(name("windowed"), every(PERIOD), scan);
    let listed = || std::future::ready(Ok(orgs(1)));
    coord_tests::recorder::recorder();
    let ticker = Ticker::new(&redis, queue.clone(), vec![job], listed).expect("one job");
    let mut nodes = JoinSet::new();

    nodes.spawn(ticker.run(std::future::pending()));
    let suppressed = [("job_type", "windowed"), ("records", "1")];
    recorder()
        .events("fanout.tick.suppressed", &suppressed, 2, SOON)
        .await;

    let depth = coord_fanout::Queue::depth(&queue)
        .await
        .expect("the server is there");
    assert_eq!(depth.open(), 1);
    let added = [("job_type", "windowed"), ("added", "1")];
    assert_eq!(recorder().seen("fanout.tick.finished", &added).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_stands_in_the_way_of_later_ticks_for_the_window_only() {
    let url = need!(shared_redis_url().await);
    let redis = connect(&url, &prefix()).await;
    let options = QueueOptions::default().window(PERIOD * 3 / 2);
    let queue = StreamQueue::new(&redis, name("records"), options.expect("in range"));
    let scan = |_: Tick, records: Records| async move { records.send(record(1)).await };
    let job = Job::scan(name("reopened"), every(PERIOD), scan);
    let listed = || std::future::ready(Ok(orgs(1)));
    recorder();
    let ticker = Ticker::new(&redis, queue, vec![job], listed).expect("one job");
    let mut nodes = JoinSet::new();

    nodes.spawn(ticker.run(std::future::pending()));

    // Nobody consumes: what was enqueued before is still there.
    let added = [("job_type", "reopened"), ("added", "1")];
    recorder()
        .events("fanout.tick.finished", &added, 3, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_fails_or_panics_is_tried_again_after_a_pause() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let scans = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&scans);
    let job = move || {
        let count = Arc::clone(&count);
        scanning("failing", move |_, records| {
            let scan = count.fetch_add(1, Ordering::SeqCst);
            assert!(scan != 1, "as asked");
            async move {
                records.send(record(1)).await?;
                match scan {
                    0 => Err(Error::unavailable("the database is away")),
                    _ => Ok(()),
                }
            }
        })
    };

    let start = tokio::time::Instant::now();
    for _ in 0..2 {
        let client = connect(&url, &prefix).await;
        nodes.start(&client, &book, vec![job()], orgs(1));
    }
    event("fanout.tick.scan_failed", "failing").await;
    let key = lock(&redis, "failing", "org-0");
    coord_tests::wait::eventually(SOON, "the tick pauses", || async {
        let pause = get(&redis, &key).await;
        pause.is_some_and(|pause| pause.starts_with("pause:"))
    })
    .await;
    event("fanout.tick.finished", "failing").await;
    let took = start.elapsed();
    nodes.stop().await;

    assert_eq!(scans.load(Ordering::SeqCst), 3);
    assert!(
        took >= Duration::from_secs(2),
        "two pauses of a second, not {took:?}"
    );
    let failed = [("job_type", "failing")];
    assert_eq!(recorder().seen("fanout.tick.scan_failed", &failed).len(), 2);
    assert!(!book.ids().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_hangs_ends_at_its_limit() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let job = scanning("hanging", |_, _| std::future::pending());

    let job = job.scan_limit(Duration::from_millis(100));
    nodes.start(&redis, &book, vec![job], orgs(1));
    let failed = event("fanout.tick.scan_failed", "hanging").await;
    nodes.stop().await;

    let error = failed.field("error").expect("it has a reason");
    assert!(error.contains("longer than 100ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_are_kept_beyond_the_scan_take_nothing_more() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let job = scanning("keeping", move |_, records| {
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(records);
        std::future::ready(Ok(()))
    });

    nodes.start(&redis, &book, vec![job], orgs(1));
    event("fanout.tick.finished", "keeping").await;
    let records = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let refused = records.expect("the scan kept them").send(record(1)).await;
    nodes.stop().await;

    assert_eq!(
        refused.expect_err("too late").kind(),
        coord_core::ErrorKind::Lost
    );
    assert_eq!(book.ids().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_longer_than_its_lease_keeps_it() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let clients = [connect(&url, &prefix).await, connect(&url, &prefix).await];
    let gate = watch::Sender::new(false);
    let job = || {
        let gate = gate.subscribe();
        let job = scanning("long", move |_, records| {
            let mut gate = gate.clone();
            async move {
                gate.wait_for(|open| *open).await.expect("the test has it");
                records.send(record(1)).await
            }
        });
        // Long enough that a busy machine renews it in time.
        job.lease(ttl(3_000))
    };

    for redis in &clients {
        nodes.start(redis, &book, vec![job()], orgs(1));
    }
    event("fanout.tick.contended", "long").await;
    let start = server_ms(&clients[0]).await;
    coord_tests::wait::eventually(SOON, "the lease's first life passes", || async {
        server_ms(&clients[0]).await > start + 3_500
    })
    .await;
    gate.send_replace(true);
    event("fanout.tick.finished", "long").await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
    let fired = [("job_type", "long")];
    assert_eq!(recorder().seen("fanout.tick.fired", &fired).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_whose_lease_is_taken_stops_before_its_next_record() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let job = scanning("taken", |_, records| async move {
        for id in 0.. {
            records.send(record(id)).await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    });

    nodes.start(&redis, &book, vec![job.lease(ttl(600))], orgs(1));
    book.until("the first record", |book| !book.ids().is_empty())
        .await;
    let thief = format!("{:032x}:{}", 1, 9_000_000_000_000_000_u64);
    set(&redis, &lock(&redis, "taken", "org-0"), &thief).await;
    let lost = event("fanout.tick.lost", "taken").await;
    let seen = book.ids().len();
    nodes.stop().await;

    let lock = lock(&redis, "taken", "org-0");
    assert_eq!(lost.field("cause"), Some("lease"));
    let by_lease = recorder().seen("redis.resource_lease.lost", &[("lease", lock.as_str())]);
    assert_eq!(by_lease, [], "one loss is one alarm");
    assert_eq!(book.ids().len(), seen);
    assert_eq!(get(&redis, &lock).await, Some(thief));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_away_for_a_moment_costs_no_scan() {
    let url = need!(shared_redis_url().await);
    let (prefix, calls) = (prefix(), Arc::new(AtomicU32::new(0)));
    let redis = connect(&url, &prefix).await;
    let count = Arc::clone(&calls);
    let queue = Sink::new(
        move |messages: &[Message]| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::unavailable("the queue is away")),
            1 => Err(Error::timeout("the queue does not answer")),
            _ => Ok(vec![Enqueued::Duplicate; messages.len()]),
        },
    );
    let scans = Arc::new(AtomicU32::new(0));
    let scanned = Arc::clone(&scans);
    let job = scanning("queue-away", move |_, records| {
        scanned.fetch_add(1, Ordering::SeqCst);
        async move { records.send(record(1)).await }
    });
    let listed = || std::future::ready(Ok(orgs(1)));
    coord_tests::recorder::recorder();
    let ticker = Ticker::new(&redis, queue, vec![job], listed).expect("one job");
    let mut nodes = JoinSet::new();

    nodes.spawn(ticker.run(std::future::pending()));
    event("fanout.tick.finished", "queue-away").await;

    assert_eq!(scans.load(Ordering::SeqCst), 1);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(
        event("fanout.tick.suppressed", "queue-away")
            .await
            .field("records"),
        Some("1")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_queue_can_never_take_fails_the_scan() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let job = scanning("too-long", |_, records| async move {
        records.send(Message::new(name(&"x".repeat(512)), "")).await
    });

    nodes.start(&redis, &book, vec![job], orgs(1));
    let failed = event("fanout.tick.scan_failed", "too-long").await;
    nodes.stop().await;

    let error = failed.field("error").expect("it has a reason");
    assert!(error.starts_with("invalid"), "{error}");
    assert_eq!(book.ids().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn something_foreign_is_left_alone_and_does_not_hold_up_the_others() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let foreign = lock(&redis, "foreign", "org-1");
    let unreadable = lock(&redis, "foreign", "org-2").part("last_tick");
    let push = Command::new("RPUSH").key(&foreign).arg("a list");
    redis.run(&push).await.expect("the server is there");
    set(&redis, &unreadable, "yesterday").await;
    let job = scanning("foreign", |_, records| async move {
        records.send(record(1)).await
    });

    nodes.start(&redis, &book, vec![job], orgs(4));
    let seen = [("job_type", "foreign")];
    recorder()
        .events("fanout.tick.foreign", &seen, 2, SOON)
        .await;
    recorder()
        .events("fanout.tick.finished", &seen, 2, SOON)
        .await;
    nodes.stop().await;

    let mut ids = book.ids();
    ids.sort();
    assert_eq!(ids, ["foreign:org-0:record-1", "foreign:org-3:record-1"]);
    assert_eq!(get(&redis, &unreadable).await, Some("yesterday".to_owned()));
    redis
        .run(&Command::new("LLEN").key(&foreign))
        .await
        .expect("it is the list");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_tick_in_the_future_is_reported_and_waited_for_until_somebody_removes_it() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let last = lock(&redis, "ahead", "org-0").part("last_tick");
    let ahead = server_ms(&redis).await + 3_600_000;
    set(&redis, &last, &ahead.to_string()).await;

    let jobs = vec![message_job("ahead", PERIOD), message_job("beside", PERIOD)];
    nodes.start(&redis, &book, jobs, orgs(1));
    event("fanout.tick.ahead", "ahead").await;
    let ticks = |who| move |book: &Book| book.instants().get(who).is_some_and(|all| all.len() > 2);
    book.until("the other job ticks", ticks("beside:org-0"))
        .await;
    assert!(!book.instants().contains_key("ahead:org-0"));

    redis
        .run(&Command::new("DEL").key(&last))
        .await
        .expect("the server is there");
    // A node looks again twice a minute.
    let twice = async {
        while !ticks("ahead:org-0")(&book) {
            book.written
                .subscribe()
                .changed()
                .await
                .expect("the book holds the sender");
        }
    };
    let twice = tokio::time::timeout(3 * SOON, twice).await;
    twice.expect("it ticks again");
    nodes.stop().await;
}

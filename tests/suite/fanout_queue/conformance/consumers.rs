//! The loop that hands messages to a handler, on any backend.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::Backoff;
use coord_fanout::{Consumer, Delivery, Failure, Queue};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::{Backend, QUICK, SLOW, Shape, VISIBILITY};
use crate::fanout_queue::{SOON, drain, enqueue, message, messages, name, next};

/// Counts down what is still to be handled, and wakes whoever waits for the end.
#[derive(Default)]
struct Seen {
    order: Mutex<BTreeMap<String, Vec<String>>>,
    changed: Notify,
}

impl Seen {
    fn add(&self, group: &str, id: &str) {
        let mut order = self.order.lock().expect("no handler panics here");
        order
            .entry(group.to_owned())
            .or_default()
            .push(id.to_owned());
        self.changed.notify_one();
    }

    fn count(&self) -> usize {
        let order = self.order.lock().expect("no handler panics here");
        order.values().map(Vec::len).sum()
    }

    async fn reaches(&self, count: usize) {
        let reached = async {
            while self.count() < count {
                self.changed.notified().await;
            }
        };
        let reached = tokio::time::timeout(SOON * 2, reached).await;
        reached.unwrap_or_else(|_| panic!("only {} of {count} came", self.count()));
    }
}

/// Retries soon, so that a test does not wait for it.
fn eager<Q: Queue + Clone>(queue: &Q) -> Consumer<Q> {
    let retry = Backoff::new(Duration::from_millis(10), Duration::from_millis(50));
    Consumer::new(queue.clone()).retry(retry)
}

pub(crate) async fn four_consumers_with_failures_keep_every_group_in_order(backend: &impl Backend) {
    const GROUPS: usize = 5;
    const EACH: usize = 20;
    let queue = backend
        .queue(Shape {
            attempts: 50,
            ..SLOW
        })
        .await;
    let seen = Arc::new(Seen::default());
    let stop = watch::Sender::new(());

    let mut consumers = JoinSet::new();
    for _ in 0..4 {
        let (seen, mut stopped) = (Arc::clone(&seen), stop.subscribe());
        let handler = move |delivery: Arc<Delivery>| {
            let seen = Arc::clone(&seen);
            async move {
                let failing = delivery
                    .receipt
                    .as_str()
                    .bytes()
                    .map(u32::from)
                    .sum::<u32>()
                    % 3;
                tokio::time::sleep(Duration::from_millis(u64::from(failing))).await;
                if failing == 0 && delivery.attempt < 3 {
                    return Err(Failure::new("by chance"));
                }
                let group = delivery.message.group.as_ref().expect("all have one");
                seen.add(group.as_str(), delivery.message.id.as_str());
                Ok(())
            }
        };
        let consumer = eager(&queue);
        consumers.spawn(async move {
            let stopped = async move { drop(stopped.changed().await) };
            consumer.run(handler, stopped).await
        });
    }
    for number in 0..EACH {
        for group in 0..GROUPS {
            let id = format!("{group}/{number}");
            enqueue(&queue, &[message(&id).group(name(format!("{group}")))]).await;
        }
    }
    seen.reaches(GROUPS * EACH).await;
    drop(stop);
    while let Some(ended) = consumers.join_next().await {
        ended.expect("no panic").expect("a clean shutdown");
    }

    assert_eq!(queue.depth().await.expect("the queue is there").open(), 0);
    let order = seen.order.lock().expect("no handler panics here");
    for group in 0..GROUPS {
        let expected: Vec<_> = (0..EACH)
            .map(|number| format!("{group}/{number}"))
            .collect();
        assert_eq!(order[&group.to_string()], expected);
    }
}

pub(crate) async fn a_consumer_retries_what_fails_and_what_panics(backend: &impl Backend) {
    let queue = backend
        .queue(Shape {
            attempts: 3,
            ..SLOW
        })
        .await;
    enqueue(&queue, &["fails", "panics", "never", "dies"].map(message)).await;
    let seen = Arc::new(Seen::default());

    let shared = Arc::clone(&seen);
    let handler = move |delivery: Arc<Delivery>| {
        let seen = Arc::clone(&shared);
        async move {
            match (delivery.message.id.as_str(), delivery.attempt) {
                ("fails", 1) => return Err(Failure::new("once")),
                ("fails", 2) => return Err(Failure::new("twice").after(Duration::from_millis(1))),
                ("panics", 1) | ("dies", _) => panic!("out of cheese"),
                ("never", _) => return Err(Failure::permanent("no such customer")),
                (id, attempt) => seen.add(id, &attempt.to_string()),
            }
            Ok(())
        }
    };
    let done = async {
        seen.reaches(2).await;
        while queue.depth().await.expect("the queue is there").open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    eager(&queue).run(handler, done).await.expect("a clean end");

    let order = seen.order.lock().expect("no handler panics here").clone();
    assert_eq!(
        (&order["fails"][..], &order["panics"][..]),
        (&["3".to_owned()][..], &["2".to_owned()][..])
    );
    let letters = queue.dead_letters(10).await.expect("the queue is there");
    let reasons: BTreeMap<_, _> = letters
        .iter()
        .map(|letter| {
            (
                letter.message.id.as_str(),
                (letter.attempts, &*letter.reason),
            )
        })
        .collect();
    assert_eq!(reasons["never"], (1, "no such customer"));
    assert_eq!(reasons["dies"], (3, "the handler panicked: out of cheese"));
}

pub(crate) async fn a_consumer_runs_no_more_handlers_at_once_than_it_may(backend: &impl Backend) {
    const COUNT: usize = 40;
    const MOST: usize = 4;
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &messages(0..COUNT)).await;
    let seen = Arc::new(Seen::default());
    let running = Arc::new(Mutex::new((0, 0)));

    let shared = (Arc::clone(&seen), Arc::clone(&running));
    let handler = move |delivery: Arc<Delivery>| {
        let (seen, running) = shared.clone();
        async move {
            {
                let mut running = running.lock().expect("no handler panics here");
                running.0 += 1;
                running.1 = running.0.max(running.1);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            running.lock().expect("no handler panics here").0 -= 1;
            seen.add("", delivery.message.id.as_str());
            Ok(())
        }
    };
    let consumer = eager(&queue).concurrency(MOST.try_into().expect("some"));
    let ended = consumer.run(handler, seen.reaches(COUNT)).await;

    ended.expect("a clean end");
    let (now, most) = *running.lock().expect("no handler panics here");
    assert_eq!(now, 0);
    assert!((1..=MOST).contains(&most), "{most} at once");
}

pub(crate) async fn a_handler_may_take_longer_than_the_visibility(backend: &impl Backend) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;
    let seen = Arc::new(Seen::default());

    let shared = Arc::clone(&seen);
    let handler = move |delivery: Arc<Delivery>| {
        let seen = Arc::clone(&shared);
        async move {
            tokio::time::sleep(VISIBILITY * 3).await;
            seen.add("", &delivery.attempt.to_string());
            Ok(())
        }
    };
    let ended = eager(&queue).run(handler, seen.reaches(1)).await;

    ended.expect("a clean end");
    assert_eq!(seen.order.lock().expect("no panic")[""], ["1"]);
    assert_eq!(queue.depth().await.expect("the queue is there").open(), 0);
}

pub(crate) async fn a_consumer_that_is_shut_down_ends_what_it_started(backend: &impl Backend) {
    const COUNT: usize = 10;
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &messages(0..COUNT)).await;
    let (seen, started) = (Arc::new(Seen::default()), Arc::new(Notify::new()));
    let go_on = Arc::new(Semaphore::new(0));

    let shared = (Arc::clone(&seen), Arc::clone(&started), Arc::clone(&go_on));
    let handler = move |delivery: Arc<Delivery>| {
        let (seen, started, go_on) = shared.clone();
        async move {
            started.notify_one();
            go_on.acquire().await?.forget();
            seen.add("", delivery.message.id.as_str());
            Ok(())
        }
    };
    let shutdown = async {
        started.notified().await;
        go_on.add_permits(COUNT);
    };
    let consumer = eager(&queue).concurrency(2.try_into().expect("some"));
    let ended = consumer.run(handler, shutdown).await;

    ended.expect("a clean end");
    let done = seen.count();
    assert!(done >= 1, "what was started ended");
    let rest = drain(&queue, COUNT - done).await;
    assert_eq!(rest.len(), COUNT - done, "nothing was lost or held back");
}

pub(crate) async fn a_handler_that_outlasts_the_drain_time_is_dropped_and_its_message_handed_back(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &[message("a")]).await;
    let started = Arc::new(Notify::new());

    let starting = Arc::clone(&started);
    let handler = move |_| {
        let started = Arc::clone(&starting);
        async move {
            started.notify_one();
            std::future::pending().await
        }
    };
    let consumer = eager(&queue).drain(Duration::from_millis(50));
    let ended = consumer.run(handler, started.notified()).await;

    ended.expect("a clean end");
    assert_eq!(next(&queue).await.message.id, name("a"));
}

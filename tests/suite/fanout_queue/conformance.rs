//! What every backend of the queue does, written against the port alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::{Backoff, ErrorKind};
use coord_fanout::{
    Consumer, Delivery, Enqueued, Failure, MAX_BODY_BYTES, Message, Queue, Settled, Verdict,
};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{SOON, drain, enqueue, grouped, ids, message, messages, name, next, receive};

/// Nothing that is received here takes so long; backends count visibility in whole seconds.
const VISIBILITY: Duration = Duration::from_secs(2);

/// For what must outlast a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(60);

/// Whether something is there now.
const NOW: Duration = Duration::ZERO;

/// What a test needs of its queue.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) visibility: Duration,
    pub(super) attempts: u32,
}

const QUICK: Shape = Shape {
    visibility: VISIBILITY,
    attempts: 5,
};

const SLOW: Shape = Shape {
    visibility: LONG,
    attempts: 5,
};

/// Where queues come from; each is empty, and no other test has it.
pub(super) trait Backend {
    type Queue: Queue + Clone;

    async fn queue(&self, shape: Shape) -> Self::Queue;
}

/// Runs every test of this file on a backend.
macro_rules! suite {
    ($backend:expr) => {
        $crate::fanout_queue::conformance::suite!($backend;
            a_message_arrives_as_it_was_enqueued,
            a_duplicate_is_handed_out_once_also_after_its_completion,
            messages_beyond_any_batch_of_a_backend_all_arrive,
            a_body_that_is_too_large_is_invalid_and_nothing_of_its_call_is_enqueued,
            an_empty_queue_answers_when_the_wait_is_over,
            a_receiver_that_waits_gets_what_is_enqueued_meanwhile,
            what_is_not_settled_comes_back_when_its_visibility_ends,
            what_is_extended_does_not_come_back,
            what_was_taken_over_is_lost_to_its_first_consumer,
            what_is_completed_is_gone,
            a_retry_comes_after_its_delay,
            the_last_attempt_ends_among_the_dead_letters,
            a_rejected_message_is_dead_at_once_and_replayed_on_request,
            a_released_message_comes_back_at_once,
            a_group_is_handed_out_one_by_one_in_order_and_holds_up_no_other,
            a_retry_holds_up_its_group_and_keeps_its_place,
            a_dead_letter_lets_its_group_go_on,
            the_depth_tells_where_messages_are,
            four_consumers_with_failures_keep_every_group_in_order,
            a_consumer_retries_what_fails_and_what_panics,
            a_consumer_runs_no_more_handlers_at_once_than_it_may,
            a_handler_may_take_longer_than_the_visibility,
            a_consumer_that_is_shut_down_ends_what_it_started,
            a_handler_that_outlasts_the_drain_time_is_dropped_and_its_message_handed_back,
        );
    };
    ($backend:expr; $($test:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let backend = coord_tests::need!($backend.await);
            $crate::fanout_queue::conformance::$test(&backend).await;
        }
    )+};
}
pub(super) use suite;

pub(super) async fn a_message_arrives_as_it_was_enqueued(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let sent = Message::new(name("id {with} spaces:ü*"), every_byte).group(name("group/1?"));

    enqueue(&queue, std::slice::from_ref(&sent)).await;

    let delivery = next(&queue).await;
    assert_eq!(delivery.message, sent);
    assert_eq!(delivery.attempt, 1);
    queue.complete(&delivery).await.expect("it is ours");
}

pub(super) async fn a_duplicate_is_handed_out_once_also_after_its_completion(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    let twice = [message("a"), message("a"), message("b")];

    let first = enqueue(&queue, &twice).await;
    assert_eq!((first[0], first[2]), (Enqueued::Added, Enqueued::Added));
    assert_eq!(BTreeSet::from_iter(drain(&queue, 2).await).len(), 2);
    enqueue(&queue, &twice).await;

    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);
}

pub(super) async fn messages_beyond_any_batch_of_a_backend_all_arrive(backend: &impl Backend) {
    const COUNT: usize = 700;
    let queue = backend.queue(SLOW).await;

    let outcomes = enqueue(&queue, &messages(0..COUNT)).await;

    assert_eq!(outcomes, [Enqueued::Added; COUNT]);
    let drained = drain(&queue, COUNT).await;
    assert_eq!(drained.len(), COUNT);
    assert_eq!(BTreeSet::from_iter(drained).len(), COUNT);
}

pub(super) async fn a_body_that_is_too_large_is_invalid_and_nothing_of_its_call_is_enqueued(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    let sized = |bytes| Message::new(name(format!("{bytes}")), vec![b'x'; bytes]);

    let refused = queue.enqueue(&[sized(1), sized(MAX_BODY_BYTES + 1)]).await;
    assert_eq!(refused.expect_err("too large").kind(), ErrorKind::Invalid);
    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);
    enqueue(&queue, &[sized(MAX_BODY_BYTES)]).await;

    assert_eq!(next(&queue).await.message.body.len(), MAX_BODY_BYTES);
}

pub(super) async fn an_empty_queue_answers_when_the_wait_is_over(backend: &impl Backend) {
    const WAIT: Duration = Duration::from_secs(1);
    let queue = backend.queue(SLOW).await;

    let asked = Instant::now();
    let received = receive(&queue, 10, WAIT).await;

    assert_eq!(ids(&received), [""; 0]);
    assert!(asked.elapsed() >= WAIT, "{:?}", asked.elapsed());
}

pub(super) async fn a_receiver_that_waits_gets_what_is_enqueued_meanwhile(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let (asking, asked) = oneshot::channel();

    let (received, _) = tokio::join!(
        async {
            asking.send(()).expect("the other side waits");
            receive(&queue, 10, SOON).await
        },
        async {
            asked.await.expect("it was asked");
            enqueue(&queue, &[message("a")]).await
        }
    );

    assert_eq!(ids(&received), ["a"]);
}

pub(super) async fn what_is_not_settled_comes_back_when_its_visibility_ends(
    backend: &impl Backend,
) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;

    let before = Instant::now();
    let first = next(&queue).await;
    let second = next(&queue).await;

    assert!(before.elapsed() >= VISIBILITY, "{:?}", before.elapsed());
    assert!(first.valid_until <= Instant::now());
    assert_eq!((second.message.id, second.attempt), (name("a"), 2));
}

pub(super) async fn what_is_extended_does_not_come_back(backend: &impl Backend) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;
    let delivery = next(&queue).await;

    let until = Instant::now() + VISIBILITY * 3;
    let mut valid_until = delivery.valid_until;
    while Instant::now() < until {
        let others = receive(&queue, 1, VISIBILITY / 4).await;
        assert_eq!(ids(&others), [""; 0]);
        let extended = queue.extend(std::slice::from_ref(&delivery.receipt)).await;
        let extended = extended.expect("the queue is there")[0].expect("it is ours");
        assert!(extended > valid_until);
        valid_until = extended;
    }

    queue.complete(&delivery).await.expect("it is still ours");
}

pub(super) async fn what_was_taken_over_is_lost_to_its_first_consumer(backend: &impl Backend) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;
    let first = next(&queue).await;
    let second = next(&queue).await;

    let extended = queue.extend(std::slice::from_ref(&first.receipt)).await;
    let completed = queue.complete(&first).await;

    assert_eq!(extended.expect("the queue is there"), [None]);
    assert_eq!(completed.expect_err("late").kind(), ErrorKind::Lost);
    queue.complete(&second).await.expect("it is not lost");
}

pub(super) async fn what_is_completed_is_gone(backend: &impl Backend) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;
    let delivery = next(&queue).await;

    queue.complete(&delivery).await.expect("it is ours");

    let again = queue.complete(&delivery).await;
    assert_eq!(again.expect_err("settled").kind(), ErrorKind::Lost);
    let extended = queue.extend(std::slice::from_ref(&delivery.receipt)).await;
    assert_eq!(extended.expect("the queue is there"), [None]);
    assert_eq!(ids(&receive(&queue, 1, VISIBILITY * 2).await), [""; 0]);
}

pub(super) async fn a_retry_comes_after_its_delay(backend: &impl Backend) {
    const DELAY: Duration = Duration::from_secs(1);
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &[message("a")]).await;
    let first = next(&queue).await;

    let before = Instant::now();
    let settled = queue.retry(&first, DELAY, "busy").await;
    let second = next(&queue).await;

    assert!(before.elapsed() >= DELAY, "{:?}", before.elapsed());
    assert_eq!(settled.expect("it is ours"), Settled::Done);
    assert_eq!((second.message, second.attempt), (first.message, 2));
}

pub(super) async fn the_last_attempt_ends_among_the_dead_letters(backend: &impl Backend) {
    let queue = backend
        .queue(Shape {
            attempts: 2,
            ..SLOW
        })
        .await;
    let sent = message("a").group(name("g"));
    enqueue(&queue, std::slice::from_ref(&sent)).await;

    let first = queue.retry(&next(&queue).await, NOW, "first").await;
    let second = queue.retry(&next(&queue).await, NOW, "second").await;

    assert_eq!(first.expect("it is ours"), Settled::Done);
    assert_eq!(second.expect("it is ours"), Settled::DeadLettered);
    let letters = queue.dead_letters(10).await.expect("the queue is there");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].message, sent);
    assert_eq!(
        (letters[0].attempts, letters[0].reason.as_str()),
        (2, "second")
    );
    assert_eq!(ids(&receive(&queue, 1, NOW).await), [""; 0]);
}

pub(super) async fn a_rejected_message_is_dead_at_once_and_replayed_on_request(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &[message("a"), message("b").group(name("g"))]).await;
    for _ in 0..2 {
        let verdict = Verdict::DeadLetter {
            reason: "no such customer".to_owned(),
        };
        let delivery = next(&queue).await;
        let settled = queue.settle(&[(&delivery, verdict)]).await;
        assert_eq!(
            settled.expect("the queue is there"),
            [Settled::DeadLettered]
        );
    }
    assert_eq!(queue.depth().await.expect("the queue is there").dead, 2);

    let one = queue.replay(1).await.expect("the queue is there");
    let other = queue.replay(10).await.expect("the queue is there");

    assert_eq!((one, other), (1, 1));
    for _ in 0..2 {
        let delivery = next(&queue).await;
        assert_eq!(delivery.attempt, 1);
        queue.complete(&delivery).await.expect("it is ours");
    }
    assert_eq!(
        queue.dead_letters(10).await.expect("the queue is there"),
        []
    );
}

pub(super) async fn a_released_message_comes_back_at_once(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;
    let first = next(&queue).await;

    let settled = queue.settle(&[(&first, Verdict::Release)]).await;

    assert_eq!(settled.expect("the queue is there"), [Settled::Done]);
    assert_eq!(next(&queue).await.message.id, name("a"));
}

pub(super) async fn a_group_is_handed_out_one_by_one_in_order_and_holds_up_no_other(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &grouped("h", &["x"])).await;
    enqueue(&queue, &grouped("g", &["d"])).await;

    let mut both = receive(&queue, 10, NOW).await;
    if both.len() < 2 {
        both.extend(receive(&queue, 10, NOW).await);
    }
    assert_eq!(ids(&both), ["a", "x"]);
    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);

    let mut head = both.swap_remove(0);
    for following in ["b", "c", "d"] {
        queue.complete(&head).await.expect("it is ours");
        let others = receive(&queue, 10, SOON).await;
        assert_eq!(ids(&others), [following]);
        head = others.into_iter().next().expect("one");
    }
    queue.complete(&head).await.expect("it is ours");
    enqueue(&queue, &grouped("g", &["e"])).await;
    assert_eq!(next(&queue).await.message.id, name("e"));
}

pub(super) async fn a_retry_holds_up_its_group_and_keeps_its_place(backend: &impl Backend) {
    const DELAY: Duration = Duration::from_secs(1);
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;
    let first = next(&queue).await;

    queue.retry(&first, DELAY, "busy").await.expect("ours");

    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);
    let again = next(&queue).await;
    assert_eq!((again.message.id.as_str(), again.attempt), ("a", 2));
    queue.complete(&again).await.expect("it is ours");
    assert_eq!(next(&queue).await.message.id, name("b"));
}

pub(super) async fn a_dead_letter_lets_its_group_go_on(backend: &impl Backend) {
    let queue = backend
        .queue(Shape {
            attempts: 1,
            ..SLOW
        })
        .await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;

    let settled = queue.retry(&next(&queue).await, NOW, "broken").await;

    assert_eq!(settled.expect("it is ours"), Settled::DeadLettered);
    assert_eq!(next(&queue).await.message.id, name("b"));
}

pub(super) async fn the_depth_tells_where_messages_are(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let depth = async || queue.depth().await.expect("the queue is there");
    assert_eq!(depth().await.open(), 0);
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &messages(0..4)).await;

    let deliveries = receive(&queue, 3, NOW).await;
    let delayed = deliveries.last().expect("one at least");
    queue.retry(delayed, LONG, "busy").await.expect("ours");

    let depth = depth().await;
    assert_eq!(depth.open(), 7);
    assert_eq!((depth.delayed, depth.dead), (1, 0));
    assert_eq!(depth.in_flight, deliveries.len() as u64 - 1);
}

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

pub(super) async fn four_consumers_with_failures_keep_every_group_in_order(backend: &impl Backend) {
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

    let order = seen.order.lock().expect("no handler panics here");
    for group in 0..GROUPS {
        let expected: Vec<_> = (0..EACH)
            .map(|number| format!("{group}/{number}"))
            .collect();
        assert_eq!(order[&group.to_string()], expected);
    }
    assert_eq!(queue.depth().await.expect("the queue is there").open(), 0);
}

pub(super) async fn a_consumer_retries_what_fails_and_what_panics(backend: &impl Backend) {
    let queue = backend
        .queue(Shape {
            attempts: 3,
            ..SLOW
        })
        .await;
    enqueue(&queue, &["fails", "panics", "never", "dies"].map(message)).await;
    let seen = Arc::new(Seen::default());

    let handled = Arc::clone(&seen);
    let handler = move |delivery: Arc<Delivery>| {
        let seen = Arc::clone(&handled);
        async move {
            match (delivery.message.id.as_str(), delivery.attempt) {
                ("fails", 1) => return Err(Failure::new("once")),
                ("fails", 2) => return Err(Failure::new("twice").after(Duration::from_millis(1))),
                ("panics", 1) => panic!("out of cheese"),
                ("never", _) => return Err(Failure::permanent("no such customer")),
                ("dies", _) => panic!("out of cheese"),
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

pub(super) async fn a_consumer_runs_no_more_handlers_at_once_than_it_may(backend: &impl Backend) {
    const COUNT: usize = 40;
    const MOST: usize = 4;
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &messages(0..COUNT)).await;
    let seen = Arc::new(Seen::default());
    let running = Arc::new(Mutex::new((0, 0)));

    let (handled, counted) = (Arc::clone(&seen), Arc::clone(&running));
    let handler = move |delivery: Arc<Delivery>| {
        let (seen, running) = (Arc::clone(&handled), Arc::clone(&counted));
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

pub(super) async fn a_handler_may_take_longer_than_the_visibility(backend: &impl Backend) {
    let queue = backend.queue(QUICK).await;
    enqueue(&queue, &[message("a")]).await;
    let seen = Arc::new(Seen::default());

    let handled = Arc::clone(&seen);
    let handler = move |delivery: Arc<Delivery>| {
        let seen = Arc::clone(&handled);
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

pub(super) async fn a_consumer_that_is_shut_down_ends_what_it_started(backend: &impl Backend) {
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

pub(super) async fn a_handler_that_outlasts_the_drain_time_is_dropped_and_its_message_handed_back(
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

//! One message at a time: how it comes, comes back and goes.

use std::collections::BTreeSet;
use std::time::Duration;

use coord_core::{ErrorKind, TraceContext};
use coord_fanout::{Enqueued, MAX_BODY_BYTES, Message, Queue, Settled, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Backend, LONG, NOW, QUICK, SLOW, Shape, VISIBILITY};
use crate::fanout_queue::{
    SOON, drain, enqueue, grouped, ids, message, messages, name, next, receive,
};

pub(crate) async fn a_message_arrives_as_it_was_enqueued(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let sent = Message::new(name("id {with} spaces:ü*"), every_byte).group(name("group/1?"));

    enqueue(&queue, std::slice::from_ref(&sent)).await;

    let delivery = next(&queue).await;
    assert_eq!(delivery.message, sent);
    assert_eq!(delivery.attempt, 1);
    queue.complete(&delivery).await.expect("it is ours");
}

pub(crate) async fn a_duplicate_is_handed_out_once_also_after_its_completion(
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

pub(crate) async fn messages_beyond_any_batch_of_a_backend_all_arrive(backend: &impl Backend) {
    const COUNT: usize = 700;
    let queue = backend.queue(SLOW).await;

    let outcomes = enqueue(&queue, &messages(0..COUNT)).await;

    assert_eq!(outcomes, [Enqueued::Added; COUNT]);
    let drained = drain(&queue, COUNT).await;
    assert_eq!(drained.len(), COUNT);
    assert_eq!(BTreeSet::from_iter(drained).len(), COUNT);
}

pub(crate) async fn a_body_that_is_too_large_is_invalid_and_nothing_of_its_call_is_enqueued(
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

pub(crate) async fn an_empty_queue_answers_when_the_wait_is_over(backend: &impl Backend) {
    const WAIT: Duration = Duration::from_secs(1);
    let queue = backend.queue(SLOW).await;

    let asked = Instant::now();
    let received = receive(&queue, 10, WAIT).await;

    assert_eq!(ids(&received), [""; 0]);
    assert!(asked.elapsed() >= WAIT, "{:?}", asked.elapsed());
}

pub(crate) async fn a_receiver_that_waits_gets_what_is_enqueued_meanwhile(backend: &impl Backend) {
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

pub(crate) async fn what_is_not_settled_comes_back_when_its_visibility_ends(
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

pub(crate) async fn what_is_extended_does_not_come_back(backend: &impl Backend) {
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

pub(crate) async fn what_was_taken_over_is_lost_to_its_first_consumer(backend: &impl Backend) {
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

pub(crate) async fn what_is_completed_is_gone(backend: &impl Backend) {
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

pub(crate) async fn a_retry_comes_after_its_delay(backend: &impl Backend) {
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

pub(crate) async fn the_last_attempt_ends_among_the_dead_letters(backend: &impl Backend) {
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

pub(crate) async fn a_rejected_message_is_dead_at_once_and_replayed_on_request(
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

pub(crate) async fn a_released_message_comes_back_at_once(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;
    let first = next(&queue).await;

    let settled = queue.settle(&[(&first, Verdict::Release)]).await;

    assert_eq!(settled.expect("the queue is there"), [Settled::Done]);
    assert_eq!(next(&queue).await.message.id, name("a"));
}

pub(crate) async fn a_message_keeps_its_trace_whatever_becomes_of_it(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let traced = |id: &str, span: u8| {
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b{span}-01");
        let mut message = message(id).group(name("g"));
        message.trace = TraceContext::parse(&parent, Some("a=1"));
        message
    };
    let (first, second) = (traced("a", 7), traced("b", 8));
    enqueue(&queue, &[first.clone(), second.clone()]).await;

    let delivery = next(&queue).await;
    assert_eq!(delivery.message, first);
    queue
        .settle(&[(&delivery, Verdict::Release)])
        .await
        .expect("ours");
    let delivery = next(&queue).await;
    assert_eq!(delivery.message, first, "handed back");
    queue.retry(&delivery, NOW, "busy").await.expect("ours");
    let delivery = next(&queue).await;
    assert_eq!(delivery.message, first, "tried again");
    let delay = Duration::from_millis(1);
    queue.retry(&delivery, delay, "busy").await.expect("ours");
    let delivery = next(&queue).await;
    assert_eq!(delivery.message, first, "tried again later");
    let reason = "no such customer".to_owned();
    let verdict = Verdict::DeadLetter { reason };
    queue.settle(&[(&delivery, verdict)]).await.expect("ours");
    let letters = queue.dead_letters(1).await.expect("the queue is there");
    assert_eq!(letters[0].message, first, "given up");
    queue.replay(1).await.expect("the queue is there");

    for expected in [second, first] {
        let delivery = next(&queue).await;
        assert_eq!(delivery.message, expected, "after the one before it");
        queue.complete(&delivery).await.expect("ours");
    }
}

pub(crate) async fn the_depth_tells_where_messages_are(backend: &impl Backend) {
    let queue = backend.queue(SLOW).await;
    let depth = async || queue.depth().await.expect("the queue is there");
    assert_eq!(depth().await.open(), 0);
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &messages(0..4)).await;

    let deliveries = receive(&queue, 3, NOW).await;
    let failed = deliveries.last().expect("one at least");
    queue.retry(failed, LONG, "busy").await.expect("ours");

    let depth = depth().await;
    assert_eq!((depth.open(), depth.dead), (7, 0));
    // A backend may have one number for both.
    assert_eq!(depth.in_flight + depth.delayed, deliveries.len() as u64);
}

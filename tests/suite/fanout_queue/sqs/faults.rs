//! Answers that are lost, refused or partly failed, and what is done in the middle of a move.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_fanout::{Queue, Settled, SqsOptions, SqsQueue, Verdict};
use coord_tests::need;
use coord_tests::need::Missing;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Armed, SqsFault};
use tokio::time::Instant;

use super::{Pair, Sqs, client};
use crate::fanout_queue::{
    SOON, attempts, drain, enqueue, grouped, ids, message, messages, next, receive,
};

const VISIBILITY: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_mins(1);
const NOW: Duration = Duration::ZERO;

/// An error of the server after which nobody knows what it did.
const CRASH: SqsFault<'_> = SqsFault::Answer(500, "InternalFailure");
const DENIED: SqsFault<'_> = SqsFault::Answer(403, "AccessDenied");
const THROTTLED: SqsFault<'_> = SqsFault::Answer(400, "RequestThrottled");

/// A queue whose requests can be met by faults.
struct Faulty {
    sqs: Sqs,
    pair: Pair,
    queue: SqsQueue,
}

impl Faulty {
    async fn start(visibility: Duration, options: SqsOptions) -> Result<Self, Missing> {
        let sqs = Sqs::start().await?;
        let pair = sqs.pair(visibility).await;
        let queue = sqs.open(&pair, options).await;
        Ok(Self { sqs, pair, queue })
    }

    /// Meets the next request of `operation` to the queue itself.
    async fn arm(&self, operation: &str, fault: SqsFault<'_>) -> Armed {
        let queue = format!("{}.fifo", self.pair.name);
        self.sqs.server.arm(operation, &queue, fault).await
    }

    async fn open_messages(&self) -> u64 {
        let depth = self.queue.depth().await;
        depth.expect("the queue is there").open()
    }

    async fn reasons(&self) -> Vec<String> {
        let letters = self.queue.dead_letters(10).await;
        let letters = letters.expect("the queue is there").into_iter();
        letters.map(|letter| letter.reason).collect()
    }
}

fn rejected(reason: &str) -> Verdict {
    Verdict::DeadLetter {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn messages_are_delivered_once_whatever_becomes_of_the_first_attempt_to_send_them() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    let faults = [
        SqsFault::Cut,
        SqsFault::Lose,
        SqsFault::Half,
        CRASH,
        THROTTLED,
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let batch = messages([number * 2, number * 2 + 1]);

        let met = faulty.arm("SendMessageBatch", fault).await;
        enqueue(&faulty.queue, &batch).await;
        met.met().await;

        assert_eq!(drain(&faulty.queue, 2).await.len(), 2, "{fault:?}");
        assert_eq!(faulty.open_messages().await, 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_group_keeps_its_order_when_a_message_in_its_middle_fails_for_a_while() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    let fault = SqsFault::Fail {
        entry: "i=b",
        code: "InternalError",
        sender_fault: false,
    };
    let batch = [grouped("g", &["a", "b", "c"]), grouped("h", &["x", "y"])].concat();

    let met = faulty
        .sqs
        .server
        .arm("SendMessageBatch", "i=b", fault)
        .await;
    enqueue(&faulty.queue, &batch).await;
    met.met().await;

    let drained = drain(&faulty.queue, 5).await;
    let of = |group: &[&str]| -> Vec<_> {
        let ours = drained.iter().filter(|id| group.contains(&id.as_str()));
        ours.cloned().collect()
    };
    assert_eq!(of(&["a", "b", "c"]), ["a", "b", "c"]);
    assert_eq!(of(&["x", "y"]), ["x", "y"]);
}

#[tokio::test]
async fn nothing_of_a_group_is_sent_behind_a_message_that_is_refused() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    let fault = SqsFault::Fail {
        entry: "i=b",
        code: "InvalidMessageContents",
        sender_fault: true,
    };

    let met = faulty
        .sqs
        .server
        .arm("SendMessageBatch", "i=b", fault)
        .await;
    let refused = faulty.queue.enqueue(&grouped("g", &["a", "b", "c"])).await;
    met.met().await;

    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Invalid);
    assert_eq!(drain(&faulty.queue, 3).await, ["a"]);
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn two_messages_of_one_group_are_never_on_their_way_together() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);

    let looked = faulty.arm("SendMessageBatch", SqsFault::Pass).await;
    let mut batch = grouped("g", &["a", "b"]);
    batch.extend(messages(0..3));
    enqueue(&faulty.queue, &batch).await;

    let entries = looked.met().await["Entries"].to_string();
    assert!(entries.contains("i=a") && entries.contains("i=m2"));
    assert!(!entries.contains("i=b"), "{entries}");
}

#[tokio::test]
async fn an_answer_to_a_receive_that_was_lost_is_asked_for_under_the_same_id() {
    let faulty = need!(Faulty::start(VISIBILITY, SqsOptions::default()).await);
    enqueue(&faulty.queue, &[message("a")]).await;

    let lost = faulty.arm("ReceiveMessage", SqsFault::Lose).await;
    let again = faulty.arm("ReceiveMessage", SqsFault::Pass).await;
    let delivery = next(&faulty.queue).await;

    let id = |request: serde_json::Value| request["ReceiveRequestAttemptId"].clone();
    let (first, second) = (id(lost.met().await), id(again.met().await));
    assert!(first.is_string(), "{first}");
    assert_eq!(first, second);
    assert_eq!(ids(std::slice::from_ref(&delivery)), ["a"]);
    faulty.queue.complete(&delivery).await.expect("it is ours");
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn messages_are_received_one_by_one_where_there_may_be_groups() {
    for (options, expected) in [
        (SqsOptions::default(), 1),
        (SqsOptions::default().without_groups(), 10),
    ] {
        let faulty = need!(Faulty::start(LONG, options).await);
        enqueue(&faulty.queue, &messages(0..25)).await;

        let looked = faulty.arm("ReceiveMessage", SqsFault::Pass).await;
        let received = receive(&faulty.queue, 20, NOW).await;

        assert_eq!(looked.met().await["MaxNumberOfMessages"], expected);
        assert_eq!(received.len(), 20);
    }
}

#[tokio::test]
async fn a_queue_without_groups_refuses_a_message_with_one() {
    let options = SqsOptions::default().without_groups();
    let faulty = need!(Faulty::start(LONG, options).await);

    let refused = faulty.queue.enqueue(&grouped("g", &["a"])).await;

    assert_eq!(refused.expect_err("a group").kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_happens_once() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    enqueue(&faulty.queue, &grouped("g", &["a", "b"])).await;

    let retried = faulty
        .arm("ChangeMessageVisibilityBatch", SqsFault::Lose)
        .await;
    let settled = faulty
        .queue
        .retry(&next(&faulty.queue).await, NOW, "busy")
        .await;
    retried.met().await;
    assert_eq!(settled.expect("it was executed"), Settled::Done);

    let again = next(&faulty.queue).await;
    assert_eq!(
        (ids(std::slice::from_ref(&again)), again.attempt),
        (vec!["a"], 2)
    );
    let deleted = faulty.arm("DeleteMessageBatch", SqsFault::Lose).await;
    faulty
        .queue
        .complete(&again)
        .await
        .expect("it was executed");
    deleted.met().await;

    assert_eq!(drain(&faulty.queue, 1).await, ["b"]);
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn an_entry_that_fails_for_a_while_is_settled_in_the_end() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    enqueue(&faulty.queue, &messages(0..3)).await;
    let deliveries = receive(&faulty.queue, 3, NOW).await;
    let verdicts: Vec<_> = deliveries
        .iter()
        .map(|delivery| (delivery, Verdict::Complete))
        .collect();
    let (_, handle) = deliveries[1]
        .receipt
        .as_str()
        .split_once('/')
        .expect("ours");
    let fault = SqsFault::Fail {
        entry: handle,
        code: "InternalError",
        sender_fault: false,
    };

    let met = faulty.arm("DeleteMessageBatch", fault).await;
    let settled = faulty.queue.settle(&verdicts).await;
    met.met().await;

    assert_eq!(settled.expect("the queue is there"), [Settled::Done; 3]);
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn a_dead_letter_whose_move_was_interrupted_is_there_once() {
    let faulty = need!(Faulty::start(VISIBILITY, SqsOptions::default()).await);
    enqueue(&faulty.queue, &[message("a")]).await;
    let first = next(&faulty.queue).await;

    let interrupted = faulty.arm("DeleteMessageBatch", DENIED).await;
    let unsettled = faulty.queue.settle(&[(&first, rejected("broken"))]).await;
    interrupted.met().await;
    assert_eq!(unsettled.expect_err("not moved").kind(), ErrorKind::Invalid);
    assert_eq!(faulty.reasons().await, ["broken"]);
    let second = next(&faulty.queue).await;
    let settled = faulty.queue.settle(&[(&second, rejected("again"))]).await;

    assert_eq!(settled.expect("moved"), [Settled::DeadLettered]);
    assert_eq!(faulty.reasons().await, ["broken"]);
    let depth = faulty.queue.depth().await.expect("the queue is there");
    assert_eq!((depth.open(), depth.dead), (0, 1));
}

#[tokio::test]
async fn a_replay_that_was_interrupted_puts_each_dead_letter_back_once() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    enqueue(&faulty.queue, &[message("a")]).await;
    let delivery = next(&faulty.queue).await;
    let settled = faulty
        .queue
        .settle(&[(&delivery, rejected("broken"))])
        .await;
    settled.expect("the queue is there");

    // Only the second attempt to send gets through, and its answer is lost as well.
    let sent = faulty.arm("SendMessageBatch", SqsFault::Cut).await;
    let lost = faulty.arm("SendMessageBatch", SqsFault::Lose).await;
    let again = faulty.arm("SendMessageBatch", DENIED).await;
    let failed = faulty.queue.replay(10).await;
    for one in [&sent, &lost, &again] {
        one.met().await;
    }
    assert_eq!(failed.expect_err("denied").kind(), ErrorKind::Invalid);
    let replayed = faulty.queue.replay(10).await;

    assert_eq!(replayed.expect("the queue is there"), 1);
    assert_eq!(drain(&faulty.queue, 1).await, ["a"]);
    assert_eq!(faulty.open_messages().await, 0);
    assert_eq!(faulty.reasons().await, [""; 0]);
}

#[tokio::test]
async fn an_extension_does_not_undo_the_delay_of_a_retry() {
    const DELAY: Duration = Duration::from_secs(4);
    let faulty = need!(Faulty::start(VISIBILITY, SqsOptions::default()).await);
    enqueue(&faulty.queue, &[message("a")]).await;
    let delivery = next(&faulty.queue).await;

    let before = Instant::now();
    faulty
        .queue
        .retry(&delivery, DELAY, "busy")
        .await
        .expect("ours");
    let extended = faulty.queue.extend(&[delivery.receipt]).await;

    assert_eq!(extended.expect("the queue is there"), [None]);
    assert_eq!(next(&faulty.queue).await.attempt, 2);
    assert!(before.elapsed() >= DELAY, "{:?}", before.elapsed());
}

#[tokio::test]
async fn what_is_no_message_is_put_aside_with_its_body_and_reported() {
    let faulty = need!(Faulty::start(LONG, SqsOptions::default()).await);
    let foreign = faulty.sqs.client.send_message();
    let foreign = foreign.queue_url(&faulty.pair.url).message_body("hello");
    let foreign = foreign.message_group_id("g").message_deduplication_id("x");
    foreign.send().await.expect("the server is there");
    enqueue(&faulty.queue, &[message("a")]).await;

    assert_eq!(drain(&faulty.queue, 1).await, ["a"]);

    let about = [
        ("queue", faulty.queue.name().as_str()),
        ("cause", "foreign"),
    ];
    recorder()
        .event("fanout.queue.dead_lettered", &about, SOON)
        .await;
    let letters = faulty.queue.dead_letters(10).await.expect("it is there");
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].attempts, &letters[0].message.body[..]),
        (0, &b"hello"[..])
    );
}

#[tokio::test]
async fn a_message_whose_consumers_vanish_is_given_up_after_its_attempts() {
    let options = SqsOptions::default().attempts(attempts(1));
    let faulty = need!(Faulty::start(VISIBILITY, options).await);
    enqueue(&faulty.queue, &grouped("g", &["a", "b"])).await;

    assert_eq!(ids(&[next(&faulty.queue).await]), ["a"]);
    assert_eq!(ids(&[next(&faulty.queue).await]), ["b"]);

    let about = [
        ("queue", faulty.queue.name().as_str()),
        ("cause", "abandoned"),
    ];
    recorder()
        .event("fanout.queue.dead_lettered", &about, SOON)
        .await;
    let letters = faulty.queue.dead_letters(10).await.expect("it is there");
    assert_eq!(letters[0].attempts, 1);
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_unavailable_and_a_silent_one_a_timeout() {
    let sqs = need!(Sqs::start().await);
    let proxy = FaultProxy::start(sqs.server.addr()).await;
    let pair = sqs.pair(LONG).await;
    let options = SqsOptions::default().deadline(Duration::from_secs(1));
    let options = options.expect("long enough");
    let client = client(&format!("http://{}", proxy.addr()));
    let queue = SqsQueue::open(&client, &pair.url, &pair.dead, options).await;
    let queue = queue.expect("the queues are there");
    let batch = [message("a")];

    proxy.refuse().await;
    proxy.cut().await;
    let down = queue.enqueue(&batch).await;
    let nothing = queue.receive(1, NOW).await;
    assert_eq!(down.expect_err("down").kind(), ErrorKind::Unavailable);
    assert_eq!(nothing.expect_err("down").kind(), ErrorKind::Unavailable);
    proxy.heal().await;
    proxy.hole_down();
    let silent = queue.enqueue(&batch).await;
    assert_eq!(silent.expect_err("silent").kind(), ErrorKind::Timeout);
    proxy.heal().await;

    enqueue(&queue, &batch).await;
    assert_eq!(drain(&queue, 2).await, ["a"]);
}

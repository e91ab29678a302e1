//! Windows, depths, attempts, backlogs, and what is left in Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use coord_core::ErrorKind;
use coord_fanout::{Enqueued, Message, Queue, QueueOptions, StreamQueue, Verdict};
use coord_tests::need;
use coord_tests::need::{Missing, shared_redis_url};
use coord_tests::servers::{Deployment, RedisServer};
use coord_tests::wait::eventually;

use super::{
    SOON, attempts, connect, drain, enqueue, grouped, ids, is_blocked, message, messages, name,
    next, open, receive, visibility,
};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(300);

async fn queue(options: QueueOptions) -> Result<StreamQueue, Missing> {
    Ok(open(&connect(&shared_redis_url().await?).await, options))
}

fn window(window: Duration) -> QueueOptions {
    visibility(LONG).window(window).expect("in range")
}

#[tokio::test]
async fn the_memory_of_an_id_ends_with_its_window_and_not_with_its_message() {
    let queue = need!(queue(window(SHORT)).await);
    enqueue(&queue, &[message("a")]).await;

    drain(&queue, 1).await;

    // A duplicate does not prolong the window, or it would never end here.
    eventually(SOON, "the window ends", || async {
        enqueue(&queue, &[message("a")]).await == [Enqueued::Added]
    })
    .await;
    assert_eq!(next(&queue).await.message.id, name("a"));
}

#[tokio::test]
async fn the_memory_of_an_id_lasts_for_the_whole_window() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, window(LONG));

    enqueue(&queue, &[message("a")]).await;

    let key = redis.keys().key("queue", &[queue.name()]);
    let memory = key.part_for("seen", &name("a"));
    let left = server.command(&["PTTL", memory.as_str()]).await;
    let left = left.expect("it answers").int().expect("a number");
    let whole = i64::try_from(LONG.as_millis()).expect("a minute");
    // The server counts down from the whole window, and this machine may be slow.
    assert!((whole / 2..=whole).contains(&left), "{left} ms");
}

#[tokio::test]
async fn a_dead_letter_blocks_its_id_for_the_window_only() {
    let queue = need!(queue(window(SHORT).attempts(attempts(1))).await);
    enqueue(&queue, &[message("a")]).await;
    let delivery = next(&queue).await;
    queue
        .retry(&delivery, Duration::ZERO, "broken")
        .await
        .expect("ours");

    eventually(SOON, "the window ends", || async {
        enqueue(&queue, &[message("a")]).await == [Enqueued::Added]
    })
    .await;

    let depth = queue.depth().await.expect("the queue is there");
    assert_eq!((depth.ready, depth.dead), (1, 1));
}

#[tokio::test]
async fn the_last_place_is_taken_and_the_next_message_refused_with_all_of_its_call() {
    let queue = need!(queue(visibility(LONG).depth(4)).await);
    enqueue(&queue, &grouped("g", &["a", "b"])).await;
    receive(&queue, 1, Duration::ZERO).await;
    enqueue(&queue, &[message("c")]).await;

    let too_many = queue.enqueue(&[message("d"), message("e")]).await;

    assert_eq!(too_many.expect_err("full").kind(), ErrorKind::Unavailable);
    assert_eq!(queue.depth().await.expect("there").open(), 3);
    let one = enqueue(&queue, &[message("d")]).await;
    assert_eq!(one, [Enqueued::Added], "the refused call left no memory");
    let none = queue.enqueue(&[message("e")]).await;
    assert_eq!(none.expect_err("full").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn duplicates_need_no_place() {
    let queue = need!(queue(visibility(LONG).depth(3)).await);
    enqueue(&queue, &messages(0..2)).await;

    let repeated = enqueue(&queue, &messages([0, 1, 2, 2])).await;
    let full = enqueue(&queue, &messages(0..3)).await;

    let (added, duplicate) = (Enqueued::Added, Enqueued::Duplicate);
    assert_eq!(repeated, [duplicate, duplicate, added, duplicate]);
    assert_eq!(full, [duplicate; 3]);
}

#[tokio::test]
async fn a_call_of_several_batches_says_that_part_of_it_happened() {
    let queue = need!(queue(visibility(LONG).depth(300)).await);

    let refused = queue.enqueue(&messages(0..600)).await;

    assert_eq!(refused.expect_err("full").kind(), ErrorKind::Timeout);
    let there = queue.depth().await.expect("there").open();
    assert!((1..=300).contains(&there), "{there} of 600");
    drain(&queue, there as usize).await;
    let again = enqueue(&queue, &messages(0..300)).await;
    let added = again.iter().filter(|one| **one == Enqueued::Added).count();
    assert_eq!(added as u64, 300 - there);
}

#[tokio::test]
async fn a_replay_needs_places() {
    let options = visibility(LONG).depth(2).attempts(attempts(1));
    let queue = need!(queue(options).await);
    enqueue(&queue, &messages(0..2)).await;
    for delivery in receive(&queue, 2, Duration::ZERO).await {
        queue
            .retry(&delivery, Duration::ZERO, "broken")
            .await
            .expect("ours");
    }
    enqueue(&queue, &[message("new")]).await;

    let both = queue.replay(2).await;
    let one = queue.replay(1).await;

    assert_eq!(both.expect_err("full").kind(), ErrorKind::Unavailable);
    assert_eq!(one.expect("the last place"), 1);
}

#[tokio::test]
async fn a_message_that_every_consumer_abandons_is_dead_after_its_attempts() {
    let options = visibility(SHORT).attempts(attempts(2));
    let queue = need!(queue(options).await);
    enqueue(&queue, &grouped("g", &["a", "b"])).await;

    let first = next(&queue).await;
    let second = next(&queue).await;
    // What follows in the group comes only when its head is given up.
    let third = next(&queue).await;

    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(third.message.id, name("b"));
    let letters = queue.dead_letters(10).await.expect("the queue is there");
    assert_eq!(letters[0].message.id, name("a"));
    assert_eq!(letters[0].attempts, 2);
    assert_eq!(letters[0].reason, "not settled in time at its last attempt");
}

#[tokio::test]
async fn a_release_counts_no_attempt() {
    let queue = need!(queue(visibility(LONG).attempts(attempts(1))).await);
    enqueue(&queue, &[message("a")]).await;

    for _ in 0..3 {
        let delivery = next(&queue).await;
        assert_eq!(delivery.attempt, 1);
        let settled = queue.settle(&[(&delivery, Verdict::Release)]).await;
        settled.expect("the queue is there");
    }

    assert_eq!(queue.depth().await.expect("there").dead, 0);
}

#[tokio::test]
async fn the_newest_dead_letters_are_kept() {
    let options = visibility(LONG).attempts(attempts(1));
    let options = options.dead_letters(3.try_into().expect("three"));
    let queue = need!(queue(options).await);
    enqueue(&queue, &messages(0..5)).await;

    for _ in 0..5 {
        let delivery = next(&queue).await;
        queue
            .retry(&delivery, Duration::ZERO, "broken")
            .await
            .expect("ours");
    }

    let letters = queue.dead_letters(10).await.expect("the queue is there");
    let kept: Vec<_> = letters.iter().map(|one| one.message.id.as_str()).collect();
    assert_eq!(kept, ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn replayed_messages_of_a_group_queue_up_behind_it() {
    let queue = need!(queue(visibility(LONG).attempts(attempts(1))).await);
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    for _ in 0..2 {
        let delivery = next(&queue).await;
        queue
            .retry(&delivery, Duration::ZERO, "broken")
            .await
            .expect("ours");
    }

    assert_eq!(queue.replay(10).await.expect("the queue is there"), 2);

    assert_eq!(drain(&queue, 3).await, ["c", "a", "b"]);
    assert_eq!(ids(&receive(&queue, 1, Duration::ZERO).await), [""; 0]);
}

#[tokio::test]
async fn a_retry_without_delay_wakes_who_waits() {
    let server = need!(RedisServer::start().await);
    let queue = open(&connect(&server.url()).await, visibility(LONG));
    enqueue(&queue, &[message("a")]).await;
    let first = next(&queue).await;

    let (second, ()) = tokio::join!(receive(&queue, 1, LONG), async {
        is_blocked(&server).await;
        let settled = queue.retry(&first, Duration::ZERO, "busy").await;
        settled.expect("it is ours");
    });

    assert_eq!((ids(&second), second[0].attempt), (vec!["a"], 2));
}

#[tokio::test]
async fn the_depth_names_every_place() {
    let queue = need!(queue(visibility(LONG).attempts(attempts(2))).await);
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &messages(0..4)).await;

    let deliveries = receive(&queue, 3, Duration::ZERO).await;
    let retried = queue.retry(&deliveries[0], LONG, "busy").await;
    retried.expect("it is ours");
    let reason = "no such customer".to_owned();
    let rejected = [(&deliveries[1], Verdict::DeadLetter { reason })];
    queue.settle(&rejected).await.expect("it is ours");

    let depth = queue.depth().await.expect("the queue is there");
    assert_eq!((depth.ready, depth.waiting, depth.delayed), (2, 2, 1));
    assert_eq!((depth.in_flight, depth.dead, depth.open()), (1, 1, 6));
}

#[tokio::test]
async fn a_server_without_memory_refuses_messages_and_lets_consumers_go_on() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG).attempts(attempts(2)));
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &messages(0..3)).await;
    let full = ["CONFIG", "SET", "maxmemory", "1"];
    server.command(&full).await.expect("set");

    let refused = queue.enqueue(&[message("d")]).await;
    assert_eq!(
        refused.expect_err("no memory").kind(),
        ErrorKind::Unavailable
    );
    let first = next(&queue).await;
    let retried = queue.retry(&first, Duration::from_millis(1), "busy").await;
    retried.expect("it frees memory as well");

    let mut drained = drain(&queue, 6).await;
    drained.sort_unstable();
    assert_eq!(drained, ["a", "b", "c", "m0", "m1", "m2"]);
}

/// All keys of a server, with their TTL in ms, or −1.
async fn keys(server: &RedisServer) -> Vec<(String, i64)> {
    let all = server.command(&["KEYS", "*"]).await.expect("it answers");
    let mut keys = Vec::new();
    for key in all.items() {
        let ttl = server.command(&["PTTL", &key.text()]).await;
        keys.push((key.text(), ttl.expect("it answers").int().expect("a TTL")));
    }
    keys
}

#[tokio::test]
async fn a_drained_queue_is_one_empty_stream() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, window(SHORT).attempts(attempts(2)));
    let stream = redis.keys().key("queue", &[queue.name()]);
    let bodies = |number: usize| Message::new(name(number.to_string()), vec![b'x'; 1000]);
    let batch: Vec<_> = (0..500)
        .map(|number| bodies(number).group(name(format!("{}", number % 7))))
        .collect();

    enqueue(&queue, &batch).await;
    let deliveries = receive(&queue, 2, Duration::ZERO).await;
    queue
        .retry(&deliveries[0], SHORT, "busy")
        .await
        .expect("ours");
    let lasting: BTreeSet<_> = keys(&server)
        .await
        .into_iter()
        .filter(|(_, ttl)| *ttl == -1)
        .collect();
    assert_eq!(
        lasting.len(),
        3 + 7,
        "stream, delays, count and groups: {lasting:?}"
    );
    queue.complete(&deliveries[1]).await.expect("ours");
    assert_eq!(drain(&queue, 499).await.len(), 499);

    eventually(SOON, "the windows end", || async {
        keys(&server).await.len() == 1
    })
    .await;
    assert_eq!(keys(&server).await[0].0, stream.as_str());
    let length = server
        .command(&["XLEN", stream.as_str()])
        .await
        .expect("it answers");
    let memory = server.command(&["MEMORY", "USAGE", stream.as_str()]).await;
    assert_eq!(length.int(), Some(0));
    let memory = memory.expect("it answers").int().expect("a size");
    assert!(memory < 10_000, "{memory} bytes are left");
}

#[tokio::test]
async fn dead_letters_end_some_day_and_leave_no_key_when_replayed() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG).attempts(attempts(1)));
    let dead = redis.keys().key("queue", &[queue.name()]).part("dead");
    enqueue(&queue, &[message("a")]).await;
    let delivery = next(&queue).await;
    queue
        .retry(&delivery, Duration::ZERO, "broken")
        .await
        .expect("ours");

    let ttl = server.command(&["PTTL", dead.as_str()]).await;
    assert!(ttl.expect("it answers").int() > Some(0));
    queue.replay(1).await.expect("the queue is there");

    let exists = server.command(&["EXISTS", dead.as_str()]).await;
    assert_eq!(exists.expect("it answers").int(), Some(0));
}

//! Replies that are lost, servers that restart, and what somebody else left in a queue.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_fanout::{Enqueued, Queue, QueueOptions, StreamQueue, Verdict};
use coord_tests::need;
use coord_tests::need::{Missing, unique};
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::{Cluster, Deployment, RedisServer};

use super::{
    SOON, connect, connect_as, drain, enqueue, grouped, ids, is_blocked, message, messages, name,
    next, open, receive, visibility,
};

/// Found in the requests of one script only, since no other number here reads like it.
const VISIBILITY: Duration = Duration::from_millis(2017);
const VISIBILITY_MS: &str = "2017";

const LONG: Duration = Duration::from_mins(1);

/// A queue that is reached through a proxy, and knows its scripts.
struct Faulty {
    server: RedisServer,
    proxy: FaultProxy,
    queue: StreamQueue,
}

impl Faulty {
    async fn start(options: QueueOptions) -> Result<Self, Missing> {
        let server = RedisServer::start().await?;
        let proxy = FaultProxy::start(server.addr()).await;
        let queue = open(&connect(&proxy.url()).await, options);
        enqueue(&queue, &[message("first")]).await;
        drain(&queue, 1).await;
        Ok(Self {
            server,
            proxy,
            queue,
        })
    }

    async fn open_messages(&self) -> u64 {
        let depth = self.queue.depth().await;
        depth.expect("the queue is there").open()
    }
}

#[tokio::test]
async fn messages_whose_enqueue_lost_its_reply_are_added_once() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);
    let batch = [message("fresh"), message("first"), message("other")];

    let lost = faulty.proxy.lose_reply_to("fresh");
    let outcomes = enqueue(&faulty.queue, &batch).await;
    lost.await;

    let (added, duplicate) = (Enqueued::Added, Enqueued::Duplicate);
    assert_eq!(outcomes, [added, duplicate, added]);
    assert_eq!(drain(&faulty.queue, 2).await, ["fresh", "other"]);
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn messages_whose_enqueue_never_arrived_are_added() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);

    let cut = faulty.proxy.cut_before("fresh");
    let outcomes = enqueue(&faulty.queue, &[message("fresh")]).await;
    cut.await;

    assert_eq!(outcomes, [Enqueued::Added]);
    assert_eq!(drain(&faulty.queue, 1).await, ["fresh"]);
}

#[tokio::test]
async fn an_enqueue_of_unknown_outcome_may_be_repeated() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);

    let fresh = [message("fresh")];
    faulty.proxy.hole_down();
    let unknown = faulty.queue.enqueue(&fresh).await;
    faulty.proxy.heal().await;
    let again = enqueue(&faulty.queue, &fresh).await;

    assert_eq!(unknown.expect_err("no reply").kind(), ErrorKind::Timeout);
    assert_eq!(again, [Enqueued::Duplicate]);
    assert_eq!(faulty.open_messages().await, 1);
}

#[tokio::test]
async fn a_completion_that_lost_its_reply_is_done() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);
    enqueue(&faulty.queue, &grouped("g", &["a", "b"])).await;
    let delivery = next(&faulty.queue).await;

    let lost = faulty.proxy.lose_reply_to("complete");
    let completed = faulty.queue.complete(&delivery).await;
    lost.await;

    completed.expect("it was executed, and found so");
    assert_eq!(drain(&faulty.queue, 1).await, ["b"]);
    assert_eq!(faulty.open_messages().await, 0);
}

#[tokio::test]
async fn a_retry_that_lost_its_reply_happens_once() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);
    enqueue(&faulty.queue, &[message("a")]).await;
    let delivery = next(&faulty.queue).await;

    let lost = faulty.proxy.lose_reply_to("busy");
    let retried = faulty.queue.retry(&delivery, Duration::ZERO, "busy").await;
    lost.await;

    retried.expect("it was executed, and found so");
    assert_eq!(next(&faulty.queue).await.attempt, 2);
    assert_eq!(faulty.open_messages().await, 1);
}

#[tokio::test]
async fn a_delivery_that_lost_its_reply_comes_back_with_an_attempt_counted() {
    let faulty = need!(Faulty::start(visibility(VISIBILITY)).await);
    enqueue(&faulty.queue, &[message("a")]).await;

    let lost = faulty.proxy.lose_reply_to(VISIBILITY_MS);
    let received = faulty.queue.receive(1, Duration::ZERO).await;
    lost.await;

    assert_eq!(received.expect_err("cut").kind(), ErrorKind::Timeout);
    let delivery = next(&faulty.queue).await;
    assert_eq!((delivery.message.id, delivery.attempt), (name("a"), 2));
}

#[tokio::test]
async fn what_a_dropped_receive_was_given_comes_back() {
    let faulty = need!(Faulty::start(visibility(VISIBILITY)).await);

    let mut given = faulty.proxy.hold_reply("XREADGROUP");
    tokio::select! {
        _ = faulty.queue.receive(1, SOON) => panic!("its reply is held"),
        () = async {
            is_blocked(&faulty.server).await;
            enqueue(&faulty.queue, &[message("a")]).await;
            given.reached().await;
        } => {}
    }
    given.release();

    let delivery = next(&faulty.queue).await;
    assert_eq!((delivery.message.id, delivery.attempt), (name("a"), 2));
}

#[tokio::test]
async fn an_extension_that_finds_no_answer_leaves_the_delivery_as_it_is() {
    let faulty = need!(Faulty::start(visibility(LONG)).await);
    enqueue(&faulty.queue, &[message("a")]).await;
    let delivery = next(&faulty.queue).await;
    let receipts = [delivery.receipt.clone()];

    faulty.proxy.hole();
    let unanswered = faulty.queue.extend(&receipts).await;
    faulty.proxy.heal().await;

    let kind = unanswered.expect_err("nobody answers").kind();
    assert!(matches!(kind, ErrorKind::Timeout | ErrorKind::Unavailable));
    faulty.queue.complete(&delivery).await.expect("still ours");
}

#[tokio::test]
async fn a_server_that_keeps_its_data_loses_nothing_over_a_restart() {
    let server = need!(RedisServer::builder().durable().start().await);
    let queue = open(&connect(&server.url()).await, visibility(VISIBILITY));
    enqueue(&queue, &[message("in flight"), message("delayed")]).await;
    let both = receive(&queue, 2, Duration::ZERO).await;
    queue
        .retry(&both[1], Duration::from_millis(1), "busy")
        .await
        .expect("ours");
    enqueue(&queue, &grouped("g", &["a", "b"])).await;

    server.kill().await;
    server.restart().await;

    let duplicates = enqueue(&queue, &[message("in flight"), message("b")]).await;
    assert_eq!(duplicates, [Enqueued::Duplicate; 2]);
    let mut drained = drain(&queue, 4).await;
    let a = drained.iter().position(|id| id == "a").expect("it came");
    let b = drained.iter().position(|id| id == "b").expect("it came");
    assert!(a < b, "the group kept its order");
    drained.sort_unstable();
    assert_eq!(drained, ["a", "b", "delayed", "in flight"]);
}

#[tokio::test]
async fn a_server_that_lost_its_data_takes_messages_again_also_from_who_blocks_on_it() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG));
    enqueue(&queue, &[message("a")]).await;
    drain(&queue, 1).await;

    let (received, ()) = tokio::join!(next(&queue), async {
        is_blocked(&server).await;
        server.command(&["FLUSHALL"]).await.expect("flushed");
        server.command(&["SCRIPT", "FLUSH"]).await.expect("flushed");
        let again = enqueue(&queue, &[message("a")]).await;
        assert_eq!(again, [Enqueued::Added], "the memory of its id is gone too");
    });

    assert_eq!(received.message.id, name("a"));
}

#[tokio::test]
async fn what_is_no_message_is_put_aside_and_the_others_go_on() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG));
    let stream = redis.keys().key("queue", &[queue.name()]);
    let add = ["XADD", stream.as_str(), "*", "hello", "world"];
    server
        .command(&add)
        .await
        .expect("a stream by hand, without a group");
    enqueue(&queue, &[message("a")]).await;

    assert_eq!(drain(&queue, 1).await, ["a"]);

    let letters = queue.dead_letters(10).await.expect("the queue is there");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].attempts, 0);
    assert_eq!(letters[0].reason, "it is no message of this queue");
    let kept = letters[0]
        .message
        .body
        .windows(5)
        .any(|five| five == b"world");
    assert!(kept, "whoever put it there can have it back");
}

#[tokio::test]
async fn a_key_of_another_kind_is_corrupt_and_stays_as_it_is() {
    let server = need!(Deployment::shared().await);
    let prefix = unique("queue");
    let redis = connect_as(&server.url(), &prefix).await;
    let queue = open(&redis, visibility(LONG));
    let key = redis.keys().key("queue", &[queue.name()]);
    let set = ["SET", key.as_str(), "mine"];
    server.command(&set).await.expect("somebody else's");

    let enqueued = queue.enqueue(&[message("a")]).await;
    let received = queue.receive(1, Duration::ZERO).await;
    let depth = queue.depth().await;

    assert_eq!(enqueued.expect_err("theirs").kind(), ErrorKind::Corrupt);
    assert_eq!(received.expect_err("theirs").kind(), ErrorKind::Corrupt);
    assert_eq!(depth.expect_err("theirs").kind(), ErrorKind::Corrupt);
    let keys = server.keys(&prefix).await.expect("it answers");
    assert_eq!(keys, [key.as_str()]);
}

#[tokio::test]
async fn a_receipt_of_another_queue_changes_nothing() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let (queue, other) = (
        open(&redis, visibility(LONG)),
        open(&redis, visibility(LONG)),
    );
    enqueue(&queue, &[message("a")]).await;
    let delivery = next(&queue).await;

    let completed = other.complete(&delivery).await;

    assert_eq!(completed.expect_err("not there").kind(), ErrorKind::Lost);
    queue.complete(&delivery).await.expect("it is here");
}

#[tokio::test]
async fn many_deliveries_are_settled_in_one_call_each_as_it_deserves() {
    let server = need!(Deployment::shared().await);
    let queue = open(&connect(&server.url()).await, visibility(LONG));
    enqueue(&queue, &messages(0..600)).await;
    let mut deliveries = Vec::new();
    while deliveries.len() < 600 {
        deliveries.extend(receive(&queue, 600, Duration::ZERO).await);
    }

    let verdicts: Vec<_> = deliveries
        .iter()
        .enumerate()
        .map(|(number, delivery)| {
            let verdict = match number % 3 {
                0 => Verdict::Complete,
                1 => Verdict::Release,
                _ => Verdict::DeadLetter {
                    reason: "third".to_owned(),
                },
            };
            (delivery, verdict)
        })
        .collect();
    queue.settle(&verdicts).await.expect("the queue is there");

    let depth = queue.depth().await.expect("the queue is there");
    assert_eq!((depth.ready, depth.in_flight, depth.dead), (200, 0, 200));
    let again = receive(&queue, 1, Duration::ZERO).await;
    assert_eq!(again[0].attempt, 1, "a release counts no attempt");
    let letters = queue.dead_letters(1000).await.expect("the queue is there");
    assert_eq!(letters.len(), 200);
    assert_eq!(queue.replay(150).await.expect("the queue is there"), 150);
    let depth = queue.depth().await.expect("the queue is there");
    assert_eq!((depth.open(), depth.dead), (350, 50));
}

#[tokio::test]
async fn a_queue_lies_in_one_slot_of_a_cluster() {
    let cluster = need!(Cluster::start(3).await);
    let redis = connect(&cluster.url()).await;
    let queue = open(
        &redis,
        visibility(LONG).dead_letters(1.try_into().expect("one")),
    );

    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    let first = next(&queue).await;
    queue
        .extend(std::slice::from_ref(&first.receipt))
        .await
        .expect("extended");
    queue
        .retry(&first, Duration::ZERO, "busy")
        .await
        .expect("it is ours");
    assert_eq!(drain(&queue, 2).await, ["a", "b"]);
    let reject = Verdict::DeadLetter {
        reason: "broken".to_owned(),
    };
    queue
        .settle(&[(&next(&queue).await, reject)])
        .await
        .expect("it is ours");
    assert_eq!(queue.replay(1).await.expect("the queue is there"), 1);

    assert_eq!(ids(&receive(&queue, 1, SOON).await), ["c"]);
    let depth = queue.depth().await.expect("the queue is there");
    assert_eq!((depth.open(), depth.in_flight, depth.dead), (1, 1, 0));
}

#[tokio::test]
async fn a_server_without_connections_for_waits_is_asked_in_growing_intervals() {
    const WAIT: Duration = Duration::from_secs(2);
    let server = need!(RedisServer::start().await);
    let queue = open(&connect(&server.url()).await, visibility(LONG));
    enqueue(&queue, &[message("first")]).await;
    drain(&queue, 1).await;
    let mut admin = server.connect().await.expect("it has room");
    let taken = server.info("connected_clients").await.expect("it answers");
    // Without the connection that asked.
    let taken = (taken.parse::<u32>().expect("a number") - 1).to_string();
    let full = ["CONFIG", "SET", "maxclients", &taken];
    admin.command(&full).await.expect("it may be set");
    let mut looks = async || {
        let stats = admin.command(&["INFO", "stats"]).await.expect("it answers");
        let stats = stats.text();
        let calls = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        calls
            .and_then(|calls| calls.parse::<u64>().ok())
            .expect("a number")
    };
    let before = looks().await;

    assert_eq!(ids(&receive(&queue, 1, WAIT).await), [""; 0]);

    // Without pauses there would be tens of thousands.
    let asked = looks().await - before;
    assert!(asked < 1000, "{asked} commands within {WAIT:?}");
}

#[tokio::test]
async fn a_user_who_may_not_add_to_a_queue_loses_nothing_of_it() {
    let rules = ["on", ">secret", "~*", "&*", "+@all"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let url = server.url_as("app", "secret");
    let queue = open(&connect(&url).await, visibility(VISIBILITY));
    let group = grouped("g", &["head", "next"]);
    enqueue(&queue, &[&[message("lone")], group.as_slice()].concat()).await;
    let held = receive(&queue, 3, SOON).await;
    assert_eq!(ids(&held), ["lone", "head"]);
    let may = |what: &'static str| {
        let server = &server;
        async move {
            let set = server.command(&["ACL", "SETUSER", "app", what]).await;
            set.expect("the server takes it");
        }
    };

    may("-xadd").await;
    let retried = queue.retry(&held[0], Duration::ZERO, "again").await;
    let completed = queue.complete(&held[1]).await;
    may("+xadd").await;

    for refused in [retried.map(drop), completed.map(drop)] {
        let refused = refused.expect_err("it is not permitted");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused:#}");
    }
    assert_eq!(drain(&queue, 3).await.len(), 3);
}

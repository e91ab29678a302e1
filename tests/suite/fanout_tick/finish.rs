//! The end of a tick: finished once, refused to others, and the cooldown after it.

use coord_fanout::{FirstRun, Records, Tick};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;

use super::*;

/// What only the call that finishes has: its first argument is the token of 32 bytes.
const FINISH: &[u8] = b":last_tick\r\n$32\r\n";

/// A job that runs at once and then not for a long time.
fn once(job: &str) -> Job {
    Job::message(name(job), rarely(), |_, _| Vec::new()).first_run(FirstRun::AtOnce)
}

/// A server that knows the scripts, and a proxy before it: the next call of each is executed.
async fn behind_a_proxy() -> Result<(RedisServer, FaultProxy), need::Missing> {
    let server = RedisServer::start().await?;
    let (book, mut nodes) = (Book::default(), Nodes::new());
    let warm = unique("warm");
    let redis = connect(&server.url(), &prefix()).await;
    nodes.start(&redis, &book, vec![once(&warm)], orgs(1));
    finished(&warm).await;
    nodes.stop().await;
    let proxy = FaultProxy::start(server.addr()).await;
    Ok((server, proxy))
}

async fn finished(job: &str) {
    let fields = [("job_type", job)];
    recorder()
        .event("fanout.tick.finished", &fields, SOON)
        .await;
}

/// A job whose scan waits until the gate is open, and then hands out one record.
fn gated(job: &str, gate: &watch::Sender<bool>) -> Job {
    let gate = gate.subscribe();
    let scan = move |_: Tick, records: Records| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open)
                .await
                .expect("the test has the gate");
            records.send(Message::new(name("record"), "")).await
        }
    };
    Job::scan(name(job), rarely(), scan).first_run(FirstRun::AtOnce)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_answer_is_lost_is_repeated_and_counts_once() {
    let (_server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&proxy.url(), &prefix).await;
    let lost = proxy.lose_reply_to(FINISH);

    nodes.start(&redis, &book, vec![once("finish-lost")], orgs(1));
    lost.await;
    finished("finish-lost").await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
    let key = lock(&redis, "finish-lost", "org-0");
    let cooldown = get(&redis, &key).await.expect("a cooldown");
    assert!(cooldown.starts_with("done:"), "{cooldown}");
    let fields = [("job_type", "finish-lost")];
    assert_eq!(recorder().seen("fanout.tick.lost", &fields), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_cooldown_is_over_before_it_is_repeated_counts_once() {
    let (server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let near = connect(&server.url(), &prefix).await;
    let redis = connect(&proxy.url(), &prefix).await;
    let key = lock(&near, "finish-late", "org-0");
    let mut held = proxy.hold_reply(FINISH);

    nodes.start(&redis, &book, vec![once("finish-late")], orgs(1));
    held.reached().await;
    near.run(&Command::new("DEL").key(&key))
        .await
        .expect("the server is there");
    proxy.cut().await;
    drop(held);
    finished("finish-late").await;
    nodes.stop().await;

    assert_eq!(get(&near, &key).await, None);
    assert_eq!(book.ids().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_that_was_never_executed_is_repeated() {
    let (_server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&proxy.url(), &prefix).await;
    let cut = proxy.cut_before(FINISH);

    nodes.start(&redis, &book, vec![once("finish-cut")], orgs(1));
    cut.await;
    finished("finish-cut").await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_is_taken_up_by_its_own_retry() {
    let (_server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&proxy.url(), &prefix).await;
    // The first claim only looks, the second one has the instant.
    let first = proxy.lose_reply_to(b"\"ticker\"");
    let second = proxy.lose_reply_to(b"\"ticker\"");
    let third = proxy.lose_reply_to(b"\"ticker\"");

    nodes.start(&redis, &book, vec![once("claim-lost")], orgs(1));
    first.await;
    second.await;
    third.await;
    finished("claim-lost").await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
    let fields = [("job_type", "claim-lost")];
    assert_eq!(recorder().seen("fanout.tick.contended", &fields), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_gets_no_answer_in_time_is_repeated_and_reported() {
    let (_server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect_within(&proxy.url(), &prefix, Duration::from_millis(300)).await;
    let mut held = proxy.hold_reply(b"\"ticker\"");

    nodes.start(&redis, &book, vec![once("claim-held")], orgs(1));
    held.reached().await;
    recorder()
        .event("fanout.tick.claim_failed", &[], SOON)
        .await;
    held.release();
    finished("claim-held").await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_by_a_node_that_lost_the_tick_is_refused() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let (slow, fast) = (connect(&url, &prefix).await, connect(&url, &prefix).await);
    let (shut, open) = (watch::Sender::new(false), watch::Sender::new(true));
    let key = lock(&slow, "refused", "org-0");
    let org = [("job_type", "refused")];

    nodes.start(&slow, &book, vec![gated("refused", &shut)], orgs(1));
    recorder().event("fanout.tick.fired", &org, SOON).await;
    // What a failover may do to a lease.
    slow.run(&Command::new("DEL").key(&key))
        .await
        .expect("the server is there");
    nodes.start(&fast, &book, vec![gated("refused", &open)], orgs(1));
    finished("refused").await;
    let cooldown = get(&slow, &key).await;
    shut.send_replace(true);
    let lost = recorder().event("fanout.tick.lost", &org, SOON).await;
    nodes.stop().await;

    assert_eq!(lost.field("cause"), Some("refused"));
    assert!(cooldown.is_some());
    assert_eq!(get(&slow, &key).await, cooldown);
    assert_eq!(recorder().seen("fanout.tick.finished", &org).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_cannot_be_finished_while_its_lease_lasts_is_lost() {
    let (server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let near = connect(&server.url(), &prefix).await;
    let far = connect_within(&proxy.url(), &prefix, Duration::from_millis(300)).await;
    let job = || once("unanswered").lease(ttl(900));
    let org = [("job_type", "unanswered")];
    let mut held = proxy.hold_request(FINISH);

    nodes.start(&far, &book, vec![job()], orgs(1));
    held.reached().await;
    proxy.hole();
    let lost = recorder().event("fanout.tick.lost", &org, SOON).await;
    nodes.start(&near, &book, vec![job()], orgs(1));
    finished("unanswered").await;
    proxy.heal().await;
    nodes.stop().await;

    assert_eq!(lost.field("cause"), Some("unanswered"));
    let ids = book.ids();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(ids[0], ids[1], "the repetition has the same id");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cooldown_ends_a_second_before_the_next_instant() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let key = lock(&redis, "cooldown", "org-0");

    nodes.start(&redis, &book, vec![once("cooldown")], orgs(1));
    finished("cooldown").await;
    let (now, left) = (server_ms(&redis).await, ms_left(&redis, &key).await);
    nodes.stop().await;

    let period: i64 = 100 * 24 * 3_600_000;
    let next = (now / period + 1) * period;
    let end = now + left;
    assert!((end - (next - 1_000)).abs() < 500, "{end} for {next}");
    let last = get(&redis, &key.part("last_tick")).await;
    assert_eq!(last, Some((next - period).to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_leaves_the_cooldown_and_the_next_node_does_not_run_the_tick_again() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let key = lock(&redis, "rested", "org-0");
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![once("rested")], orgs(1));
    finished("rested").await;
    nodes.stop().await;

    // The cooldown alone still knows of the tick.
    let last = key.part("last_tick");
    redis
        .run(&Command::new("DEL").key(&last))
        .await
        .expect("the server is there");
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![once("rested")], orgs(1));
    need_look(&redis, &last).await;
    nodes.stop().await;

    assert_eq!(book.ids().len(), 1);
    assert!(
        get(&redis, &key)
            .await
            .expect("a cooldown")
            .starts_with("done:")
    );
}

/// Waits until a node has looked, and restored the last tick.
async fn need_look(redis: &Redis, last: &Key) {
    coord_tests::wait::eventually(SOON, "a node restores the last tick", || async {
        get(redis, last).await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_releases_an_unfinished_scan_at_once_for_another_node() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let key = lock(&redis, "handed-over", "org-0");
    let org = [("job_type", "handed-over")];
    let (shut, open) = (watch::Sender::new(false), watch::Sender::new(true));
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![gated("handed-over", &shut)], orgs(1));
    recorder().event("fanout.tick.fired", &org, SOON).await;

    nodes.stop().await;
    assert_eq!(get(&redis, &key).await, None);
    assert_eq!(recorder().seen("fanout.tick.released", &org).len(), 1);

    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![gated("handed-over", &open)], orgs(1));
    finished("handed-over").await;
    nodes.stop().await;
    assert_eq!(book.ids(), ["handed-over:org-0:record"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticker_that_is_dropped_releases_what_it_was_at() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let key = lock(&redis, "dropped", "org-0");
    let shut = watch::Sender::new(false);
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![gated("dropped", &shut)], orgs(1));
    recorder()
        .event("fanout.tick.fired", &[("job_type", "dropped")], SOON)
        .await;

    drop(nodes);

    coord_tests::wait::eventually(SOON, "the lock is free", || async {
        get(&redis, &key).await.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_dropped_on_its_way_is_undone() {
    let (server, proxy) = need!(behind_a_proxy().await);
    let (book, prefix) = (Book::default(), prefix());
    let near = connect(&server.url(), &prefix).await;
    let redis = connect(&proxy.url(), &prefix).await;
    let key = lock(&near, "undone", "org-0");
    // The first claim only looks.
    let first = proxy.next_request_containing(b"\"ticker\"");
    let mut held = proxy.hold_reply(b"\"ticker\"");
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![once("undone")], orgs(1));
    first.await;
    held.reached().await;
    let claimed = get(&near, &key).await;

    drop(nodes);
    held.release();

    assert!(claimed.is_some());
    coord_tests::wait::eventually(SOON, "the lock is free", || async {
        get(&near, &key).await.is_none()
    })
    .await;
}

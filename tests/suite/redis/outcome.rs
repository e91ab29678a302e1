//! What a failed call says about what happened.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_redis::{Command, Receipt, Redis, Reply, Script};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{SOON, config, connect, get, increment, key};

/// Checks so rarely that a paused server keeps its connection.
async fn connect_patiently(url: &str) -> Redis {
    let config = config(url).ping_interval(SOON);
    Redis::connect(config).await.expect("the server is there")
}

static COMPARE_AND_DELETE: Script = Script::new(
    "compare and delete",
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
);

fn undid(reply: &Reply) -> bool {
    *reply == Reply::Int(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_write_is_a_timeout_and_was_executed() {
    let server = need!(RedisServer::start().await);
    let redis = connect_patiently(&server.url()).await;
    let counter = key(&redis, "n");
    server
        .command(&["CLIENT", "PAUSE", "600", "ALL"])
        .await
        .expect("permitted");

    let incr = Command::new("INCR").key(&counter);
    let error = redis
        .run_within(&incr, Duration::from_millis(200))
        .await
        .expect_err("paused");

    assert_eq!(error.kind(), ErrorKind::Timeout);
    eventually(SOON, "it was executed after all", || async {
        get(&redis, &counter).await.as_deref() == Some("1")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_reply_was_lost_is_a_timeout_and_is_not_sent_again() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let counter = key(&redis, "n");
    let lost = proxy.lose_reply_to("INCR");

    let error = increment(&redis, &counter)
        .await
        .expect_err("the reply is lost");

    lost.await;
    assert_eq!(error.kind(), ErrorKind::Timeout);
    eventually(SOON, "connected again", || async {
        redis.run(&Command::new("PING")).await.is_ok()
    })
    .await;
    assert_eq!(get(&redis, &counter).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_call_whose_reply_was_lost_is_sent_again_within_its_deadline() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let name = key(&redis, "a");
    let lost = proxy.lose_reply_to("SET");

    let set = Command::new("SET")
        .key(&name)
        .arg("v")
        .arg("PX")
        .arg(60_000)
        .idempotent();
    let reply = redis.run(&set).await;

    lost.await;
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(get(&redis, &name).await.as_deref(), Some("v"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_left_is_unavailable() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let counter = key(&redis, "n");
    proxy.refuse().await;
    proxy.cut().await;
    eventually(SOON, "the connection is gone", || async {
        proxy.live_connections() == 0
    })
    .await;

    // Until the client has noticed, what it sends may have gone anywhere.
    eventually(SOON, "it is known that nothing leaves", || async {
        let incr = Command::new("INCR").key(&counter);
        let failed = redis.run_within(&incr, Duration::from_millis(20)).await;
        failed.expect_err("cut").kind() == ErrorKind::Unavailable
    })
    .await;
    proxy.heal().await;
    eventually(SOON, "connected again", || async {
        redis.run(&Command::new("PING")).await.is_ok()
    })
    .await;
    assert_eq!(get(&redis, &counter).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_leave_the_replies_of_others_in_order() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;

    for round in 0..200 {
        let echo = Command::new("ECHO").arg("dropped");
        _ = tokio::time::timeout(Duration::ZERO, redis.run(&echo)).await;
        let own = round.to_string();
        let reply = redis
            .run(&Command::new("ECHO").arg(&own))
            .await
            .and_then(Reply::text);
        assert_eq!(reply.expect("connected"), own);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_type_is_corrupt_and_stays() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let name = key(&redis, "list");
    redis
        .run(&Command::new("RPUSH").key(&name).arg("a"))
        .await
        .expect("connected");

    let error = increment(&redis, &name).await.expect_err("it is a list");

    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let length = redis
        .run(&Command::new("LLEN").key(&name))
        .await
        .and_then(Reply::int);
    assert_eq!(length.expect("connected"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_writes_as_unavailable() {
    let server = need!(
        RedisServer::builder()
            .max_memory(1, "noeviction")
            .start()
            .await
    );
    let redis = connect(&server.url()).await;

    let asked = Instant::now();
    let error = increment(&redis, &key(&redis, "n"))
        .await
        .expect_err("out of memory");

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("out of memory"), "{error}");
    assert!(
        asked.elapsed() < Duration::from_millis(900),
        "waiting would not help"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_waited_for_within_the_deadline() {
    let server = need!(
        RedisServer::builder()
            .args(["--lua-time-limit", "50"])
            .start()
            .await
    );
    // A server that runs a script looks at its connections now and then, which is no silence.
    let redis = connect_patiently(&server.url()).await;
    let mut admin = server.connect().await.expect("it answers");
    // Two seconds of the server's own time, read where the script cannot be fooled.
    let spin = "local t = redis.call('TIME') local now = t while (now[1] - t[1]) < 2 do now = redis.call('TIME') end return 1";
    admin.send(&["EVAL", spin, "0"]).await.expect("sent");
    eventually(SOON, "the server says BUSY", || async {
        server.command(&["GET", "x"]).await.is_err()
    })
    .await;

    let reply = redis
        .run_within(&Command::new("INCR").key(&key(&redis, "n")), SOON)
        .await;

    assert_eq!(reply.and_then(Reply::int).expect("it waits"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_dropped_on_the_way_is_undone_once_the_server_is_back() {
    let server = need!(RedisServer::start().await);
    let redis = connect_patiently(&server.url()).await;
    let name = key(&redis, "claim");
    let receipt = Receipt::default();
    server
        .command(&["CLIENT", "PAUSE", "700", "ALL"])
        .await
        .expect("permitted");
    let set = Command::new("SET")
        .key(&name)
        .arg("token")
        .arg("PX")
        .arg(60_000)
        .receipt(&receipt);
    let claimed = tokio::time::timeout(Duration::from_millis(100), redis.run(&set)).await;
    assert!(claimed.is_err(), "the caller gave up");

    let until = Instant::now() + SOON;
    let undo = COMPARE_AND_DELETE.call(&[&name]).arg("token");
    let settled = redis
        .settle(&undo, &receipt, undid, until)
        .await
        .expect("it is back");

    assert!(
        undid(&settled),
        "the claim was executed after the pause, and undone"
    );
    assert_eq!(get(&redis, &name).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_without_an_answer_is_given_up_in_the_end_and_says_so() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let name = key(&redis, "claim");
    server.kill().await;
    let before = recorder().count("redis.release.abandoned", &[]);

    let until = Instant::now() + Duration::from_millis(300);
    let undo = COMPARE_AND_DELETE.call(&[&name]).arg("token");
    let settled = redis.settle(&undo, &Receipt::default(), undid, until).await;

    assert!(settled.is_err(), "{settled:?}");
    assert!(recorder().count("redis.release.abandoned", &[]) > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_held_up_on_a_lost_connection_is_undone_when_it_arrives_late() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let name = key(&redis, "claim");
    let receipt = Receipt::default();
    let mut held = proxy.hold_request(name.as_str());
    let set = Command::new("SET")
        .key(&name)
        .arg("token")
        .arg("PX")
        .arg(60_000)
        .receipt(&receipt);
    let claimed = tokio::time::timeout(Duration::from_millis(100), redis.run(&set)).await;
    assert!(claimed.is_err(), "the caller gave up");
    held.reached().await;

    let (settling, undo) = (
        redis.clone(),
        COMPARE_AND_DELETE.call(&[&name]).arg("token"),
    );
    let until = Instant::now() + SOON;
    let settled = tokio::spawn(async move { settling.settle(&undo, &receipt, undid, until).await });
    let asked = proxy.next_request_containing("EVAL");
    asked.await;
    held.release();

    assert!(undid(
        &settled.await.expect("no panic").expect("it answers")
    ));
    assert_eq!(get(&redis, &name).await, None);
}
